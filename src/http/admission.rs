//! Asking limiters about one request: what to ask next, and what their answers come to. No future is polled here.

use std::{borrow::Cow, cmp::Reverse};

use smallvec::SmallVec;

use crate::{
    backend::{Ask, RateLimiter, at_once},
    bucket::Decision,
};

use super::{by_response::Timing, key::KeyWriter, options::OnError};

/// One limit that concerns a request. It borrows the limiter for as long as nothing has to be waited for.
#[derive(Debug)]
pub(super) struct Entry<'a, L: Clone> {
    pub(super) limiter: Cow<'a, L>,
    pub(super) key: KeyWriter,
    pub(super) cost: u64,
    /// What was said last. `None` while it was not asked, and where its store failed.
    pub(super) answer: Option<Decision>,
}

impl<L: RateLimiter + Clone> Entry<'_, L> {
    /// The same, to be kept.
    pub(super) fn into_owned(self) -> Entry<'static, L> {
        let Self { limiter, key, cost, answer } = self;
        Entry { limiter: Cow::Owned(limiter.into_owned()), key, cost, answer }
    }
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

/// Limits that need no memory of their own while they are asked together.
const FEW: usize = 4;

/// How far the limits of one request are asked, all or nothing: together where their limiters can do that, else one after
/// the other.
///
/// [`run`](Self::run) says what to wait for, [`answer`](Self::answer) takes what came of it; so on until there is
/// nothing to wait for, and a [`verdict`](Self::verdict). All calls are about the same entries.
#[derive(Debug)]
pub(super) struct Admission<E> {
    timing: Timing,
    on_error: OnError,
    /// The entry that is asked, or given back to.
    at: usize,
    /// Set once it is clear that the request may not pass: from then on permits are given back.
    verdict: Option<Verdict<E>>,
}

impl<E: std::error::Error> Admission<E> {
    pub(super) fn new(timing: Timing, on_error: OnError) -> Self {
        Self { timing, on_error, at: 0, verdict: None }
    }

    /// Asks for as long as answers are there at once. Returns what to wait for, and `None` when all is decided.
    #[inline]
    pub(super) fn run<L>(&mut self, entries: &mut [Entry<'_, L>]) -> Option<L::Deciding>
    where
        L: RateLimiter<Error = E> + Clone,
    {
        if entries.len() > 1 && self.asks_together(entries) {
            return None;
        }
        if self.timing == Timing::Before && self.verdict.is_none() {
            // Nearly all requests end here, or in the first turn.
            while let Some(Entry { limiter, key, cost, answer }) = entries.get_mut(self.at) {
                match limiter.decide_now(key.as_bytes(), *cost) {
                    Some(Ok(decision)) if decision.allowed => *answer = Some(decision),
                    decided => return self.go_on(entries, decided),
                }
                self.at += 1;
            }
            return None;
        }
        self.go_on(entries, None)
    }

    /// Goes on with an answer, if there is one, to whatever comes next.
    #[inline(never)]
    fn go_on<L>(&mut self, entries: &mut [Entry<'_, L>], answer: Option<Result<Decision, E>>) -> Option<L::Deciding>
    where
        L: RateLimiter<Error = E> + Clone,
    {
        if let Some(answer) = answer {
            self.answer(entries, answer);
        }
        loop {
            if self.verdict.is_none()
                && self.timing == Timing::Before
                && let Some(entry) = entries.get(self.at)
                && let Some(answer) = entry.limiter.decide_now(entry.key.as_bytes(), entry.cost)
            {
                self.answer(entries, answer);
                continue;
            }
            let deciding = self.next(entries)?;
            match at_once::<L>(deciding) {
                Ok(answer) => self.answer(entries, answer),
                Err(deciding) => return Some(deciding),
            }
        }
    }

    /// Asks for all permits at one instant, and whether that could be done.
    #[inline(never)]
    fn asks_together<L>(&mut self, entries: &mut [Entry<'_, L>]) -> bool
    where
        L: RateLimiter<Error = E> + Clone,
    {
        // Nothing is consumed by looking, and what was begun in order is ended in order.
        if self.timing != Timing::Before || self.at > 0 || self.verdict.is_some() {
            return false;
        }
        let asks = entries
            .iter_mut()
            .map(|Entry { limiter, key, cost, answer }| Ask::new(&**limiter, key.as_bytes(), *cost, answer));
        if !L::decide_all_now(&mut asks.collect::<SmallVec<[_; FEW]>>()) {
            return false;
        }
        let refusal = |(index, entry): (usize, &Entry<'_, L>)| {
            let answer = entry.answer.filter(|answer| !answer.allowed)?;
            // What never passes waits longest.
            Some((answer.is_impossible(), answer.retry_after, index))
        };
        let longest = entries.iter().enumerate().filter_map(refusal).max();
        self.verdict = longest.map(|(.., index)| Verdict::Refused(index));
        true
    }

    /// What all limits came to, once.
    pub(super) fn verdict(&mut self) -> Verdict<E> {
        self.verdict.take().unwrap_or(Verdict::Pass)
    }

    fn next<L>(&mut self, entries: &[Entry<'_, L>]) -> Option<L::Deciding>
    where
        L: RateLimiter<Error = E> + Clone,
    {
        if self.verdict.is_some() {
            return self.give_back(entries);
        }
        let Entry { limiter, key, cost, .. } = entries.get(self.at)?;
        Some(match self.timing {
            Timing::Before => limiter.decide(key.as_bytes(), *cost),
            Timing::After => limiter.peek(key.as_bytes(), *cost),
        })
    }

    /// The first `at` entries consumed permits that they have to get back.
    fn give_back<L>(&mut self, entries: &[Entry<'_, L>]) -> Option<L::Deciding>
    where
        L: RateLimiter<Error = E> + Clone,
    {
        while self.timing == Timing::Before && self.at > 0 {
            let Entry { limiter, key, cost, answer } = &entries[self.at - 1];
            if answer.is_some_and(|answer| consumes(&answer)) && *cost > 0 {
                return Some(limiter.refund(key.as_bytes(), *cost));
            }
            self.at -= 1;
        }
        None
    }

    pub(super) fn answer<L: Clone>(&mut self, entries: &mut [Entry<'_, L>], answer: Result<Decision, E>) {
        if self.verdict.is_some() {
            self.at -= 1;
            match answer {
                Ok(decision) => entries[self.at].answer = Some(left_behind(decision)),
                Err(error) => tracing::warn!(%error, "permits of a refused request were not given back"),
            }
            return;
        }
        match answer {
            Ok(decision) => {
                entries[self.at].answer = Some(decision);
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
}

/// What a charge or a refund says of the bucket. Whether it is in debt is no word on this request.
pub(super) fn left_behind(decision: Decision) -> Decision {
    Decision { allowed: true, retry_after: None, ..decision }
}

/// Whether a request that passes consumes permits: those that only the mode of a scope or an exemption let pass do not.
pub(super) fn consumes(decision: &Decision) -> bool {
    !decision.shadowed && !decision.exempt
}

/// What orders decisions by how little they leave: a refusal first, then by what remains, then by how long it takes to
/// be back.
pub(super) fn tightness(decision: &Decision) -> impl Ord + use<> {
    (decision.allowed, decision.remaining, Reverse(decision.reset_after))
}
