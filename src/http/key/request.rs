//! Keys of what a request says itself.

use std::sync::Arc;

use http::{HeaderName, header::AUTHORIZATION};

use super::{KeyError, KeyExtractor, KeyWriter, decode};
use crate::http::head::RequestHead;

/// The value of a header field, byte by byte. Of several lines the first counts; an empty value is none.
///
/// Whoever may choose the value has as many buckets as they like, so take this for what a gateway sets, or stack a
/// limit by
/// [`peer_addr`](super::peer_addr) on top.
pub fn header(name: HeaderName) -> HeaderKey {
    HeaderKey { name }
}

/// See [`header`].
#[derive(Clone, Debug)]
pub struct HeaderKey {
    name: HeaderName,
}

impl KeyExtractor for HeaderKey {
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        let value = head.headers().get(&self.name).filter(|value| !value.is_empty());
        key.write(value.ok_or_else(|| KeyError::NoHeader(self.name.clone()))?);
        Ok(())
    }
}

/// The token of `Authorization: Bearer`, as its SHA-256 digest: neither a store nor a log ever has it.
///
/// Tokens are not checked here. Put the layer inside of what checks them, or clients have as many buckets as they make
/// up tokens.
pub fn bearer_token() -> BearerToken {
    BearerToken(())
}

/// See [`bearer_token`].
#[derive(Clone, Debug)]
pub struct BearerToken(());

impl KeyExtractor for BearerToken {
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        let value = head.headers().get(AUTHORIZATION).ok_or(KeyError::NoToken)?;
        let token = token_of(value.as_bytes()).ok_or(KeyError::NoToken)?;
        key.write(ring::digest::digest(&ring::digest::SHA256, token));
        Ok(())
    }
}

/// RFC 9110, section 11.4: the scheme in any case, at least one space, the token.
fn token_of(credentials: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = credentials.split_at_checked(SCHEME.len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty()).then_some(token)
}

/// The path, so that each has buckets of its own. Escapes that stand for letters, digits, and `-._~` are as good as
/// those (RFC 3986, section 6.2.2.2): `/%61` is `/a`.
///
/// Paths with an id in them are as many keys as there are ids; take the router's pattern then, as in the [example of
/// this module](crate::http::key).
pub fn path() -> PathKey {
    PathKey(())
}

/// See [`path`].
#[derive(Clone, Debug)]
pub struct PathKey(());

impl KeyExtractor for PathKey {
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        decode::write_path(head.uri().path(), key);
        Ok(())
    }
}

/// The method and the [`path`].
pub fn method_and_path() -> MethodAndPath {
    MethodAndPath(())
}

/// See [`method_and_path`].
#[derive(Clone, Debug)]
pub struct MethodAndPath(());

impl KeyExtractor for MethodAndPath {
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        // No method has a space.
        key.write(head.method().as_str());
        key.write(" ");
        path().extract(head, key)
    }
}

/// The value of a query parameter, decoded. Of several the first counts; an empty value is none.
pub fn query(name: impl Into<Arc<str>>) -> QueryKey {
    QueryKey { name: name.into() }
}

/// See [`query`].
#[derive(Clone, Debug)]
pub struct QueryKey {
    name: Arc<str>,
}

impl KeyExtractor for QueryKey {
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        let query = head.uri().query().unwrap_or_default();
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pair = pairs.find(|(name, value)| !value.is_empty() && decode::form(name).eq(self.name.bytes()));
        let (_, value) = pair.ok_or_else(|| KeyError::NoQuery(Arc::clone(&self.name)))?;
        decode::form(value).for_each(|byte| key.write([byte]));
        Ok(())
    }
}

/// One key for all requests: a limit on all of them together.
pub fn same() -> SameKey {
    SameKey(())
}

/// See [`same`].
#[derive(Clone, Debug)]
pub struct SameKey(());

impl KeyExtractor for SameKey {
    fn extract(&self, _head: &RequestHead<'_>, _key: &mut KeyWriter) -> Result<(), KeyError> {
        Ok(())
    }
}

/// What a function writes.
///
/// ```
/// use http::StatusCode;
/// use peerlimit::http::key::{self, KeyError};
///
/// // What middleware before this one found out.
/// #[derive(Clone)]
/// struct Tenant(u64);
/// const UNKNOWN: KeyError = KeyError::Other { status: StatusCode::FORBIDDEN, reason: "no tenant" };
/// let by_tenant = key::from_fn(|head, key| {
///     let Tenant(id) = head.extensions().get().ok_or(UNKNOWN)?;
///     key.write(id.to_le_bytes());
///     Ok(())
/// });
/// ```
pub fn from_fn<F>(extract: F) -> FromFn<F>
where
    F: Fn(&RequestHead<'_>, &mut KeyWriter) -> Result<(), KeyError>,
{
    FromFn { extract }
}

/// See [`from_fn`].
#[derive(Clone, Debug)]
pub struct FromFn<F> {
    extract: F,
}

impl<F> KeyExtractor for FromFn<F>
where
    F: Fn(&RequestHead<'_>, &mut KeyWriter) -> Result<(), KeyError>,
{
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
        (self.extract)(head, key)
    }
}
