//! Turns of those who wait for the same key.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::crdt::Digest;

/// Lets those who wait for one key go one after the other, in the order in which they came.
///
/// Without it whoever wakes first takes the permit, and somebody may wait for ever. A key takes memory as long as somebody
/// waits for it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queues: Mutex<HashMap<Digest, Queue>>,
}

#[derive(Debug)]
struct Queue {
    /// Those who wait, and the one whose turn it is.
    members: usize,
    /// One permit, given out in order.
    turn: Arc<Semaphore>,
}

/// A place in a queue. Dropping it is leaving.
#[derive(Debug)]
struct Place<'t> {
    turns: &'t Turns,
    digest: Digest,
}

/// That it is one's turn, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    // In this order: the next one has its turn before the queue may go.
    _turn: Option<OwnedSemaphorePermit>,
    _place: Place<'t>,
}

impl Turns {
    /// Whether anybody waits for the key.
    pub(crate) fn is_awaited(&self, digest: Digest) -> bool {
        self.queues.lock().contains_key(&digest)
    }

    /// Keys that are waited for.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queues.lock().len()
    }

    /// Waits for a turn. Whoever drops the future leaves the queue, and holds up nobody.
    pub(crate) async fn take(&self, digest: Digest) -> Turn<'_> {
        let (place, turn) = self.join(digest);
        // It is never closed.
        Turn { _turn: turn.acquire_owned().await.ok(), _place: place }
    }

    fn join(&self, digest: Digest) -> (Place<'_>, Arc<Semaphore>) {
        let mut queues = self.queues.lock();
        let queue = queues.entry(digest).or_insert_with(|| Queue { members: 0, turn: Arc::new(Semaphore::new(1)) });
        queue.members += 1;
        (Place { turns: self, digest }, Arc::clone(&queue.turn))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues.lock();
        if let Some(queue) = queues.get_mut(&self.digest) {
            queue.members -= 1;
            if queue.members == 0 {
                queues.remove(&self.digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Digest = Digest::from_words(1, 2);

    #[tokio::test]
    async fn a_queue_goes_when_the_last_one_leaves() {
        let turns = Turns::default();
        let first = turns.take(KEY).await;
        let mut second = Box::pin(turns.take(KEY));
        let waits = tokio::time::timeout(std::time::Duration::ZERO, second.as_mut()).await;
        assert!(waits.is_err(), "two have their turn at once");
        drop(first);
        assert!(turns.is_awaited(KEY));
        drop(second.await);
        assert_eq!((turns.is_awaited(KEY), turns.len()), (false, 0));
    }
}
