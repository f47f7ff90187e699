//! A switch does not give the budget twice, in virtual time.

use std::time::Duration;

use peerlimit::{
    Limiter, ManualClock, Quota, RateLimiter,
    stores::hybrid::{Hybrid, State},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::scripted::{AWAY, Mode, Scripted, StoreAway, WELL, clock, pair};

/// Nothing comes back while a test runs.
const SLOW: Quota = Quota::per_day(1_000);

async fn take(hybrid: &Hybrid<Scripted, Limiter>, count: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..count {
        admitted += u64::from(hybrid.decide(b"user", 1).await.unwrap().allowed);
    }
    admitted
}

/// Out of the way of the key that the test is about.
async fn open(hybrid: &Hybrid<Scripted, Limiter>, store: &Scripted) {
    store.set(AWAY);
    while hybrid.state() != State::Open {
        let _peeked = hybrid.peek(b"other", 0).await.unwrap();
    }
}

async fn close(hybrid: &Hybrid<Scripted, Limiter>, store: &Scripted) {
    store.set(WELL);
    sleep(Duration::from_secs(5)).await;
    while hybrid.state() != State::Closed {
        let _peeked = hybrid.peek(b"other", 0).await.unwrap();
    }
    // The worker pays.
    sleep(Duration::from_millis(20)).await;
    assert_eq!(hybrid.stats().owed_keys, 0);
}

#[tokio::test(start_paused = true)]
async fn a_switch_starts_from_the_spent_level() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    assert_eq!(take(&hybrid, 700).await, 700);
    let _charged = hybrid.charge(b"user", 100).await.unwrap();
    let _refunded = hybrid.refund(b"user", 50).await.unwrap();
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 500).await, 250);
}

#[tokio::test(start_paused = true)]
async fn without_warming_a_switch_starts_afresh() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).warm_fallback(false).build().unwrap();
    assert_eq!(take(&hybrid, 700).await, 700);
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 2_000).await, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_return_starts_from_what_the_fallback_admitted() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    assert_eq!(take(&hybrid, 300).await, 300);
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 400).await, 400);
    let _charged = hybrid.charge(b"user", 60).await.unwrap();
    let _refunded = hybrid.refund(b"user", 10).await.unwrap();
    assert_eq!(hybrid.stats().owed_keys, 1);
    close(&hybrid, &store).await;
    assert_eq!((store.limiter().peek("user").remaining, hybrid.stats().repaid), (250, 450));
    assert_eq!(take(&hybrid, 1_000).await, 250);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_lost_its_data_is_told_what_the_fallback_admitted() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock.clone()).build().unwrap();
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 2_000).await, 1_000);
    store.restart(Limiter::local_with_clock(SLOW, clock), WELL);
    close(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 100).await, 0);
}

#[tokio::test(start_paused = true)]
async fn without_repaying_a_return_starts_from_what_the_primary_knows() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).repay_primary(false).build().unwrap();
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 400).await, 400);
    close(&hybrid, &store).await;
    assert_eq!(store.limiter().peek("user").remaining, 1_000);
}

#[tokio::test(start_paused = true)]
async fn what_is_refilled_meanwhile_is_not_charged() {
    let quota = Quota::per_second(10).burst(50);
    let clock = clock();
    let (store, local) = pair(quota, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 30).await, 30);
    sleep(Duration::from_secs(10)).await;
    close(&hybrid, &store).await;
    assert_eq!((store.limiter().peek("user").remaining, hybrid.stats().repaid), (50, 0));
    assert!(!store.asked().contains(&"charge"));
}

/// What the primary was asked and did not answer in time, it may have done.
#[tokio::test(start_paused = true)]
async fn what_was_not_answered_in_time_is_charged_once() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    store.set(Mode::Mute);
    assert_eq!(take(&hybrid, 5).await, 5);
    assert_eq!((hybrid.state(), hybrid.stats().owed_keys), (State::Open, 0));
    assert_eq!(store.limiter().peek("user").remaining, 995);
    assert_eq!(hybrid.fallback().peek("user").remaining, 995);
    close(&hybrid, &store).await;
    assert_eq!(store.limiter().peek("user").remaining, 995);
}

