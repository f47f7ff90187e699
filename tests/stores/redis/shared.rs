//! Decisions that are asked for at the same time.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use peerlimit::{
    Decision, Quota, RateLimiter,
    stores::redis::{Redis, RedisError, TokenBucket},
};
use tokio::task::JoinSet;

use super::support::{self, Raw};
use crate::{conformance::Answers as _, servers::Server};

/// Most decisions of a call.
const MOST: u64 = 64;

/// Whole microseconds, and such that are not.
const QUOTAS: [Quota; 2] = [Quota::per_hour(100), Quota::per_hour(101).burst(100)];

async fn both(redis: &Redis, quota: Quota, test: impl AsyncFn(&dyn Limiter)) {
    test(&redis.sliding_log("a", quota)).await;
    test(&redis.token_bucket("a", quota)).await;
}

type Decided = Result<Decision, RedisError>;

/// Either of both limiters.
trait Limiter {
    /// The answers to decisions that are all asked for before there is one.
    fn together(&self, asked: Vec<(String, u64)>) -> JoinSet<(String, u64, Decided)>;
}

impl<R: RateLimiter<Error = RedisError, Deciding: Send + 'static>> Limiter for R {
    fn together(&self, asked: Vec<(String, u64)>) -> JoinSet<(String, u64, Decided)> {
        let decide = |(key, cost): (String, u64)| {
            let deciding = self.decide(key.as_bytes(), cost);
            async move { (key, cost, deciding.await) }
        };
        asked.into_iter().map(decide).collect()
    }
}

