//! Memory is bounded while the primary is away.

use std::{
    future::{Future, Ready, ready},
    net::Ipv4Addr,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use peerlimit::{
    Decision, Limiter, Policy, Quota, RateLimiter,
    stores::hybrid::{Hybrid, State},
};
use tokio::time::sleep;

use super::scripted::{AWAY, Scripted, StoreAway, WELL, clock, pair};

const QUOTA: Quota = Quota::per_hour(100);

#[tokio::test]
async fn the_fallback_has_the_same_memory_cap_as_the_main_path() {
    const MAX_KEYS: usize = 1_024;
    let limiter = || Limiter::builder(QUOTA).bind((Ipv4Addr::LOCALHOST, 0).into()).max_keys(MAX_KEYS).start();
    let (main, fallback) = (limiter().await.unwrap(), limiter().await.unwrap());
    let store = Scripted::new(main.clone());
    let hybrid = Hybrid::builder(store.clone(), fallback).max_owed_keys(MAX_KEYS).build().unwrap();
    store.set(AWAY);
    for key in 0..100_000_u64 {
        assert!(hybrid.decide(&key.to_le_bytes(), 1).await.unwrap().allowed);
        assert!(main.allow(key.to_le_bytes()));
    }
    let (stats, fallback) = (hybrid.stats(), hybrid.fallback().stats());
    assert!(fallback.keys <= MAX_KEYS as u64 && main.stats().keys <= MAX_KEYS as u64, "{fallback:?}");
    assert!(stats.owed_keys <= MAX_KEYS as u64 && stats.owed_keys > 1_000, "{stats:?}");
    assert_eq!(stats.not_repaid, 100_000 - stats.owed_keys);
}

#[tokio::test]
async fn long_keys_do_not_get_around_the_cap() {
    let store = Scripted::new(Limiter::local(QUOTA));
    let hybrid = Hybrid::builder(store.clone(), Limiter::local(QUOTA)).max_owed_keys(1_024).build().unwrap();
    store.set(AWAY);
    for key in 0..1_000_u64 {
        assert!(hybrid.decide(&key.to_le_bytes().repeat(1_024), 1).await.unwrap().allowed);
    }
    // 64 KiB for keys in all.
    assert!(hybrid.stats().owed_keys <= 8, "{:?}", hybrid.stats());
}

#[tokio::test(start_paused = true)]
async fn without_books_nothing_is_kept() {
    let store = Scripted::new(Limiter::local(QUOTA));
    let hybrid = Hybrid::builder(store.clone(), Limiter::local(QUOTA)).max_owed_keys(0).build().unwrap();
    store.set(AWAY);
    for key in 0..1_000_u64 {
        assert!(hybrid.decide(&key.to_le_bytes(), 1).await.unwrap().allowed);
    }
    assert_eq!((hybrid.stats().owed_keys, hybrid.stats().not_repaid), (0, 0));
}

/// The workers that charge the primary hold the hybrid for one key at a time.
#[tokio::test(start_paused = true)]
async fn a_hybrid_that_is_dropped_while_it_pays_ends() {
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    store.set(AWAY);
    for key in 0..1_000_u64 {
        assert!(hybrid.decide(&key.to_le_bytes(), 1).await.unwrap().allowed);
    }
    store.set(WELL);
    sleep(Duration::from_secs(5)).await;
    for _ in 0..3 {
        let _probed = hybrid.peek(b"other", 0).await.unwrap();
    }
    drop(hybrid);
    sleep(Duration::from_millis(100)).await;
    store.asked();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store.asked(), Vec::<&str>::new());
}

/// Fails at once.
struct Failing(Policy);

impl RateLimiter for Failing {
    type Error = StoreAway;
    type Deciding = Ready<Result<Decision, StoreAway>>;

    fn decide(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(StoreAway))
    }

    fn peek(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(StoreAway))
    }

    fn charge(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(StoreAway))
    }

    fn refund(&self, _: &[u8], _: u64) -> Self::Deciding {
        ready(Err(StoreAway))
    }

    fn policy(&self) -> Policy {
        self.0
    }
}

#[tokio::test]
async fn a_decision_on_a_key_of_forty_bytes_allocates_nothing_of_its_own() {
    let key = [b'k'; 40];
    let well = Hybrid::new(Limiter::local(QUOTA), Limiter::local(QUOTA));
    let failing = Hybrid::new(Failing(well.policy()), Limiter::local(QUOTA));
    for _ in 0..10 {
        assert!(well.decide(&key, 1).await.unwrap().allowed && failing.decide(&key, 1).await.unwrap().allowed);
    }
    assert_eq!((well.state(), failing.state()), (State::Closed, State::Open));
    let mut context = Context::from_waker(Waker::noop());
    let counted = allocation_counter::measure(|| {
        assert!(pin!(well.decide(&key, 1)).poll(&mut context).is_ready());
        assert!(pin!(failing.decide(&key, 1)).poll(&mut context).is_ready());
    });
    assert_eq!(counted.count_total, 0);
}
