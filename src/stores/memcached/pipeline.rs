//! Requests that wait for a server: those not yet sent, and those of one connection that wait for their answers. No
//! I/O.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::bucket::Timestamp;

use super::{
    command::Command,
    error::MemcachedError,
    reply::{Body, Garbage, Reply},
};

pub(super) type Answer = Result<Body, MemcachedError>;

/// One command, and who waits for its answer. All of one server have the same time to be answered, so they fall due in
/// the order in which they were made, but for the moments that callers take to hand them over.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) due: Timestamp,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl Request {
    /// Nobody may wait any more, and that is nobody's fault.
    pub(super) fn answer(self, answer: Answer) {
        let _unless_gone = self.answer.send(answer);
    }
}

/// Of whom errors speak, and how much is held.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) server: Arc<str>,
    pub(super) timeout: Duration,
    /// Most requests that wait, sent or not.
    pub(super) most: usize,
}

impl Limits {
    pub(super) fn timed_out(&self) -> MemcachedError {
        MemcachedError::Timeout { server: Arc::clone(&self.server), timeout: self.timeout }
    }

    pub(super) fn busy(&self) -> MemcachedError {
        MemcachedError::Busy { server: Arc::clone(&self.server), most: self.most }
    }
}

/// Requests that wait for a connection.
#[derive(Debug)]
pub(super) struct Waiting {
    limits: Arc<Limits>,
    requests: VecDeque<Request>,
}

impl Waiting {
    pub(super) fn new(limits: &Arc<Limits>) -> Self {
        Self { limits: Arc::clone(limits), requests: VecDeque::new() }
    }

    pub(super) fn push(&mut self, request: Request) {
        if self.requests.len() < self.limits.most {
            self.requests.push_back(request);
        } else {
            request.answer(Err(self.limits.busy()));
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.requests.front().map(|request| request.due)
    }

    /// Answers those that have waited for too long.
    pub(super) fn expire(&mut self, now: Timestamp) {
        while self.next_due().is_some_and(|due| due <= now) {
            if let Some(request) = self.requests.pop_front() {
                request.answer(Err(self.limits.timed_out()));
            }
        }
    }

    /// Takes all of them out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> + '_ {
        self.requests.drain(..)
    }
}

/// Commands on their way over one connection. Answers come in the order of the commands.
///
/// A caller that is gone, or was told that it took too long, leaves its place to the answer that is still to come. So
/// whatever callers do, an answer meets its own command; the opaque that the server repeats proves it.
#[derive(Debug)]
pub(super) struct Pipeline {
    limits: Arc<Limits>,
    flights: VecDeque<Flight>,
    /// How many of the first flights are overdue, and their callers told so.
    overdue: usize,
    next_opaque: u64,
    /// Whether the server has answered anything.
    answered: bool,
}

#[derive(Debug)]
struct Flight {
    opaque: u64,
    due: Timestamp,
    answer: Option<oneshot::Sender<Answer>>,
}

impl Pipeline {
    /// An answer that is late by that many timeouts does not come any more. A few, since a server that pauses fails
    /// those who wait meanwhile, and a new connection to it would only fail those who come after.
    const PATIENCE: u32 = 2;

    pub(super) fn new(limits: &Arc<Limits>) -> Self {
        Self { limits: Arc::clone(limits), flights: VecDeque::new(), overdue: 0, next_opaque: 0, answered: false }
    }

    /// Appends the command to what is to be sent, unless nobody waits for it any more.
    pub(super) fn send(&mut self, request: Request, now: Timestamp, out: &mut Vec<u8>) {
        if request.answer.is_closed() {
            return;
        }
        if request.due <= now {
            return request.answer(Err(self.limits.timed_out()));
        }
        if self.flights.len() >= self.limits.most {
            return request.answer(Err(self.limits.busy()));
        }
        let opaque = self.next_opaque;
        self.next_opaque = opaque.wrapping_add(1);
        request.command.write(opaque, out);
        self.flights.push_back(Flight { opaque, due: request.due, answer: Some(request.answer) });
    }

    /// Gives an answer to whom it belongs.
    ///
    /// # Errors
    ///
    /// Where it is not the answer to the oldest command. Nobody got it, and the connection is out of step.
    pub(super) fn deliver(&mut self, reply: Reply) -> Result<(), Garbage> {
        let flight = self.flights.pop_front().ok_or(Garbage::OutOfStep)?;
        self.overdue = self.overdue.saturating_sub(1);
        let refused = matches!(reply.body, Body::Refused(_));
        // Errors come without an opaque; all else with it.
        if reply.opaque.map_or(!refused, |opaque| opaque != flight.opaque) {
            self.flights.push_front(flight);
            return Err(Garbage::OutOfStep);
        }
        self.answered = true;
        if let Some(answer) = flight.answer {
            let body = match reply.body {
                Body::Refused(message) => {
                    Err(MemcachedError::Refused { server: Arc::clone(&self.limits.server), message })
                }
                body => Ok(body),
            };
            let _unless_gone = answer.send(body);
        }
        Ok(())
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let given_up = self.flights.front().map(|oldest| self.given_up_at(oldest))?;
        let due = self.flights.get(self.overdue).map_or(given_up, |flight| flight.due);
        Some(due.min(given_up))
    }

    /// Tells those who have waited for too long. Returns whether the oldest answer is so late that none comes any more.
    pub(super) fn expire(&mut self, now: Timestamp) -> bool {
        while let Some(flight) = self.flights.get_mut(self.overdue).filter(|flight| flight.due <= now) {
            if let Some(answer) = flight.answer.take() {
                let _unless_gone = answer.send(Err(self.limits.timed_out()));
            }
            self.overdue += 1;
        }
        self.flights.front().is_some_and(|oldest| self.given_up_at(oldest) <= now)
    }

    fn given_up_at(&self, oldest: &Flight) -> Timestamp {
        oldest.due.saturating_add(self.limits.timeout.saturating_mul(Self::PATIENCE))
    }

    /// Whether no answer is waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered
    }

    /// Tells everybody that no answer comes.
    pub(super) fn fail(self, error: &MemcachedError) {
        for answer in self.flights.into_iter().filter_map(|flight| flight.answer) {
            let _unless_gone = answer.send(Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
