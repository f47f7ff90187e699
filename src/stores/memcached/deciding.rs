//! What is awaited for a decision.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::bucket::Decision;

use super::{
    command::{Command, Verb},
    error::MemcachedError,
    pipeline::Answer,
    reply::{Body, Left},
    rule::Counter,
    window::Shared,
};

/// A decision of a [`FixedWindow`](super::FixedWindow) on its way. Asks when it is polled first, and nothing if it
/// never is.
///
/// It is done within [`Builder::timeout`](super::Builder::timeout), or twice that where it finds a counter that never
/// ends and sees to it. Dropped half-way, what it asked may still be counted; other decisions are not disturbed.
#[derive(Debug)]
#[must_use = "nothing is asked before it is awaited"]
pub struct Deciding {
    shared: Arc<Shared>,
    question: Question,
    state: State,
}

/// What is made of the counter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// The request was counted: is it within the limit?
    Counted,
    /// Would a request of that cost be?
    Would(u64),
}

#[derive(Debug)]
enum State {
    New(Command),
    Failed(MemcachedError),
    Asked {
        key: String,
        answer: oneshot::Receiver<Answer>,
    },
    /// A counter without an end was found, and is given one.
    Repairing {
        used: u64,
        answer: oneshot::Receiver<Answer>,
    },
    Done,
}

impl Deciding {
    pub(super) fn new(shared: &Arc<Shared>, question: Question, command: Result<Command, MemcachedError>) -> Self {
        let state = command.map_or_else(State::Failed, State::New);
        Self { shared: Arc::clone(shared), question, state }
    }

    /// The next state, or the outcome.
    fn answered(&self, key: String, body: Body) -> Result<State, Result<Decision, MemcachedError>> {
        match (body, self.question) {
            (Body::Counter { value: used, left: Left::Seconds(seconds) }, _) => {
                // A time that has passed already, which servers give as one that is 2^32 s off.
                if seconds > u64::from(u32::MAX / 2) {
                    return Err(Err(self.shared.no_expiry(&key)));
                }
                Err(Ok(self.decide(Some(Counter { used, seconds }))))
            }
            // Somebody else made it, as ours always end: a window that never did would refuse for ever.
            (Body::Counter { value: used, left: Left::Forever }, _) => {
                tracing::warn!(
                    limiter = self.shared.rule.name,
                    "a counter without an expiry was found, and is given one"
                );
                let expiry = self.shared.expiry(&key).map_err(Err)?;
                let answer = self.shared.ask(Command { key, verb: Verb::Expire { expiry } }).map_err(Err)?;
                Ok(State::Repairing { used, answer })
            }
            (Body::Missing, Question::Would(_)) => Err(Ok(self.decide(None))),
            (Body::Missing | Body::Done | Body::Refused(_), _) => Err(Err(self.shared.senseless(&key))),
        }
    }

    fn decide(&self, counter: Option<Counter>) -> Decision {
        match (self.question, counter) {
            (Question::Counted, Some(counter)) => self.shared.rule.counted(counter),
            (Question::Counted, None) => self.shared.rule.state(0, None),
            (Question::Would(cost), counter) => self.shared.rule.state(cost, counter),
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decision, MemcachedError>> {
        loop {
            let answer = match &mut self.state {
                State::Asked { answer, .. } | State::Repairing { answer, .. } => {
                    // The task answers whatever happens, unless its runtime is gone.
                    match ready!(Pin::new(answer).poll(cx)).unwrap_or(Err(MemcachedError::Closed)) {
                        Ok(body) => Some(body),
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                State::New(_) | State::Failed(_) | State::Done => None,
            };
            self.state = match (mem::replace(&mut self.state, State::Done), answer) {
                (State::New(command), _) => {
                    let key = command.key.clone();
                    match self.shared.ask(command) {
                        Ok(answer) => State::Asked { key, answer },
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                (State::Asked { key, .. }, Some(body)) => match self.answered(key, body) {
                    Ok(next) => next,
                    Err(outcome) => return Poll::Ready(outcome),
                },
                // Done, or missing: it ended meanwhile.
                (State::Repairing { used, .. }, Some(_)) => {
                    let seconds = self.shared.rule.window_seconds();
                    return Poll::Ready(Ok(self.decide(Some(Counter { used, seconds }))));
                }
                (State::Failed(error), _) => return Poll::Ready(Err(error)),
                // Polled after it was done.
                (State::Asked { .. } | State::Repairing { .. } | State::Done, _) => {
                    return Poll::Ready(Err(MemcachedError::Closed));
                }
            };
        }
    }
}

impl Future for Deciding {
    type Output = Result<Decision, MemcachedError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.step(cx));
        self.state = State::Done;
        Poll::Ready(outcome)
    }
}
