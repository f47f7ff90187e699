//! What is awaited for a decision.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::bucket::Decision;

use super::RedisError;

/// A decision that is on its way. It asks when it is first polled, and must be polled within a tokio runtime.
///
/// Dropping it before its end is safe. Whether its permits are consumed is then unknown.
#[must_use = "futures do nothing unless polled"]
pub struct Deciding(Pin<Box<dyn Future<Output = Result<Decision, RedisError>> + Send>>);

impl Deciding {
    pub(super) fn new(future: impl Future<Output = Result<Decision, RedisError>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl Future for Deciding {
    type Output = Result<Decision, RedisError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deciding")
    }
}
