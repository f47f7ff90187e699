//! Asking limiters about one request: what to ask next, and what their answers come to. No future is polled here.

use std::{any::Any, cmp::Reverse, future::Ready};

use smallvec::SmallVec;

use crate::{backend::RateLimiter, bucket::Decision};

use super::{by_response::Timing, key::KeyWriter, limits::Charges, options::OnError};

/// One limit that concerns a request.
#[derive(Debug)]
pub(super) struct Entry<L> {
    pub(super) limiter: L,
    pub(super) key: KeyWriter,
    pub(super) cost: u64,
    /// What was said last. `None` while it was not asked, and where its store failed.
    pub(super) answer: Option<Decision>,
}

/// What all limits come to.
#[derive(Debug)]
pub(super) enum Verdict<E> {
    Pass,
    /// By the entry with that number.
    Refused(usize),
    /// A store failed, and the layer does not let requests pass then.
    Failed(E),
}

/// What to do next.
pub(super) enum Step<L: RateLimiter> {
    /// Wait for this, and give [`Admission::answer`] what it says.
    Ask(L::Deciding),
    Done(Verdict<L::Error>),
}

/// The limits of one request, asked one after the other, all or nothing.
///
/// [`next`](Self::next) says what to wait for, [`answer`](Self::answer) takes what came of it; so on until the first
/// says `Done`.
#[derive(Debug)]
pub(super) struct Admission<L: RateLimiter> {
    pub(super) entries: SmallVec<[Entry<L>; 1]>,
    timing: Timing,
    on_error: OnError,
    /// The entry that is asked, or given back to.
    at: usize,
    /// Set once it is clear that the request may not pass: from then on permits are given back.
    verdict: Option<Verdict<L::Error>>,
}

impl<L: RateLimiter> Admission<L> {
    pub(super) fn new(charges: Charges<L>, timing: Timing, on_error: OnError) -> Self {
        Self { entries: charges.entries, timing, on_error, at: 0, verdict: None }
    }

    pub(super) fn next(&mut self) -> Step<L> {
        if self.verdict.is_some() {
            return self.give_back();
        }
        let Some(Entry { limiter, key, cost, .. }) = self.entries.get(self.at) else {
            return Step::Done(Verdict::Pass);
        };
        Step::Ask(match self.timing {
            Timing::Before => limiter.decide(key.as_bytes(), *cost),
            Timing::After => limiter.peek(key.as_bytes(), *cost),
        })
    }

    /// The first `at` entries consumed permits that they have to get back.
    fn give_back(&mut self) -> Step<L> {
        while self.timing == Timing::Before && self.at > 0 {
            let Entry { limiter, key, cost, answer } = &self.entries[self.at - 1];
            if answer.is_some() && *cost > 0 {
                return Step::Ask(limiter.refund(key.as_bytes(), *cost));
            }
            self.at -= 1;
        }
        Step::Done(self.verdict.take().unwrap_or(Verdict::Pass))
    }

    pub(super) fn answer(&mut self, answer: Result<Decision, L::Error>) {
        if self.verdict.is_some() {
            self.at -= 1;
            let entry = &mut self.entries[self.at];
            match answer {
                Ok(decision) => entry.answer = Some(left_behind(decision)),
                Err(error) => tracing::warn!(%error, "permits of a refused request were not given back"),
            }
            return;
        }
        match answer {
            Ok(decision) => {
                self.entries[self.at].answer = Some(decision);
                if decision.allowed {
                    self.at += 1;
                } else {
                    self.verdict = Some(Verdict::Refused(self.at));
                }
            }
            Err(error) if self.on_error == OnError::Pass => {
                tracing::warn!(%error, "a request passes undecided");
                self.at += 1;
            }
            Err(error) => self.verdict = Some(Verdict::Failed(error)),
        }
    }

    /// Goes on for as long as answers are there at once.
    pub(super) fn run(&mut self) -> Step<L> {
        loop {
            match self.next() {
                Step::Ask(deciding) => match at_once::<L>(deciding) {
                    Ok(answer) => self.answer(answer),
                    Err(deciding) => return Step::Ask(deciding),
                },
                done @ Step::Done(_) => return done,
            }
        }
    }
}

/// What a charge or a refund says of the bucket. Whether it is in debt is no word on this request.
pub(super) fn left_behind(decision: Decision) -> Decision {
    Decision { allowed: true, retry_after: None, ..decision }
}

/// Of several decisions the one that leaves least: a refusal first, then by what remains, then by how long it takes to
/// be back.
pub(super) fn tightest<L>(entries: &[Entry<L>]) -> Option<(&Entry<L>, &Decision)> {
    let decided = entries.iter().filter_map(|entry| entry.answer.as_ref().map(|decision| (entry, decision)));
    decided.min_by_key(|(_, decision)| (decision.allowed, decision.remaining, Reverse(decision.reset_after)))
}

/// The answer of a limiter that has it at once; else the future, which was not polled and may still be moved.
///
/// A limiter that answers at once says so by its type: [`Ready`]. Asking for the type is resolved by the compiler, and
/// spares all requests of local limiters the clone of the service that an answer to wait for needs.
pub(super) fn at_once<L: RateLimiter>(deciding: L::Deciding) -> Result<Result<Decision, L::Error>, L::Deciding> {
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
