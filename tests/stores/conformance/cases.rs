//! The implementations.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use peerlimit::{
    Limiter, ManualClock, Quota, RateLimiter as _, Scope,
    stores::{
        hybrid::{Hybrid, State},
        memcached::FixedWindow,
        redis::{Redis, SlidingLog, TokenBucket},
    },
};

use super::{Case, Return};
use crate::{
    memcached,
    redis::support,
    servers::{Server, free_port},
};

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

/// Windows at a server of their own.
pub struct Memcached(Server, Real);

pub async fn memcached() -> Option<Memcached> {
    memcached::start().map(|server| Memcached(server, Real::new()))
}

impl Case for Memcached {
    type Limiter = FixedWindow;

    const RETURN: Return = Return::AtItsEnd;
    const COUNTS_REFUSALS: bool = true;

    async fn limiter(&self, name: &str, quota: Quota) -> FixedWindow {
        // What it takes no names of is written as numbers.
        let plain = |letter: char| match letter {
            'a'..='z' | '=' => letter.to_string(),
            other => format!("%{:x}", u32::from(other)),
        };
        memcached::limiter(&name.chars().map(plain).collect::<String>(), quota, &self.0)
    }

    /// A window is filled once and lasts whole seconds. One of a single second may end as soon as it began.
    fn quota(&self, quota: Quota) -> Quota {
        let seconds = quota.refill_time().as_nanos().div_ceil(1_000_000_000).max(2);
        Quota::new(quota.burst_size(), Duration::from_secs(seconds.try_into().unwrap())).unwrap()
    }

    async fn pass(&self, time: Duration) {
        self.1.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.1.0.elapsed()
    }
}

/// A Redis that is well, and a limiter to fall back to.
pub struct OnPrimary(RedisBucket);

pub async fn hybrid_on_primary() -> Option<OnPrimary> {
    redis_bucket().await.map(OnPrimary)
}

impl Case for OnPrimary {
    type Limiter = Hybrid<TokenBucket, Scope>;

    const RETURN: Return = Return::Steadily;

    async fn limiter(&self, name: &str, quota: Quota) -> Self::Limiter {
        let fallback = Limiter::local(quota).scope(name, quota);
        Hybrid::builder(self.0.limiter(name, quota).await, fallback).timeout(PATIENCE).build().unwrap()
    }

    async fn pass(&self, time: Duration) {
        self.0.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Nothing fails that is only slow, on a busy host.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis that is not there, and a limiter that decides instead.
pub struct OnFallback(Scoped);

pub async fn hybrid_on_fallback() -> Option<OnFallback> {
    scope().await.map(OnFallback)
}

impl Case for OnFallback {
    type Limiter = Hybrid<TokenBucket, Scope>;

    const RETURN: Return = Return::Steadily;

    async fn limiter(&self, name: &str, quota: Quota) -> Self::Limiter {
        // Nobody listens at the port of a listener that is gone.
        let nobody = Redis::builder(format!("redis://127.0.0.1:{}/", free_port())).build().unwrap();
        let fallback = self.0.limiter(name, quota).await;
        let hybrid = Hybrid::builder(nobody.token_bucket(name, quota), fallback)
            .timeout(PATIENCE)
            .cool_off(Duration::from_secs(3_600))
            .build()
            .unwrap();
        while hybrid.state() != State::Open {
            let _peeked = hybrid.peek(b"opens", 0).await.unwrap();
        }
        hybrid
    }

    async fn pass(&self, time: Duration) {
        self.0.pass(time).await;
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