#[tokio::test(start_paused = true)]
async fn errors_that_leave_open_what_was_done_are_as_timeouts() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).may_be_done(|error| *error == StoreAway);
    let hybrid = hybrid.build().unwrap();
    store.set(AWAY);
    assert_eq!(take(&hybrid, 10).await, 10);
    close(&hybrid, &store).await;
    // Those that did not ask the primary.
    assert_eq!(hybrid.stats().repaid, 5);
}

#[tokio::test(start_paused = true)]
async fn a_single_error_does_not_lose_an_admission() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    store.set(AWAY);
    assert_eq!(take(&hybrid, 1).await, 1);
    store.set(WELL);
    // Two successes make up for one failure; then it is charged, without any change of the state.
    assert_eq!(take(&hybrid, 2).await, 2);
    sleep(Duration::from_millis(20)).await;
    let stats = hybrid.stats();
    assert_eq!((stats.state, stats.openings, stats.repaid, stats.owed_keys), (State::Closed, 0, 1, 0));
    assert_eq!(store.limiter().peek("user").remaining, 997);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_decided_by_the_fallback_until_the_primary_knows_of_it() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    open(&hybrid, &store).await;
    assert_eq!(take(&hybrid, 1_000).await, 1_000);
    sleep(Duration::from_secs(5)).await;
    store.set(Mode::After(Duration::from_millis(20)));
    for _ in 0..3 {
        let _probed = hybrid.peek(b"other", 0).await.unwrap();
    }
    assert_eq!(hybrid.state(), State::Closed);
    assert_eq!(take(&hybrid, 1).await, 0);
    assert_eq!(hybrid.decide(b"user", 1).await.unwrap().policy, "", "its charge is under way");
    assert_eq!(hybrid.decide(b"unknown", 1).await.unwrap().policy, "store", "other keys go to the primary");
    sleep(Duration::from_millis(30)).await;
    assert_eq!((hybrid.decide(b"user", 1).await.unwrap().policy, hybrid.stats().repaid), ("store", 1_000));
}

