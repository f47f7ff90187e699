//! Under which key a request is counted.
//!
//! A [`KeyExtractor`] writes the bytes of a key. There are some for what is usual, [`from_fn`] makes one of a function,
//! and a tuple of extractors is one: its parts are written with their lengths, so `("a", "bc")` and `("ab", "c")` are
//! two keys.
//!
//! ```
//! use peerlimit::http::key;
//!
//! // Each user by themselves, and each method and path by itself.
//! let by_user_and_route = (key::bearer_token(), key::method_and_path());
//! // axum's route, as in `/users/{id}`, instead of the path: with axum it is
//! // `head.extensions().get::<MatchedPath>()`.
//! # #[derive(Clone)] struct MatchedPath(String); impl MatchedPath { fn as_str(&self) -> &str { &self.0 } }
//! let by_route = key::from_fn(|head, key| {
//!     let route = head.extensions().get::<MatchedPath>();
//!     key.write(route.map_or("", |route| route.as_str()));
//!     Ok(())
//! });
//! ```
//!
//! What becomes of a request without a key is decided by [`MissingKey`](super::MissingKey).

mod addr;
mod decode;
mod error;
mod forwarded;
mod proxies;
mod request;
mod writer;

pub use addr::{ClientAddr, FromExtension, FromPeerAddr, PeerAddr, PeerSource, peer_addr, peer_addr_from};
pub use error::KeyError;
pub use proxies::{ForwardedHeader, ProxyError, TrustedProxies};
pub use request::{
    BearerToken, FromFn, HeaderKey, MethodAndPath, PathKey, QueryKey, SameKey, bearer_token, from_fn, header,
    method_and_path, path, query, same,
};
pub use writer::KeyWriter;

use super::head::RequestHead;

/// Writes the key under which a request is counted.
pub trait KeyExtractor {
    /// Writes the key of a request.
    ///
    /// # Errors
    ///
    /// The request has no key. What was written until then is not used.
    fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError>;
}

macro_rules! tuples {
    ($(($($part:ident),+))+) => {$(
        /// Each part is written with its length.
        impl<$($part: KeyExtractor),+> KeyExtractor for ($($part,)+) {
            fn extract(&self, head: &RequestHead<'_>, key: &mut KeyWriter) -> Result<(), KeyError> {
                #[allow(non_snake_case, reason = "the names of the types are those of the parts")]
                let ($($part,)+) = self;
                $(key.part(|key| $part.extract(head, key))?;)+
                Ok(())
            }
        }
    )+};
}

tuples! { (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) }

#[cfg(test)]
mod tests;
