//! The answer, until it is there.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::{backend::RateLimiter, bucket::Decision};

use super::{
    call::Call,
    error::{Failure, HybridError},
};

pin_project! {
    /// The answer of a [`Hybrid`](super::Hybrid). Dropped before it is there, it holds up nobody.
    ///
    /// # Panics
    ///
    /// When it has to wait, outside of a tokio runtime with its timer enabled.
    #[must_use = "futures do nothing unless polled"]
    pub struct Deciding<P, F>
    where
        P: RateLimiter,
        F: RateLimiter,
    {
        #[pin]
        stage: Stage<P::Deciding, F::Deciding>,
        // Begins with the first poll that has to wait: most answers of a limiter nearby come without one.
        #[pin]
        patience: Option<Sleep>,
        call: Call<P, F>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<P, F> {
        Primary { #[pin] deciding: P },
        Fallback { #[pin] deciding: F },
    }
}

impl<P: RateLimiter, F: RateLimiter> Deciding<P, F> {
    /// The primary is asked, if the call has leave to, else the fallback.
    pub(super) fn new(call: Call<P, F>) -> Self {
        // In this order: whatever happens in there, the call gives its leave back.
        let (shared, key) = (&call.shared, &call.key);
        let stage = match call.ticket {
            Some(_) => Stage::Primary { deciding: call.op.run(&shared.primary, key, call.amount) },
            None => Stage::Fallback { deciding: call.op.run(&shared.fallback, key, call.amount) },
        };
        Self { stage, patience: None, call }
    }
}

impl<P, F> Future for Deciding<P, F>
where
    P: RateLimiter + Send + Sync + 'static,
    F: RateLimiter + Send + Sync + 'static,
{
    type Output = Result<Decision, HybridError<P::Error, F::Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            let timeout = this.call.shared.timeout;
            match this.stage.as_mut().project() {
                StageProj::Primary { deciding } => {
                    let failure = match ready!(in_time(deciding, this.patience.as_mut(), timeout, cx)) {
                        Ok(answer) => {
                            this.call.by_primary(&answer);
                            return Poll::Ready(Ok(answer));
                        }
                        Err(failure) => failure,
                    };
                    let deciding = this.call.fall_back(failure);
                    this.stage.set(Stage::Fallback { deciding });
                    this.patience.set(None);
                }
                StageProj::Fallback { deciding } => {
                    return Poll::Ready(match ready!(in_time(deciding, this.patience, timeout, cx)) {
                        Ok(answer) => {
                            this.call.by_fallback(&answer);
                            Ok(answer)
                        }
                        Err(failure) => this.call.unanswered(failure),
                    });
                }
            }
        }
    }
}

/// What comes of `deciding` within `timeout`. An answer that is there counts, however late it is looked at.
fn in_time<E: std::error::Error + 'static>(
    deciding: Pin<&mut impl Future<Output = Result<Decision, E>>>,
    mut patience: Pin<&mut Option<Sleep>>,
    timeout: Duration,
    cx: &mut Context<'_>,
) -> Poll<Result<Decision, Failure<E>>> {
    if let Poll::Ready(answer) = deciding.poll(cx) {
        return Poll::Ready(answer.map_err(Failure::Error));
    }
    if patience.is_none() {
        patience.set(Some(sleep(timeout)));
    }
    if let Some(patience) = patience.as_pin_mut() {
        ready!(patience.poll(cx));
    }
    Poll::Ready(Err(Failure::TimedOut(timeout)))
}
