//! What decides, as middleware and combinators see it: a gossiping limiter, a local one, a store.

mod dynamic;

use std::{
    any::Any,
    error::Error,
    future::{Future, Ready},
};

use crate::bucket::{Decision, Quota};

pub use dynamic::{DynDeciding, DynError, DynRateLimiter};

/// Something that decides whether a request may pass.
///
/// [`Limiter`](crate::Limiter) and [`Scope`](crate::Scope) answer at once and never fail; their error type has no values.
/// Stores ask a server. The methods return a future of a named type, so that whoever awaits it needs no box;
/// [`DynRateLimiter`] is for where one type has to stand for all.
///
/// All methods take the key as bytes, and a number of permits. An answer describes the bucket as it is left behind.
pub trait RateLimiter {
    /// Why no decision could be made. A refusal is a [`Decision`], not an error.
    type Error: Error + Send + Sync + 'static;
    /// What is awaited for an answer. It borrows neither the key nor the limiter.
    type Deciding: Future<Output = Result<Decision, Self::Error>> + Send + 'static;

    /// Decides on `cost` permits, all or none, and consumes them if they pass. A cost of 0 consumes nothing.
    fn decide(&self, key: &[u8], cost: u64) -> Self::Deciding;

    /// As [`decide`](Self::decide), where the answer is there at once; `None`, the default, where it has to be waited for, and
    /// then nothing was consumed. It spares those who have an answer at once a future.
    fn decide_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision, Self::Error>> {
        let (_, _) = (key, cost);
        None
    }

    /// Decides on several limits at one instant, all or none, and says on each in [`Ask::answer`]: where all allow, all are
    /// consumed; where any refuses, none is.
    ///
    /// `false`, the default, where that cannot be done, at once or at all. Nothing was consumed and nothing answered then, and
    /// whoever asks goes through them one after the other, and gives back what those before a refusal consumed.
    fn decide_all_now(asks: &mut [Ask<'_, Self>]) -> bool
    where
        Self: Sized,
    {
        let _ = asks;
        false
    }

    /// What [`decide`](Self::decide) would say now. Changes nothing.
    fn peek(&self, key: &[u8], cost: u64) -> Self::Deciding;

    /// Consumes permits of something that has passed already, whether they are there or not.
    fn charge(&self, key: &[u8], permits: u64) -> Self::Deciding;

    /// Gives permits back that were consumed for nothing.
    fn refund(&self, key: &[u8], permits: u64) -> Self::Deciding;

    /// The name and quota by which it decides.
    fn policy(&self) -> Policy;

    /// How permits come back. By default one by one.
    fn refill(&self) -> Refill {
        Refill::Steady
    }
}

/// How permits of a [`RateLimiter`] come back: what can be told of the time between now and a full bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refill {
    /// One by one, at the rate of the quota.
    #[default]
    Steady,
    /// When a window is over, or has slid past them. When the first one is back is not known; all are by then.
    Window,
}

/// One of several limits that are decided on together; see [`RateLimiter::decide_all_now`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Ask<'a, L> {
    /// What decides.
    pub limiter: &'a L,
    /// The key.
    pub key: &'a [u8],
    /// Permits that it has to have.
    pub cost: u64,
    /// Where the answer goes.
    pub answer: &'a mut Option<Decision>,
}

impl<'a, L> Ask<'a, L> {
    /// Asks `limiter` for `cost` permits of `key`.
    pub fn new(limiter: &'a L, key: &'a [u8], cost: u64, answer: &'a mut Option<Decision>) -> Self {
        Self { limiter, key, cost, answer }
    }
}

/// By what a [`RateLimiter`] decides: what a client may be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name; empty for a limiter's default scope. As in [`Decision::policy`].
    pub name: &'static str,
    /// The quota of each key.
    pub quota: Quota,
}

/// The answer of a limiter that has it at once; else the future, which was not polled and may still be moved.
///
/// A limiter that answers at once says so by its type: [`Ready`]. Asking for the type is resolved by the compiler, and
/// spares local limiters what an answer to wait for needs: a clone of the service, or a box.
pub(crate) fn at_once<L: RateLimiter>(deciding: L::Deciding) -> Result<Result<Decision, L::Error>, L::Deciding> {
    let mut deciding = Some(deciding);
    let ready = (&mut deciding as &mut dyn Any).downcast_mut::<Option<Ready<Result<Decision, L::Error>>>>();
    if let Some(answer) = ready.and_then(Option::take) {
        return Ok(answer.into_inner());
    }
    match deciding {
        Some(deciding) => Err(deciding),
        // Taken above, where it returned.
        None => unreachable!("a future that is not ready was not taken"),
    }
}

#[cfg(test)]
mod tests;