#[tokio::test(start_paused = true)]
async fn many_keys_are_charged_in_the_background_and_decisions_do_not_wait_for_it() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    open(&hybrid, &store).await;
    for key in 0..5_000_u32 {
        assert!(hybrid.decide(&key.to_le_bytes(), 1 + u64::from(key % 7)).await.unwrap().allowed);
    }
    sleep(Duration::from_secs(5)).await;
    store.set(WELL);
    store.most_under_way();
    for _ in 0..3 {
        let _probed = hybrid.peek(b"other", 0).await.unwrap();
    }
    assert!(hybrid.stats().owed_keys > 4_900);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(hybrid.stats().owed_keys, 0);
    assert!(store.most_under_way() <= 16 + 1);
    for key in 0..5_000_u32 {
        assert_eq!(store.limiter().peek(key.to_le_bytes()).remaining, 999 - u64::from(key % 7), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_goes_again_while_it_is_charged_is_charged_the_rest_later() {
    let clock = clock();
    let (store, local) = pair(SLOW, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    open(&hybrid, &store).await;
    for key in 0..1_000_u32 {
        assert!(hybrid.decide(&key.to_le_bytes(), 5).await.unwrap().allowed);
    }
    sleep(Duration::from_secs(5)).await;
    store.set(WELL);
    for _ in 0..3 {
        let _probed = hybrid.peek(b"other", 0).await.unwrap();
    }
    sleep(Duration::from_millis(10)).await;
    open(&hybrid, &store).await;
    let stats = hybrid.stats();
    assert!(stats.state == State::Open && (1..1_000).contains(&stats.owed_keys), "{stats:?}");
    sleep(Duration::from_secs(10)).await;
    store.set(WELL);
    for _ in 0..3 {
        let _probed = hybrid.peek(b"other", 0).await.unwrap();
    }
    sleep(Duration::from_secs(2)).await;
    let stats = hybrid.stats();
    assert_eq!((stats.state, stats.owed_keys, stats.not_repaid, stats.repaid), (State::Closed, 0, 0, 5_000));
}

/// Hours of overload, and a primary whose clock runs ahead of ours by a hundredth: it admits more than the fallback thinks right.
#[tokio::test(start_paused = true)]
async fn hours_of_overload_leave_the_fallback_with_hardly_any_debt() {
    const HOURS: u64 = 2;
    let (there, here) = (ManualClock::new(), ManualClock::new());
    let quota = Quota::per_second(10).burst(100);
    let store = Scripted::new(Limiter::local_with_clock(quota, there.clone()));
    store.set(Mode::After(Duration::ZERO));
    let local = Limiter::local_with_clock(quota, here.clone());
    let hybrid = Hybrid::builder(store.clone(), local).clock(here.clone()).build().unwrap();
    let mut admitted = 0;
    for _ in 0..HOURS * 3_600 * 20 {
        here.advance(Duration::from_micros(50_000));
        there.advance(Duration::from_micros(50_500));
        admitted += take(&hybrid, 1).await;
    }
    // 720 permits more, seven bursts.
    assert!(admitted > 100 + HOURS * 36_000 + 700, "{admitted}");
    store.set(AWAY);
    while hybrid.state() != State::Open {
        let _answer = hybrid.decide(b"other", 0).await.unwrap();
    }
    let wait = hybrid.decide(b"user", 1).await.unwrap().retry_after.unwrap_or_default();
    assert!(wait <= Duration::from_millis(500), "a client waits {wait:?}");
}

/// The primary is out of reach for one replica alone: what the others admit by it is not there for that one's fallback.
#[tokio::test(start_paused = true)]
async fn a_replica_that_alone_lost_the_primary_adds_no_budget_of_its_own() {
    let quota = Quota::per_second(100).burst(50);
    let clock = clock();
    let (store, gossip) = pair(quota, &clock);
    let unreachable = Scripted::new(store.limiter());
    store.set(Mode::After(Duration::ZERO));
    unreachable.set(AWAY);
    let replica =
        |store: &Scripted| Hybrid::builder(store.clone(), gossip.clone()).clock(clock.clone()).build().unwrap();
    let (well, cut_off) = (replica(&store), replica(&unreachable));
    let (begin, mut admitted) = (Instant::now(), 0);
    for call in 0..20_000 {
        sleep_until(begin + Duration::from_millis(call)).await;
        admitted += take(if call % 2 == 0 { &well } else { &cut_off }, 1).await;
    }
    let central = 50.0 + 100.0 * 20.0;
    let ratio = admitted as f64 / central;
    assert!((0.95..=1.05).contains(&ratio), "{ratio}");
}

/// Three replicas at ten times the quota with what gossip comes to: one fallback that all of them share. Thirty seconds, of
/// which the primary is away for ten, and comes back without its data.
#[tokio::test(start_paused = true)]
async fn three_replicas_admit_what_one_central_bucket_would() {
    let shared = three_replicas(true, true).await;
    assert!((0.95..=1.05).contains(&shared), "{shared}");
    // What it is for.
    let each = three_replicas(false, true).await;
    assert!(each > 1.5, "{each}");
}

/// What was admitted, in units of what one central bucket would have.
async fn three_replicas(gossip: bool, keeps_books: bool) -> f64 {
    let quota = Quota::per_second(100).burst(50);
    let clock = clock();
    let (store, local) = pair(quota, &clock);
    let replicas: Vec<_> = (0..3)
        .map(|_| {
            let alone = Limiter::local_with_clock(quota, clock.clone());
            let fallback = if gossip { local.clone() } else { alone };
            Hybrid::builder(store.clone(), fallback)
                .clock(clock.clone())
                .warm_fallback(keeps_books)
                .repay_primary(keeps_books)
                .build()
                .unwrap()
        })
        .collect();
    let (begin, mut admitted) = (Instant::now(), 0);
    store.set(Mode::After(Duration::ZERO));
    for call in 0..30_000_usize {
        // A thousand calls a second.
        sleep_until(begin + Duration::from_millis(call as u64)).await;
        match call {
            10_000 => store.set(AWAY),
            20_000 => store.restart(Limiter::local_with_clock(quota, clock.clone()), Mode::After(Duration::ZERO)),
            _ => {}
        }
        admitted += take(&replicas[call % 3], 1).await;
    }
    assert!(replicas.iter().all(|replica| replica.state() == State::Closed && replica.stats().openings == 1));
    admitted as f64 / (50.0 + 100.0 * 30.0)
}
