//! A limiter that fails as told, and time for it.

use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use peerlimit::{Decision, Limiter, ManualClock, Policy, Quota, RateLimiter};
use tokio::time::{Instant, sleep};

/// How a [`Scripted`] limiter behaves from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Decides and says so, after a while.
    After(Duration),
    /// Says after a while that it is away, and does nothing.
    Fails(Duration),
    /// Neither does anything nor says so: stopped.
    Hangs,
    /// Does what it was asked for at once, and never says so.
    Mute,
}

pub const WELL: Mode = Mode::After(Duration::from_millis(1));
pub const AWAY: Mode = Mode::Fails(Duration::ZERO);

/// A local limiter that is waited for, and fails as told. Clones are one.
#[derive(Clone, Debug)]
pub struct Scripted(Arc<State>);

#[derive(Debug)]
struct State {
    limiter: Mutex<Limiter>,
    policy: Policy,
    mode: Mutex<Mode>,
    asked: Mutex<Vec<&'static str>>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAway;

impl fmt::Display for StoreAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store is away")
    }
}

impl Error for StoreAway {}

impl Scripted {
    pub fn new(limiter: Limiter) -> Self {
        let policy = limiter.policy();
        Self(Arc::new(State {
            limiter: limiter.into(),
            policy: Policy { name: "store", ..policy },
            mode: WELL.into(),
            asked: Mutex::default(),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
        }))
    }

    pub fn set(&self, mode: Mode) {
        *self.0.mode.lock().unwrap() = mode;
    }

    /// Comes back without what it knew.
    pub fn restart(&self, limiter: Limiter, mode: Mode) {
        *self.0.limiter.lock().unwrap() = limiter;
        self.set(mode);
    }

    pub fn limiter(&self) -> Limiter {
        self.0.limiter.lock().unwrap().clone()
    }

    /// What it was asked for since this was last asked for.
    pub fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.asked.lock().unwrap())
    }

    /// How many calls were under way at once since this was last asked for.
    pub fn most_under_way(&self) -> usize {
        self.0.most_under_way.swap(0, Relaxed)
    }

    fn run(
        &self,
        call: &'static str,
        run: impl FnOnce(&Limiter) -> Decision + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<Decision, StoreAway>> + Send>> {
        self.0.asked.lock().unwrap().push(call);
        let (this, mode) = (self.clone(), *self.0.mode.lock().unwrap());
        Box::pin(async move {
            let _under_way = UnderWay::new(&this.0);
            match mode {
                Mode::After(pause) => {
                    sleep(pause).await;
                    Ok(run(&this.limiter()).by("store"))
                }
                Mode::Fails(pause) => {
                    sleep(pause).await;
                    Err(StoreAway)
                }
                Mode::Hangs => std::future::pending().await,
                Mode::Mute => {
                    let _unsaid = run(&this.limiter());
                    std::future::pending().await
                }
            }
        })
    }
}

struct UnderWay<'a>(&'a State);

impl<'a> UnderWay<'a> {
    fn new(state: &'a State) -> Self {
        let now = state.under_way.fetch_add(1, Relaxed) + 1;
        state.most_under_way.fetch_max(now, Relaxed);
        Self(state)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

impl RateLimiter for Scripted {
    type Error = StoreAway;
    type Deciding = Pin<Box<dyn Future<Output = Result<Decision, StoreAway>> + Send>>;

    fn decide(&self, key: &[u8], cost: u64) -> Self::Deciding {
        let key = key.to_vec();
        self.run("decide", move |limiter| limiter.check_n(key, cost))
    }

    fn peek(&self, key: &[u8], cost: u64) -> Self::Deciding {
        let key = key.to_vec();
        self.run("peek", move |limiter| limiter.default_scope().peek_n(key, cost))
    }

    fn charge(&self, key: &[u8], permits: u64) -> Self::Deciding {
        let key = key.to_vec();
        self.run("charge", move |limiter| RateLimiter::charge(limiter, &key, permits).into_inner().unwrap())
    }

    fn refund(&self, key: &[u8], permits: u64) -> Self::Deciding {
        let key = key.to_vec();
        self.run("refund", move |limiter| RateLimiter::refund(limiter, &key, permits).into_inner().unwrap())
    }

    fn policy(&self) -> Policy {
        self.0.policy
    }
}

/// A clock that goes with tokio's paused time.
pub fn clock() -> ManualClock {
    const TICK: Duration = Duration::from_millis(1);
    let clock = ManualClock::new();
    let (hand, mut last) = (clock.clone(), Instant::now());
    tokio::spawn(async move {
        loop {
            sleep(TICK).await;
            // A timer may be a tick late.
            let now = Instant::now();
            hand.advance(now - last);
            last = now;
        }
    });
    clock
}

/// A store of that quota, and a local limiter to fall back to.
pub fn pair(quota: Quota, clock: &ManualClock) -> (Scripted, Limiter) {
    let store = Scripted::new(Limiter::local_with_clock(quota, clock.clone()));
    (store, Limiter::local_with_clock(quota, clock.clone()))
}
