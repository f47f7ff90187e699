//! Memory is bounded while the primary is away.

use std::{net::Ipv4Addr, time::Duration};

use peerlimit::{Limiter, Quota, RateLimiter, stores::hybrid::Hybrid};

use super::scripted::{AWAY, Scripted};

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
    let clock = super::scripted::clock();
    let (store, local) = super::scripted::pair(QUOTA, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    store.set(AWAY);
    for key in 0..1_000_u64 {
        assert!(hybrid.decide(&key.to_le_bytes(), 1).await.unwrap().allowed);
    }
    store.set(super::scripted::WELL);
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..3 {
        let _probed = hybrid.peek(b"other", 0).await.unwrap();
    }
    drop(hybrid);
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.asked();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.asked(), Vec::<&str>::new());
}
