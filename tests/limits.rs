//! What limits keep to whatever is asked of them: numbers at their ends, quotas that change, names that are alike.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/patience.rs"]
mod patience;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use allocation_counter::measure;
use patience::eventually;
use peerlimit::{Decision, Limiter, ManualClock, Quota, RateLimiter, Scope, StaticDiscoverer, Wait, WaitError};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use tokio::task::{JoinSet, yield_now};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// A limiter in virtual time.
fn local(quota: Quota) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(SECOND);
    (Limiter::local_with_clock(quota, clock.clone()), clock)
}

/// Numbers of all sizes, the ends among them.
fn number(rng: &mut Xoshiro256PlusPlus) -> u64 {
    const ENDS: [u64; 10] =
        [0, 1, 2, 999, 1_000, 1_000_000, 200_000_000, u32::MAX as u64, u32::MAX as u64 + 1, u64::MAX];
    match rng.random_range(0..3) {
        0 => ENDS[rng.random_range(0..ENDS.len())],
        _ => rng.random::<u64>() >> rng.random_range(0..64),
    }
}

#[test]
fn whatever_quota_can_be_built_works_on_first_use_and_at_any_cost() {
    let seed = std::env::var("PEERLIMIT_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("PEERLIMIT_SEED={seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut built = 0;
    for _ in 0..20_000 {
        let period = Duration::from_nanos(number(&mut rng)).saturating_mul(rng.random_range(1..1_000));
        let quota = Quota::new(number(&mut rng), period).and_then(|quota| quota.with_burst(number(&mut rng)));
        let Ok(quota) = quota else { continue };
        built += 1;
        let (limiter, _clock) = local(quota);
        let burst = quota.burst_size();
        for key in 0..4_u8 {
            let cost = number(&mut rng);
            let decision = limiter.check_n([key], cost);
            assert_eq!(decision.allowed, cost <= burst, "{cost} of {quota:?}: {decision:?}");
            assert_eq!(decision.is_impossible(), cost > burst, "{cost} of {quota:?}: {decision:?}");
            assert_eq!(decision.remaining, if cost <= burst { burst - cost } else { burst }, "{cost} of {quota:?}");
            let refused = limiter.check_n([key], burst.min(decision.remaining + 1));
            assert_eq!(refused.allowed, decision.remaining == burst, "{cost} of {quota:?}: {refused:?}");
            assert!(refused.allowed || refused.retry_after.is_some_and(|wait| !wait.is_zero()), "{refused:?}");
        }
    }
    assert!(built > 200, "{built} quotas of 20,000 could be built");
}

#[tokio::test]
async fn a_cost_that_no_bucket_holds_is_impossible_on_every_way_in_and_changes_nothing() {
    let (limiter, _clock) = local(Quota::per_day(1));
    let scope = limiter.scope("daily", Quota::per_day(1));
    for cost in [2, 200_000_000, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 63, u64::MAX] {
        let all = [(limiter.default_scope(), "key", cost), (&scope, "key", 1)];
        let twice = [(&scope, "key", 1), (&scope, "key", cost), (&scope, "key", cost)];
        let decisions = [
            limiter.check_n("key", cost),
            scope.check_n("key", cost),
            scope.peek_n("key", cost),
            limiter.check_all_n(&all),
            limiter.check_all_n(&twice),
            limiter.decide(b"key", cost).await.unwrap(),
        ];
        for decision in decisions {
            assert!(decision.is_impossible(), "{cost}: {decision:?}");
        }
        let error = scope.until_ready_n("key", cost, Wait::FOREVER).await.expect_err("more than the burst");
        assert_eq!(error, WaitError::Impossible { cost, limit: 1 });
        assert_eq!((limiter.peek("key").remaining, scope.peek("key").remaining), (1, 1), "after {cost}");
    }
    assert!(limiter.check_all_n(&[(limiter.default_scope(), "key", 1), (&scope, "key", 1)]).allowed);
}

#[test]
fn charges_and_refunds_of_any_number_leave_a_bucket_between_its_debt_floor_and_its_burst() {
    for quota in [Quota::per_day(1), Quota::per_second(10), Quota::per_second(1_000_000).burst(Quota::MAX_BURST)] {
        let (limiter, clock) = local(quota);
        for permits in [0, quota.burst_size(), 200_000_000, u64::from(u32::MAX), u64::MAX] {
            for _ in 0..3 {
                limiter.charge("key", permits);
                let wait = limiter.peek("key").retry_after.unwrap_or_default();
                assert!(wait <= 2 * quota.refill_time() + SECOND, "{permits} of {quota:?}: {wait:?}");
            }
            limiter.refund("key", u64::MAX);
            assert_eq!(limiter.peek("key").remaining, quota.burst_size());
            limiter.refund("key", u64::MAX);
            assert!(!limiter.check_n("key", quota.burst_size() + 1).allowed, "more than the burst was given back");
        }
        limiter.charge("key", u64::MAX);
        clock.advance(2 * quota.refill_time() + SECOND);
        assert!(limiter.allow("key"));
    }
}

/// Lets all tasks of this thread go as far as they can.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[tokio::test]
async fn who_waits_for_what_has_become_impossible_leaves_and_blocks_nobody() {
    let (limiter, clock) = local(Quota::per_second(1).burst(5));
    assert!(limiter.check_n("key", 5).allowed);
    let waits = |cost| {
        let limiter = limiter.clone();
        async move { limiter.until_ready_n("key", cost, Wait::FOREVER).await }
    };
    let large = tokio::spawn(waits(5));
    settle().await;
    let small = tokio::spawn(waits(1));
    settle().await;
    limiter.default_scope().set_quota(Quota::per_second(1).burst(2));
    clock.advance(5 * SECOND);
    assert_eq!(large.await.unwrap(), Err(WaitError::Impossible { cost: 5, limit: 2 }));
    assert_eq!(small.await.unwrap(), Ok(()));
}

#[test]
fn a_thousand_who_waited_and_left_hold_no_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (limiter, _clock) = local(Quota::per_day(1));
    let keys = || (0..100_u8).map(|key| [key]);
    assert!(keys().all(|key| limiter.allow(key)));
    let wait_and_leave = || {
        runtime.block_on(async {
            let mut waiters = JoinSet::new();
            for key in keys().cycle().take(1_000) {
                let limiter = limiter.clone();
                waiters.spawn(async move { limiter.until_ready(key).await });
            }
            settle().await;
            assert_eq!(waiters.len(), 1_000, "all of them wait");
            waiters.shutdown().await;
        });
    };
    let first = measure(wait_and_leave);
    let again = measure(wait_and_leave);
    assert!(first.bytes_max > 100_000, "waiting takes memory: {first:?}");
    // What tables and the runtime keep for the next ones.
    assert!(first.bytes_current < 40_000, "{first:?}");
    assert!(again.bytes_current < 1_000, "{again:?}");
}

/// Three nodes on loopback that see each other.
async fn nodes() -> Vec<Limiter> {
    let builder = || Limiter::builder(Quota::per_second(100)).bind("127.0.0.1:0".parse().unwrap());
    let first = builder().start().await.unwrap();
    let seed = first.local_addr().unwrap().to_string();
    let mut nodes = vec![first];
    for _ in 0..2 {
        nodes.push(builder().discover(StaticDiscoverer::new([seed.clone()])).start().await.unwrap());
    }
    eventually("everybody sees everybody", || nodes.iter().all(|node| node.members().len() == 3)).await;
    nodes
}

fn scopes(nodes: &[Limiter], name: &str, quota: Quota) -> Vec<Scope> {
    nodes.iter().map(|node| node.scope(name, quota)).collect()
}

async fn agree(scopes: &[Scope], key: &str, remaining: u64) {
    let left = || scopes.iter().map(|scope| scope.peek(key).remaining).collect::<Vec<_>>();
    eventually(&format!("{remaining} of {key} are left"), || left().iter().all(|left| *left == remaining)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_changes_on_a_live_cluster_under_load_keeps_what_was_used_and_every_refusal_carries_its_wait() {
    let nodes = nodes().await;
    let slow = |burst: u64| Quota::per_day(10).burst(burst);
    let scopes = scopes(&nodes, "slow", slow(100));
    let blocked = Arc::new(AtomicBool::new(false));
    let (done, mut load) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for scope in scopes.clone() {
        let (done, blocked) = (Arc::clone(&done), Arc::clone(&blocked));
        load.spawn(async move {
            let check = |decision: Decision, might_block: bool| {
                assert!(decision.remaining <= decision.limit && decision.limit <= 200, "{decision:?}");
                let waits = decision.retry_after.is_some_and(|wait| !wait.is_zero() && wait <= 100 * DAY);
                assert!(decision.allowed || waits || might_block, "{decision:?}");
            };
            let mut asked = 0_u64;
            while !done.load(Relaxed) {
                let before = blocked.load(Relaxed);
                let decision = scope.check("busy");
                check(decision, before || blocked.load(Relaxed));
                asked += 1;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            asked
        });
    }
    let set = |quota: Quota| scopes.iter().for_each(|scope| scope.set_quota(quota));
    assert!(scopes[0].check_n("user", 60).allowed);
    agree(&scopes, "user", 40).await;
    set(slow(200));
    agree(&scopes, "user", 140).await;
    assert!(scopes[1].check_n("user", 10).allowed);
    agree(&scopes, "user", 130).await;
    // Below what is used.
    set(slow(50));
    agree(&scopes, "user", 0).await;
    for scope in &scopes {
        let refused = scope.check("user");
        let days = refused.retry_after.expect("it passes when the debt is paid").as_secs_f64() / DAY.as_secs_f64();
        assert!(!refused.allowed && (2.0..=2.11).contains(&days), "20 in debt at 10 a day, and one: {refused:?}");
    }
    blocked.store(true, Relaxed);
    set(slow(50).refuse_all());
    assert!(scopes.iter().all(|scope| scope.check("user").is_impossible() && scope.check("new").is_impossible()));
    set(slow(100));
    blocked.store(false, Relaxed);
    agree(&scopes, "user", 30).await;
    assert!(scopes[2].check_n("user", 30).allowed);
    agree(&scopes, "user", 0).await;
    done.store(true, Relaxed);
    assert!(load.join_all().await.into_iter().all(|asked| asked > 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_keys_of_two_scopes_never_meet_on_the_wire() {
    let nodes = nodes().await;
    // Names that would run into each other if they were put before the key.
    let quota = Quota::per_day(100);
    let [one, other, third] = ["a", "ab", "b"].map(|name| scopes(&nodes, name, quota));
    assert!(one[0].check_n("bc", 60).allowed);
    assert!(other[1].check_n("c", 7).allowed);
    agree(&one, "bc", 40).await;
    agree(&other, "c", 93).await;
    for (scopes, key) in [(&one, "c"), (&other, "bc"), (&third, "bc"), (&third, "c")] {
        agree(scopes, key, 100).await;
    }
    other[2].reset("c");
    agree(&other, "c", 100).await;
    agree(&one, "bc", 40).await;
    assert!(nodes.iter().all(|node| node.peek("bc").remaining == node.default_scope().quota().burst_size()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charges_of_everything_again_and_again_silence_a_key_at_no_node_beyond_two_refill_times() {
    let nodes = nodes().await;
    let quota = Quota::per_day(100);
    let scopes = scopes(&nodes, "slow", quota);
    for _ in 0..3 {
        scopes.iter().for_each(|scope| scope.charge("key", u64::MAX));
        agree(&scopes, "key", 0).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        for scope in &scopes {
            let wait = scope.peek("key").retry_after.expect("it passes again");
            assert!(wait <= 2 * quota.refill_time() + SECOND, "{wait:?}");
        }
    }
    assert!(scopes.iter().all(|scope| scope.peek("another").remaining == 100));
}
