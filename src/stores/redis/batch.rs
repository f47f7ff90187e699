//! Decisions that are asked for at the same time, and share a call of the script.
//!
//! A call costs the server as much as what is decided by it, and the client more. So whoever asks while others wait for their
//! answers joins those who ask at the same moment. Nobody is kept waiting for it: a batch is closed when everything that could
//! run has run, and it does not matter whether earlier ones are answered.

use std::{
    mem,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use ::redis::Value;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::RedisError;

/// Most decisions of a call. The server does nothing else meanwhile, for a quarter of a millisecond.
const MOST: usize = 64;

/// What the script answers to one decision. None, or a sender that is gone: it decided nothing, and is asked for that one alone.
pub(super) type Answer = Result<Value, RedisError>;

/// The decisions of a limiter that wait.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Decisions that have no answer yet.
    waiting: AtomicUsize,
    open: Mutex<Batch>,
}

/// The decisions of one call.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The names of all keys, one after the other.
    names: String,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: Range<usize>,
    permits: u64,
    answer: oneshot::Sender<Answer>,
}

/// What is to be done about a batch after somebody joined.
#[derive(Debug)]
pub(super) enum Due {
    /// Nothing: others will.
    Nothing,
    /// It was opened, and is to be closed.
    Close,
    /// It is full, and to be sent.
    Send(Batch),
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
    pub(super) fn join(&self, name: &str, permits: u64) -> (oneshot::Receiver<Answer>, Due) {
        let (answer, receiver) = oneshot::channel();
        let mut open = self.open.lock();
        let begin = open.names.len();
        open.names.push_str(name);
        let name = begin..open.names.len();
        open.members.push(Member { name, permits, answer });
        let due = match open.members.len() {
            MOST => Due::Send(mem::take(&mut *open)),
            1 => Due::Close,
            _ => Due::Nothing,
        };
        (receiver, due)
    }

    /// Closes the batch that is open. It may be empty, where it was full before.
    pub(super) fn close(&self) -> Batch {
        mem::take(&mut *self.open.lock())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.batches.waiting.fetch_sub(1, Relaxed);
    }
}

impl Batch {
    /// Leaves out who does not wait any more: nothing need be consumed.
    pub(super) fn leave_out_dropped(&mut self) {
        self.members.retain(|member| !member.answer.is_closed());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
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

    fn joined(batches: &Batches, count: usize) -> Vec<(oneshot::Receiver<Answer>, Due)> {
        (0..count).map(|index| batches.join(&format!("key {index}"), index as u64)).collect()
    }

    #[test]
    fn the_first_to_join_closes_and_the_last_one_sends() {
        let batches = Batches::default();
        for _ in 0..2 {
            let mut joined = joined(&batches, MOST);
            let (_, last) = joined.pop().unwrap();
            let Due::Send(batch) = last else { panic!("{last:?}") };
            assert_eq!(batch.decisions().len(), MOST);
            assert!(matches!(joined[0].1, Due::Close));
            assert!(joined[1..].iter().all(|(_, due)| matches!(due, Due::Nothing)));
            assert!(batches.close().is_empty());
        }
    }

    #[test]
    fn each_gets_its_own_answer_and_who_left_is_not_asked_for() {
        let batches = Batches::default();
        let mut joined = joined(&batches, 4);
        drop(joined.remove(1));
        let mut batch = batches.close();
        batch.leave_out_dropped();
        assert_eq!(batch.decisions().collect::<Vec<_>>(), [("key 0", 0), ("key 2", 2), ("key 3", 3)]);
        batch.answer(Ok(Value::Array(vec![Value::Int(7), Value::Nil, Value::Int(9)])));
        let answers: Vec<_> = joined.iter_mut().map(|(answer, _)| answer.try_recv().unwrap().unwrap()).collect();
        assert_eq!(answers, [Value::Int(7), Value::Nil, Value::Int(9)]);
    }

    #[test]
    fn one_alone_gets_the_whole_answer() {
        let batches = Batches::default();
        let (mut answer, _) = batches.join("k", 1);
        let whole = Value::Array(vec![Value::Int(1), Value::Int(2)]);
        batches.close().answer(Ok(whole.clone()));
        assert_eq!(answer.try_recv().unwrap().unwrap(), whole);
    }

    #[test]
    fn a_call_that_fails_or_answers_to_others_fails_for_all() {
        let batches = Batches::default();
        let timeout = RedisError::Timeout { after: std::time::Duration::ZERO };
        for answer in [Err(timeout), Ok(Value::Okay), Ok(Value::Array(vec![Value::Int(1)]))] {
            let joined = joined(&batches, 2);
            batches.close().answer(answer);
            for (mut answer, _) in joined {
                assert!(answer.try_recv().unwrap().is_err());
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
