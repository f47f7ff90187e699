//! How to ask one server.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::net::Clock;

use super::{
    command::Command,
    error::MemcachedError,
    link::Link,
    pipeline::{Answer, Limits, Request},
};

/// The handle of the task that talks to a server. The task ends with the last of them.
#[derive(Debug)]
pub(super) struct Client {
    limits: Arc<Limits>,
    clock: Clock,
    queue: mpsc::Sender<Request>,
    /// What sets this server apart in the choice of one.
    seed: u64,
}

impl Client {
    /// Spawns the task. It connects when it is asked for the first time.
    pub(super) fn start(limits: Limits, connect_timeout: Duration, clock: &Clock, runtime: &Handle) -> Self {
        let limits = Arc::new(limits);
        let (sender, queue) = mpsc::channel(limits.most);
        let link = Link::new(&limits, connect_timeout, clock.clone(), queue);
        runtime.spawn(link.run());
        let seed = xxh3_64(limits.server.as_bytes());
        Self { limits, clock: clock.clone(), queue: sender, seed }
    }

    /// Sends a command. The answer comes within the timeout, if only to say that none came.
    pub(super) fn ask(&self, command: Command) -> Result<oneshot::Receiver<Answer>, MemcachedError> {
        let (answer, receiver) = oneshot::channel();
        let due = self.clock.now().saturating_add(self.limits.timeout);
        self.queue.try_send(Request { command, due, answer }).map_err(|error| match error {
            TrySendError::Full(_) => self.limits.busy(),
            TrySendError::Closed(_) => MemcachedError::Closed,
        })?;
        Ok(receiver)
    }

    pub(super) fn server(&self) -> &Arc<str> {
        &self.limits.server
    }
}

/// Which of `clients` has the counter of that key, by rendezvous hashing (Thaler and Ravishankar, 1998): the same one
/// wherever the same servers are given, in any order; and with one server more or less all other keys stay where they
/// are.
pub(super) fn place(clients: &[Client], key: &str) -> usize {
    if clients.len() < 2 {
        return 0;
    }
    let weights = clients.iter().map(|client| xxh3_64_with_seed(key.as_bytes(), client.seed));
    weights.enumerate().max_by_key(|&(_, weight)| weight).map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(servers: &[&str]) -> Vec<Client> {
        let start = |server: &&str| {
            let limits = Limits { server: (*server).into(), timeout: Duration::from_millis(50), most: 8 };
            Client::start(limits, Duration::from_millis(50), &crate::net::ManualClock::new().into(), &Handle::current())
        };
        servers.iter().map(start).collect()
    }

    #[tokio::test]
    async fn all_agree_on_the_server_of_a_key_in_whatever_order_they_were_given() {
        let one_way = clients(&["a:1", "b:1", "c:1"]);
        let other_way = clients(&["c:1", "a:1", "b:1"]);
        let fewer = clients(&["a:1", "b:1"]);
        let mut counts = [0; 3];
        for key in (0..3_000).map(|key| format!("p:n:={key}")) {
            let chosen = place(&one_way, &key);
            counts[chosen] += 1;
            assert_eq!(one_way[chosen].server(), other_way[place(&other_way, &key)].server());
            // Without the third only its own keys move.
            if chosen != 2 {
                assert_eq!(place(&fewer, &key), chosen);
            }
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