#[tokio::test]
async fn decisions_that_are_asked_for_together_share_calls_and_each_has_its_own_answer() {
    let Some(server) = support::start() else { return };
    for (round, quota) in QUOTAS.into_iter().enumerate() {
        let redis = support::patient(&server).with_prefix(format!("p{round}")).unwrap();
        both(&redis, quota, async |limiter| {
            // Tells the server the script.
            limiter.together(vec![("warm".into(), 1)]).join_all().await;
            let mut raw = Raw::of(&server).await;
            let _reset: String = raw.ask("CONFIG RESETSTAT").await;
            let asked: Vec<_> = (0..1_000).map(|index| (format!("{index}"), 1 + index % 120)).collect();
            for (key, cost, decision) in limiter.together(asked).join_all().await {
                let decision = decision.unwrap();
                let passes = cost <= 100;
                assert_eq!((decision.allowed, decision.limit), (passes, 100), "{key}");
                assert_eq!(decision.remaining, if passes { 100 - cost } else { 100 }, "{key}");
            }
            let (few, many) = (1_000 / MOST, 1_000 / 8);
            // What asks for more than there can be only looks, for which there are no batches.
            let looks = (0..1_000).filter(|index| 1 + index % 120 > 100).count() as u64;
            let calls = raw.calls("evalsha").await - looks;
            assert!((few..=many).contains(&calls), "{calls} calls");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_pass_as_the_quota_says_when_all_ask_for_the_same_keys_together() {
    let Some(server) = support::start() else { return };
    for (round, quota) in QUOTAS.into_iter().enumerate() {
        let redis = support::patient(&server).with_prefix(format!("p{round}")).unwrap();
        both(&redis, quota, async |limiter| {
            let asked = (0..3_000).map(|index| (format!("{}", index % 7), 1 + index % 3)).collect();
            let mut passed = [0; 7];
            for (key, cost, decision) in limiter.together(asked).join_all().await {
                if decision.unwrap().allowed {
                    passed[key.parse::<usize>().unwrap()] += cost;
                }
            }
            assert_eq!(passed, [100; 7]);
        })
        .await;
    }
}

#[tokio::test]
async fn a_key_that_is_spoiled_is_an_error_to_who_asks_for_it_and_to_nobody_else() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    for spoil in ["SET peerlimit:{=50}:KIND:=a hello", "SADD peerlimit:{=50}:KIND:=a x"] {
        let _gone: String = raw.ask("FLUSHALL").await;
        for kind in ["log", "bucket"] {
            let _done: ::redis::Value = raw.ask(&spoil.replace("KIND", kind)).await;
        }
        both(&redis, QUOTAS[0], async |limiter| {
            let asked = (0..100).map(|index| (format!("{index}"), 1)).collect();
            let mut errors = 0;
            for (key, _, decision) in limiter.together(asked).join_all().await {
                match decision {
                    Ok(decision) => assert_eq!((decision.allowed, decision.remaining), (true, 99), "{key}"),
                    Err(error) => {
                        assert_eq!(key, "50", "{error}");
                        assert!(matches!(error, RedisError::Server { .. }), "{error}");
                        errors += 1;
                    }
                }
            }
            assert_eq!(errors, 1);
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_script_is_told_it_with_the_call_that_is_shared() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    both(&redis, QUOTAS[0], async |limiter| {
        let mut raw = Raw::of(&server).await;
        let _flushed: String = raw.ask("SCRIPT FLUSH").await;
        let asked = (0..200).map(|index| (format!("{}", index % 2), 1)).collect();
        let passed = limiter.together(asked).join_all().await;
        assert!(passed.into_iter().all(|(.., decision)| decision.unwrap().allowed));
    })
    .await;
    assert!(!redis.sliding_log("a", QUOTAS[0]).decided(b"0", 1).await.allowed);
    assert!(!redis.token_bucket("a", QUOTAS[0]).decided(b"1", 1).await.allowed);
}

/// Polls once.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A limiter with a connection to a server that knows its script.
async fn warm(server: &Server) -> TokenBucket {
    let bucket = support::patient(server).token_bucket("a", QUOTAS[0]);
    assert!(bucket.decided(b"warm", 1).await.allowed);
    bucket
}

#[tokio::test]
async fn who_leaves_before_the_call_consumes_nothing_and_takes_nobody_along() {
    let Some(server) = support::start() else { return };
    let bucket = warm(&server).await;
    let [mut first, mut leaves, mut stays] = ["first", "leaves", "stays"].map(|key| bucket.decide(key.as_bytes(), 1));
    // The first one is asked for alone. No other task runs before this one waits.
    assert!(poll(&mut first).is_pending() && poll(&mut leaves).is_pending() && poll(&mut stays).is_pending());
    drop(leaves);
    assert_eq!(stays.await.unwrap().remaining, 99);
    assert_eq!(first.await.unwrap().remaining, 99);
    assert_eq!(bucket.peeked(b"leaves", 1).await.remaining, 100);
}

#[tokio::test]
async fn who_does_not_go_on_keeps_nobody_waiting() {
    let Some(server) = support::start() else { return };
    let bucket = warm(&server).await;
    let [mut first, mut rests] = ["first", "rests"].map(|key| bucket.decide(key.as_bytes(), 1));
    // Somebody is asked for alone, and somebody opens a batch; neither is looked at again.
    assert!(poll(&mut first).is_pending() && poll(&mut rests).is_pending());
    for left in (80..100).rev() {
        assert_eq!(bucket.decided(b"goes on", 1).await.remaining, left);
    }
    drop((first, rests));
}

#[test]
fn a_runtime_that_rests_or_ends_keeps_nobody_of_another_waiting_and_counts_nobody_twice() {
    let Some(server) = support::start() else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lives = runtime();
    let bucket = lives.block_on(warm(&server));
    for (polls, ends) in [(1, false), (1, true), (2, false), (2, true)] {
        let other = runtime();
        let key = format!("joins {polls} {ends}");
        let [mut first, mut opens, mut joins] = ["first", "opens", &key].map(|key| bucket.decide(key.as_bytes(), 1));
        {
            let _in = other.enter();
            assert!(poll(&mut first).is_pending() && poll(&mut opens).is_pending());
        }
        {
            let _in = lives.enter();
            assert!(poll(&mut joins).is_pending());
        }
        if polls == 2 {
            // By whom the batch is sent.
            other.block_on(async { assert!(poll(&mut opens).is_pending()) });
        }
        let other = (!ends).then_some(other);
        assert_eq!(lives.block_on(joins).unwrap().remaining, 99, "{key}");
        assert_eq!(lives.block_on(bucket.peeked(key.as_bytes(), 1)).remaining, 99, "{key}");
        drop((other, first, opens));
    }
}

#[tokio::test]
async fn an_address_of_several_servers_is_noticed_and_asked_for_each_key_alone() {
    // A server of a cluster that has all slots refuses what is about several, as a proxy does.
    let Some(server) = support::start_with(&["--cluster-enabled", "yes", "--cluster-config-file", "alone.conf"]) else {
        return;
    };
    let mut raw = Raw::of(&server).await;
    let _slots: String = raw.ask("CLUSTER ADDSLOTSRANGE 0 16383").await;
    let begin = Instant::now();
    while !raw.ask::<String>("CLUSTER INFO").await.contains("cluster_state:ok") {
        assert!(begin.elapsed() < Duration::from_secs(30), "no cluster");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let redis = support::patient(&server);
    for round in 1..=3 {
        both(&redis, QUOTAS[0], async |limiter| {
            let asked = (0..100).map(|index| (format!("{index}"), 1)).collect();
            for (key, _, decision) in limiter.together(asked).join_all().await {
                assert_eq!(decision.unwrap().remaining, 100 - round, "{key}");
            }
        })
        .await;
    }
    let _reset: String = raw.ask("CONFIG RESETSTAT").await;
    redis
        .token_bucket("a", QUOTAS[0])
        .together((0..50).map(|index| (format!("{index}"), 1)).collect())
        .join_all()
        .await;
    assert_eq!(raw.calls("evalsha").await, 50);
}

#[tokio::test]
async fn calls_are_not_shared_where_that_is_turned_off() {
    let Some(server) = support::start() else { return };
    let redis = support::patiently(support::builder(&server)).shared_calls(false).build().unwrap();
    both(&redis, QUOTAS[0], async |limiter| {
        limiter.together(vec![("warm".into(), 1)]).join_all().await;
        let mut raw = Raw::of(&server).await;
        let _reset: String = raw.ask("CONFIG RESETSTAT").await;
        let asked = (0..100).map(|index| (format!("{index}"), 1)).collect();
        assert!(limiter.together(asked).join_all().await.into_iter().all(|(.., decision)| decision.unwrap().allowed));
        assert_eq!(raw.calls("evalsha").await, 100);
    })
    .await;
}
