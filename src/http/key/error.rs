//! Why a request has no key.

use std::sync::Arc;

use http::{HeaderName, StatusCode};

/// Why a request has no key, and with which status it is refused for that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nobody left the peer's address in the request's extensions: 500. A fault of how the server is put together,
    /// which no client can help; see [`peer_addr`](super::peer_addr).
    #[error("the peer's address is not in the extensions of the request")]
    NoPeerAddr,
    /// A header field is missing or empty: 400.
    #[error("the header field `{0}` is missing")]
    NoHeader(HeaderName),
    /// There is no bearer token: 401.
    #[error("a bearer token is missing")]
    NoToken,
    /// A query parameter is missing or empty: 400.
    #[error("the query parameter `{0}` is missing")]
    NoQuery(Arc<str>),
    /// What an extractor of yours says.
    #[error("{reason}")]
    Other {
        /// The status with which the request is refused.
        status: StatusCode,
        /// What the client is told.
        reason: &'static str,
    },
}

impl KeyError {
    /// The status with which the request is refused.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoPeerAddr => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoHeader(_) | Self::NoQuery(_) => StatusCode::BAD_REQUEST,
            Self::NoToken => StatusCode::UNAUTHORIZED,
            Self::Other { status, .. } => *status,
        }
    }
}
