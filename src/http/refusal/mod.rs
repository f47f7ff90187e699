//! Responses to requests that may not pass.

mod grpc;
mod problem;

use std::{error::Error, fmt};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header::RETRY_AFTER};

use crate::bucket::Decision;

use super::{
    head::RequestHead,
    headers::{name, whole_seconds},
    key::KeyError,
};

/// Why a request may not pass.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// A limit is used up: 429, `RESOURCE_EXHAUSTED` in gRPC.
    #[non_exhaustive]
    Limited {
        /// What the limiter said. `None` if it said nothing of use, which none does.
        decision: Option<Decision>,
    },
    /// It has no key: [`KeyError::status`], and in gRPC what is nearest to that.
    #[non_exhaustive]
    NoKey {
        /// What is missing.
        error: &'a KeyError,
    },
    /// The store that decides has failed, and requests may not pass undecided: 503, `UNAVAILABLE` in gRPC.
    #[non_exhaustive]
    Unavailable {
        /// Why it failed. Clients are not told.
        error: &'a (dyn Error + Send + Sync),
    },
}

impl<'a> Refusal<'a> {
    pub(super) fn limited(decision: Option<Decision>) -> Self {
        Self::Limited { decision }
    }

    pub(super) fn no_key(error: &'a KeyError) -> Self {
        if *error == KeyError::NoPeerAddr {
            tracing::error!(%error, "the server is to leave it there");
        }
        Self::NoKey { error }
    }

    pub(super) fn unavailable(error: &'a (impl Error + Send + Sync)) -> Self {
        tracing::warn!(%error, "a request is refused undecided");
        Self::Unavailable { error }
    }

    /// The status of the default response, where it is none of gRPC's.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Limited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NoKey { error } => error.status(),
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The default response to the request `head`: problem details (RFC 9457), or for gRPC a response without a
    /// message. The layer adds the header fields that speak of limits, and `Retry-After`.
    ///
    /// A limit that is used up has the problem type `quota-exceeded` of [draft-ietf-httpapi-ratelimit-headers-10,
    /// section 5.1][draft] with the name of the policy:
    ///
    /// ```json
    /// {
    ///   "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
    ///   "title": "Request cannot be satisfied as assigned quota has been exceeded",
    ///   "status": 429,
    ///   "detail": "Try again in 2 s.",
    ///   "violated-policies": ["users"]
    /// }
    /// ```
    ///
    /// A gRPC request, one whose content type begins with `application/grpc`, gets status 200 and `grpc-status` in the
    /// headers. Where waiting helps, `grpc-retry-pushback-ms` says for how long, and `grpc-status-details-bin` holds a
    /// `google.rpc.RetryInfo`; where it does not, the pushback is -1: do not try again.
    ///
    /// [draft]: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10#section-5.1
    #[must_use]
    pub fn response(&self, head: &RequestHead<'_>) -> Response<Bytes> {
        match grpc::content_type(head) {
            Some(content_type) => grpc::response(self, content_type.clone()),
            None => problem::response(self),
        }
    }

    /// What the client is told.
    fn detail(&self) -> Detail<'_> {
        Detail(self)
    }

    fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Limited { decision } => decision.as_ref(),
            _ => None,
        }
    }

    /// The name of the policy that refused.
    fn policy(&self) -> Option<std::borrow::Cow<'static, str>> {
        self.decision().map(|decision| name(decision.policy))
    }

    /// Sets `Retry-After` where waiting helps, unless the response has it: whole seconds, rounded up.
    pub(super) fn retry_after(&self, headers: &mut HeaderMap) {
        if let Some(wait) = self.decision().and_then(|decision| decision.retry_after)
            && !headers.contains_key(RETRY_AFTER)
        {
            headers.insert(RETRY_AFTER, whole_seconds(wait).into());
        }
    }
}

/// One sentence about a refusal.
struct Detail<'a>(&'a Refusal<'a>);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Refusal::Limited { decision: Some(Decision { retry_after: Some(wait), .. }) } => {
                write!(f, "Try again in {} s.", whole_seconds(*wait))
            }
            Refusal::Limited { .. } => f.write_str("The limit does not allow this request at any time."),
            // What is wrong inside of the server is for its log.
            Refusal::NoKey { error } if error.status().is_server_error() => {
                f.write_str("The server cannot tell its clients apart.")
            }
            Refusal::NoKey { error } => write!(f, "This request cannot be counted: {error}."),
            Refusal::Unavailable { .. } => f.write_str("It cannot be decided whether this request may pass."),
        }
    }
}

#[cfg(test)]
mod tests;
