//! What a layer does beside asking.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::Response;

use super::{
    by_response::{ByResponse, Timing},
    head::RequestHead,
    headers::Styles,
    refusal::Refusal,
};

/// What becomes of a request when the store that should decide fails. A [`Limiter`](crate::Limiter) never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// It passes, and a warning is logged: the service outlives its store. The default. It is charged nothing, and its
    /// response says nothing of the limit.
    #[default]
    Pass,
    /// It is answered with 503: no request gets around the limit.
    Refuse,
}

pub(super) type RefusalFn = dyn Fn(&RequestHead<'_>, &Refusal<'_>) -> Response<Bytes> + Send + Sync;

#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) styles: Styles,
    pub(super) on_error: OnError,
    pub(super) counts_preflight: bool,
    pub(super) inserts_decision: bool,
    pub(super) by_response: Option<ByResponse>,
    pub(super) refusal: Option<Arc<RefusalFn>>,
}

impl Options {
    pub(super) fn timing(&self) -> Timing {
        self.by_response.as_ref().map_or(Timing::Before, ByResponse::timing)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("styles", &self.styles)
            .field("on_error", &self.on_error)
            .field("counts_preflight", &self.counts_preflight)
            .field("inserts_decision", &self.inserts_decision)
            .field("by_response", &self.by_response)
            .finish_non_exhaustive()
    }
}
