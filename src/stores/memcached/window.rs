//! The limiter.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    backend::{Policy, RateLimiter, Refill},
    bucket::Quota,
    net::wall_millis,
    stores::key,
};

use super::{
    builder::{Builder, checked_rule},
    client::{Client, place},
    command::{Command, Expiry, Verb},
    deciding::{Deciding, Question},
    error::{BuildError, MemcachedError},
    pipeline::Answer,
    reply::Body,
    rule::Rule,
};

/// A fixed window of each key, counted by memcached servers that all replicas ask.
///
/// Cheap to clone; clones share the connections, which end with the last of them. See [the module](super) for what a
/// fixed window lets through.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clients: Arc<[Client]>,
    pub(super) rule: Rule,
    /// What keys begin with, before the name.
    pub(super) prefix: Arc<str>,
}

impl FixedWindow {
    /// Most permits of one charge; what is above it counts as so many. Well above any limit, and counters wrap around
    /// at 2^64.
    const MAX_CHARGE: u64 = u32::MAX as u64;

    /// Settings of a limiter by that name, which lets `quota.count()` permits through in each window of
    /// `quota.period()`.
    ///
    /// The name becomes [`Decision::policy`](crate::Decision::policy) and a part of each key, so that two limiters of
    /// one prefix do not meet.
    pub fn builder(name: impl Into<String>, quota: Quota) -> Builder {
        Builder::new(name.into(), quota)
    }

    pub(super) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Another limit, with its own keys and quota, over the same connections.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] for a name or quota that [`Builder::build`] refuses.
    pub fn scope(&self, name: &str, quota: Quota) -> Result<Self, BuildError> {
        let rule = checked_rule(name, quota)?;
        let Shared { clients, prefix, .. } = &*self.shared;
        Ok(Self::new(Shared { clients: Arc::clone(clients), rule, prefix: Arc::clone(prefix) }))
    }

    /// Whether one request may pass. If so, its permit is consumed.
    ///
    /// # Errors
    ///
    /// A [`MemcachedError`] where no server answers in time. It is for the caller to let such a request pass or not.
    pub async fn allow(&self, key: impl AsRef<[u8]>) -> Result<bool, MemcachedError> {
        Ok(self.check(key).await?.allowed)
    }

    /// As [`allow`](Self::allow), and says how much is left and how long to wait.
    pub fn check(&self, key: impl AsRef<[u8]>) -> Deciding {
        self.check_n(key, 1)
    }

    /// Decides on `cost` permits, all or none.
    ///
    /// A request that is refused counts as well, and so do those after it: once one was refused, the key is refused
    /// until its window ends. One that is [impossible](crate::Decision::is_impossible) does not count.
    pub fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Deciding {
        let counts = self.shared.rule.counts(cost);
        let question = if counts { Question::Counted } else { Question::Would(cost) };
        self.add(key.as_ref(), if counts { cost } else { 0 }, question)
    }

    /// What [`check`](Self::check) would say now. Changes nothing.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Deciding {
        self.add(key.as_ref(), 0, Question::Would(1))
    }

    /// Permits that would pass right now, from 0 to the quota's count.
    ///
    /// # Errors
    ///
    /// As [`allow`](Self::allow).
    pub async fn remaining(&self, key: impl AsRef<[u8]>) -> Result<u64, MemcachedError> {
        Ok(self.peek(key).await?.remaining)
    }

    /// Consumes permits of something that has passed already, whether they are there or not, at most 2^32 - 1. Returns
    /// the window as it is then.
    pub fn charge(&self, key: impl AsRef<[u8]>, permits: u64) -> Deciding {
        self.add(key.as_ref(), permits.min(Self::MAX_CHARGE), Question::Would(0))
    }

    /// Gives permits back, at most all of them. A key that is not known has all of them. Returns the window as it is
    /// then.
    ///
    /// What was refused counts as well (see [`check_n`](Self::check_n)), so they can be used in this window only where
    /// no more was refused of it.
    pub fn refund(&self, key: impl AsRef<[u8]>, permits: u64) -> Deciding {
        let verb = if permits == 0 { Verb::Read } else { Verb::Take { permits } };
        let command = Command { key: self.shared.key(key.as_ref()), verb };
        Deciding::new(&self.shared, Question::Would(0), Ok(command))
    }

    /// Forgets what was used of a key: its next window begins with its next request.
    ///
    /// # Errors
    ///
    /// As [`allow`](Self::allow).
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), MemcachedError> {
        let key = self.shared.key(key.as_ref());
        let answer = self.shared.ask(Command { key: key.clone(), verb: Verb::Forget })?;
        match answer.await.unwrap_or(Err(MemcachedError::Closed))? {
            Body::Done | Body::Missing => Ok(()),
            Body::Counter { .. } | Body::Refused(_) => Err(self.shared.senseless(&key)),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.rule.name
    }

    /// Its quota.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.shared.rule.quota
    }

    /// Adds to a counter, or reads it where there is nothing to add.
    fn add(&self, key: &[u8], permits: u64, question: Question) -> Deciding {
        let key = self.shared.key(key);
        let command = if permits == 0 {
            Ok(Command { key, verb: Verb::Read })
        } else {
            self.shared.expiry(&key).map(|expiry| Command { key, verb: Verb::Add { permits, expiry } })
        };
        Deciding::new(&self.shared, question, command)
    }
}

impl Shared {
    /// What servers call that key: at most 250 graphic characters.
    fn key(&self, key: &[u8]) -> String {
        let mut out = String::with_capacity(self.prefix.len() + self.rule.name.len() + 2 + key::MAX_LEN);
        for part in [&*self.prefix, ":", self.rule.name, ":"] {
            out.push_str(part);
        }
        key::write(key, &mut out);
        out
    }

    fn client(&self, key: &str) -> &Client {
        &self.clients[place(&self.clients, key)]
    }

    pub(super) fn ask(&self, command: Command) -> Result<oneshot::Receiver<Answer>, MemcachedError> {
        self.client(&command.key).ask(command)
    }

    /// When a window ends that begins now.
    pub(super) fn expiry(&self, key: &str) -> Result<Expiry, MemcachedError> {
        Expiry::after(self.rule.window_seconds(), wall_millis() / 1_000).ok_or_else(|| self.no_expiry(key))
    }

    pub(super) fn no_expiry(&self, key: &str) -> MemcachedError {
        let window = Duration::from_secs(self.rule.window_seconds());
        MemcachedError::Expiry { server: Arc::clone(self.client(key).server()), window }
    }

    /// An answer that the command cannot have.
    pub(super) fn senseless(&self, key: &str) -> MemcachedError {
        let server = Arc::clone(self.client(key).server());
        MemcachedError::Garbled { server, what: "an answer that its command cannot have" }
    }
}

impl RateLimiter for FixedWindow {
    type Error = MemcachedError;
    type Deciding = Deciding;

    fn decide(&self, key: &[u8], cost: u64) -> Deciding {
        self.check_n(key, cost)
    }

    fn peek(&self, key: &[u8], cost: u64) -> Deciding {
        self.add(key, 0, Question::Would(cost))
    }

    fn charge(&self, key: &[u8], permits: u64) -> Deciding {
        FixedWindow::charge(self, key, permits)
    }

    fn refund(&self, key: &[u8], permits: u64) -> Deciding {
        FixedWindow::refund(self, key, permits)
    }

    fn policy(&self) -> Policy {
        Policy { name: self.name(), quota: self.quota() }
    }

    fn refill(&self) -> Refill {
        Refill::Window
    }
}
