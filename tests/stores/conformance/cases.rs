//! The implementations.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use peerlimit::{
    Limiter, ManualClock, Quota, Scope,
    stores::redis::{Redis, SlidingLog, TokenBucket},
};

use super::{Case, Return};
use crate::{redis::support, servers::Server};

/// Time as it goes.
struct Real(Instant);

impl Real {
    fn new() -> Self {
        Self(Instant::now())
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// A node without peers.
pub struct Gossip(Real);

pub async fn gossip() -> Option<Gossip> {
    Some(Gossip(Real::new()))
}

impl Case for Gossip {
    type Limiter = Limiter;

    const RETURN: Return = Return::Steadily;

    async fn limiter(&self, _: &str, quota: Quota) -> Limiter {
        Limiter::builder(quota).bind("127.0.0.1:0".parse().unwrap()).start().await.unwrap()
    }

    async fn pass(&self, time: Duration) {
        self.0.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.0.0.elapsed()
    }

    fn policy_name(&self, _: &'static str) -> &'static str {
        ""
    }
}

/// A limiter without a network.
pub struct Local(ManualClock, Mutex<Duration>);

pub async fn local() -> Option<Local> {
    Some(Local(ManualClock::new(), Mutex::default()))
}

impl Case for Local {
    type Limiter = Limiter;

    const RETURN: Return = Return::Steadily;

    async fn limiter(&self, _: &str, quota: Quota) -> Limiter {
        Limiter::local_with_clock(quota, self.0.clone())
    }

    async fn pass(&self, time: Duration) {
        self.0.advance(time);
        *self.1.lock().unwrap() += time;
    }

    fn elapsed(&self) -> Duration {
        *self.1.lock().unwrap()
    }

    fn policy_name(&self, _: &'static str) -> &'static str {
        ""
    }
}

/// A scope of a limiter without a network.
pub struct Scoped(Limiter, Local);

pub async fn scope() -> Option<Scoped> {
    let local = local().await?;
    Some(Scoped(local.limiter("", Quota::per_second(1)).await, local))
}

impl Case for Scoped {
    type Limiter = Scope;

    const RETURN: Return = Return::Steadily;

    async fn limiter(&self, name: &str, quota: Quota) -> Scope {
        self.0.scope(name, quota)
    }

    async fn pass(&self, time: Duration) {
        self.1.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.1.elapsed()
    }
}

/// A server of its own, and a connection to it.
struct Store(Redis, Real, #[expect(dead_code, reason = "runs as long as this lives")] Server);

impl Store {
    fn start() -> Option<Self> {
        let server = support::start()?;
        Some(Self(support::patient(&server), Real::new(), server))
    }
}

pub struct RedisLog(Store);

pub async fn redis_log() -> Option<RedisLog> {
    Store::start().map(RedisLog)
}

impl Case for RedisLog {
    type Limiter = SlidingLog;

    const RETURN: Return = Return::AsTheyLeft;

    async fn limiter(&self, name: &str, quota: Quota) -> SlidingLog {
        self.0.0.sliding_log(name, quota)
    }

    async fn pass(&self, time: Duration) {
        self.0.1.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.0.1.0.elapsed()
    }
}

pub struct RedisBucket(Store);

pub async fn redis_bucket() -> Option<RedisBucket> {
    Store::start().map(RedisBucket)
}

impl Case for RedisBucket {
    type Limiter = TokenBucket;

    const RETURN: Return = Return::Steadily;

    async fn limiter(&self, name: &str, quota: Quota) -> TokenBucket {
        self.0.0.token_bucket(name, quota)
    }

    async fn pass(&self, time: Duration) {
        self.0.1.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.0.1.0.elapsed()
    }
}
