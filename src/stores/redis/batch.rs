//! Decisions that are asked for at the same time, and share a call of the script.
//!
//! A call costs the server as much as what is decided by it, and the client more. So whoever asks while others wait for their
//! answers joins those who ask at the same moment. Nobody waits for others to come: each member lets what can run now run once,
//! and then closes the batch, if no other has. So none depends on another that is busy or gone.

use std::{
    mem,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use ::redis::Value;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::bucket::Timestamp;

use super::RedisError;

/// Most decisions of a call. The server does nothing else meanwhile, mostly for a quarter of a millisecond.
const MOST: usize = 64;

/// What became of one decision of a call. With [`Value::Nil`], or if the sender is gone, it is to be asked for alone.
pub(super) type Answer = Result<Value, RedisError>;

/// The decisions of a limiter that wait.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Decisions that have no answer yet. Only a hint, so it orders nothing.
    waiting: AtomicUsize,
    open: Mutex<Batch>,
}

/// The decisions of one call.
#[derive(Debug, Default)]
pub(super) struct Batch {
    number: u64,
    /// The names of all keys, one after the other.
    names: String,
    members: Vec<Member>,
    /// When the last of them gives up.
    deadline: Timestamp,
}

#[derive(Debug)]
struct Member {
    name: Range<usize>,
    permits: u64,
    answer: oneshot::Sender<Answer>,
}

/// A decision that has joined a batch.
#[derive(Debug)]
pub(super) struct Joined {
    /// Of the batch.
    pub(super) number: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
    /// The batch, if it is full now: to be sent.
    pub(super) full: Option<Batch>,
}

/// One decision that waits, until it is dropped.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    batches: &'a Batches,
    /// Whether no other waited when it began.
    pub(super) alone: bool,
}

impl Batches {
    pub(super) fn wait(&self) -> Waiting<'_> {
        Waiting { batches: self, alone: self.waiting.fetch_add(1, Relaxed) == 0 }
    }

    /// Adds a decision to the batch that is open.
    pub(super) fn join(&self, name: &str, permits: u64, deadline: Timestamp) -> Joined {
        let (sender, answer) = oneshot::channel();
        let mut open = self.open.lock();
        let begin = open.names.len();
        open.names.push_str(name);
        let name = begin..open.names.len();
        open.members.push(Member { name, permits, answer: sender });
        open.deadline = open.deadline.max(deadline);
        let number = open.number;
        let full = (open.members.len() == MOST).then(|| open.take());
        Joined { number, answer, full }
    }

    /// Closes the batch of that number, and returns it to be sent. None if it is closed.
    pub(super) fn close(&self, number: u64) -> Option<Batch> {
        let mut open = self.open.lock();
        (open.number == number).then(|| open.take())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.batches.waiting.fetch_sub(1, Relaxed);
    }
}

impl Batch {
    /// Leaves the next one open.
    fn take(&mut self) -> Self {
        let next = Self { number: self.number + 1, ..Self::default() };
        mem::replace(self, next)
    }

    /// When the last of its members gives up.
    pub(super) fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Leaves out who does not wait any more: nothing need be consumed.
    pub(super) fn leave_out_dropped(&mut self) {
        self.members.retain(|member| !member.answer.is_closed());
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The name of a key, and permits.
    pub(super) fn decisions(&self) -> impl ExactSizeIterator<Item = (&str, u64)> + Clone {
        self.members.iter().map(|member| (&self.names[member.name.clone()], member.permits))
    }

    /// Tells everybody what became of the call.
    pub(super) fn answer(self, answer: Answer) {
        let answers = match answer {
            Ok(answer) if self.members.len() == 1 => vec![answer],
            Ok(Value::Array(answers)) if self.members.len() == answers.len() => answers,
            failed => {
                let error = failed.map_or_else(|error| error, |answer| RedisError::no_decision(&answer));
                // Who does not wait any more need not be told.
                self.members.into_iter().for_each(|member| drop(member.answer.send(Err(error.clone()))));
                return;
            }
        };
        for (member, answer) in self.members.into_iter().zip(answers) {
            drop(member.answer.send(Ok(answer)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(batches: &Batches, count: usize) -> Vec<Joined> {
        let join = |index| batches.join(&format!("key {index}"), index, Timestamp::from_millis(1_000 - index));
        (0..count as u64).map(join).collect()
    }

    #[test]
    fn whoever_comes_first_closes_a_batch_and_nobody_twice() {
        let batches = Batches::default();
        for number in 0..3 {
            let joined = joined(&batches, 3);
            assert!(joined.iter().all(|joined| joined.number == number && joined.full.is_none()));
            let batch = batches.close(number).unwrap();
            assert_eq!((batch.len(), batch.deadline()), (3, Timestamp::from_millis(1_000)));
            assert!(batches.close(number).is_none());
        }
    }

    #[test]
    fn the_last_one_sends_a_batch_that_is_full() {
        let batches = Batches::default();
        let mut joined = joined(&batches, MOST);
        assert_eq!(joined.pop().unwrap().full.unwrap().decisions().len(), MOST);
        assert!(joined.iter().all(|joined| joined.full.is_none()));
        assert!(batches.close(0).is_none());
        assert_eq!(batches.close(1).unwrap().len(), 0);
    }

    #[test]
    fn each_gets_its_own_answer_and_who_left_is_not_asked_for() {
        let batches = Batches::default();
        let mut joined = joined(&batches, 4);
        drop(joined.remove(1));
        let mut batch = batches.close(0).unwrap();
        batch.leave_out_dropped();
        assert_eq!(batch.decisions().collect::<Vec<_>>(), [("key 0", 0), ("key 2", 2), ("key 3", 3)]);
        batch.answer(Ok(Value::Array(vec![Value::Int(7), Value::Nil, Value::Int(9)])));
        let answers: Vec<_> = joined.iter_mut().map(|joined| joined.answer.try_recv().unwrap().unwrap()).collect();
        assert_eq!(answers, [Value::Int(7), Value::Nil, Value::Int(9)]);
    }

    #[test]
    fn one_alone_gets_the_whole_answer() {
        let batches = Batches::default();
        let mut joined = joined(&batches, 1).remove(0);
        let whole = Value::Array(vec![Value::Int(1), Value::Int(2)]);
        batches.close(0).unwrap().answer(Ok(whole.clone()));
        assert_eq!(joined.answer.try_recv().unwrap().unwrap(), whole);
    }

    #[test]
    fn a_call_that_fails_or_answers_to_others_fails_for_all() {
        let batches = Batches::default();
        let timeout = RedisError::Timeout { after: std::time::Duration::ZERO };
        for answer in [Err(timeout), Ok(Value::Okay), Ok(Value::Array(vec![Value::Int(1)]))] {
            let joined = joined(&batches, 2);
            batches.close(joined[0].number).unwrap().answer(answer);
            for mut joined in joined {
                assert!(joined.answer.try_recv().unwrap().is_err());
            }
        }
    }

    #[test]
    fn who_waits_is_counted() {
        let batches = Batches::default();
        let first = batches.wait();
        let second = batches.wait();
        assert!(first.alone && !second.alone);
        drop(first);
        assert!(!batches.wait().alone);
        drop(second);
        assert!(batches.wait().alone);
    }
}
