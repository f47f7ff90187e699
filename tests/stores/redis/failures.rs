//! Servers that forget, die, or hang.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use peerlimit::{
    Quota, RateLimiter as _,
    stores::redis::{Redis, RedisError},
};
use tokio::task::JoinSet;

use super::{
    load::{AMPLE, Load},
    support::{self, Raw},
};
use crate::{
    conformance::Answers as _,
    punctual::{self, Answers, timed},
    servers::free_port,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_cache_that_is_flushed_all_the_time_under_load_is_no_error() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let load = Load::start(&redis);
    for _ in 0..300 {
        let _flushed: String = raw.ask("SCRIPT FLUSH").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    load.goes_on().await;
    let (decided, errors) = load.stop().await;
    assert!(errors.is_empty() && decided > 500, "{decided} decided, {errors:?}");
    let stats: String = raw.ask("INFO commandstats").await;
    let told = stats.lines().find(|line| line.starts_with("cmdstat_eval:")).expect("scripts were told anew");
    assert!(!told.contains("calls=1,") && !told.contains("calls=2,"), "{told}");
}

#[tokio::test]
async fn a_flushed_script_cache_counts_nobody_twice() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let (log, bucket) = (redis.sliding_log("a", Quota::per_hour(50)), redis.token_bucket("a", Quota::per_hour(50)));
    for left in (0..50).rev() {
        let _flushed: String = raw.ask("SCRIPT FLUSH").await;
        assert_eq!(log.decided(b"k", 1).await.remaining, left);
        assert_eq!(bucket.decided(b"k", 1).await.remaining, left);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_under_load_is_no_error_where_there_is_time() {
    let Some(mut server) = support::start() else { return };
    let redis = support::patient(&server);
    let load = Load::start(&redis);
    load.goes_on().await;
    for _ in 0..3 {
        server.kill();
        server.restart();
        load.goes_on().await;
    }
    let (_, errors) = load.stop().await;
    assert!(errors.is_empty(), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_a_typed_error_at_once_and_used_again_within_the_pause() {
    let Some(mut server) = support::start() else { return };
    let redis = support::builder(&server)
        .response_timeout(Duration::from_millis(200))
        .connect_timeout(Duration::from_secs(5))
        .reconnect_pause(Duration::from_millis(500))
        .build()
        .unwrap();
    let bucket = redis.token_bucket("a", AMPLE);
    redis.ping().await.unwrap();
    server.kill();
    let killed = Instant::now();
    let mut quick = 0;
    while killed.elapsed() < Duration::from_millis(1500) {
        let asked = Instant::now();
        let error = bucket.decide(b"k", 1).await.unwrap_err();
        assert!(matches!(error, RedisError::Unavailable { .. } | RedisError::Timeout { .. }), "{error:?}");
        quick += u32::from(asked.elapsed() < Duration::from_millis(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(quick > 20, "only {quick} errors came at once");
    server.restart();
    let back = Instant::now();
    while bucket.decide(b"k", 1).await.is_err() {
        assert!(back.elapsed() < Duration::from_secs(2), "not used again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnects_are_bounded_while_a_server_refuses_them_under_load() {
    // A server that closes each connection as soon as it is made counts them.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&attempts);
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Relaxed);
            drop(stream);
        }
    });
    let redis = Redis::builder(url).reconnect_pause(Duration::from_millis(400)).build().unwrap();
    let load = Load::start(&redis);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (decided, errors) = load.stop().await;
    server.abort();
    // 10, 20, .. 320 ms, then 400, all shortened by up to a half: at most 6 and then 10.
    let attempts = attempts.load(Relaxed);
    assert!((3..=17).contains(&attempts), "{attempts} attempts");
    assert_eq!(decided, 0);
    assert!(errors.len() > 100, "{}", errors.len());
}

#[tokio::test]
async fn a_stopped_server_costs_a_decision_its_timeout_and_no_more() {
    punctual::in_time(async || while_stopped().await.into_iter().collect()).await;
}

/// What callers of both limiters get while their server is stopped; none where there is no server.
async fn while_stopped() -> Option<Answers> {
    const LOAD: Duration = Duration::from_secs(3);
    const TIMEOUT: Duration = Duration::from_millis(50);
    let server = support::start()?;
    let redis = support::builder(&server).response_timeout(TIMEOUT).build().unwrap();
    let (log, bucket) = (redis.sliding_log("a", AMPLE), redis.token_bucket("a", AMPLE));
    while redis.ping().await.is_err() {}
    server.stop();
    let begin = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let (log, bucket) = (log.clone(), bucket.clone());
        callers.spawn(async move {
            let (mut answers, mut timeouts) = (Answers::default(), 0);
            while begin.elapsed() < LOAD {
                let asked = tokio::join!(timed(TIMEOUT, log.decide(b"k", 1)), timed(TIMEOUT, bucket.decide(b"k", 1)));
                for (answer, took, late) in [asked.0, asked.1] {
                    answers.add(took, late);
                    let error = answer.unwrap_err();
                    assert!(matches!(error, RedisError::Timeout { .. } | RedisError::Unavailable { .. }), "{error:?}");
                    timeouts += u32::from(matches!(error, RedisError::Timeout { after } if after == TIMEOUT));
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (answers, timeouts)
        });
    }
    let (mut answers, mut timeouts) = (Answers::default(), 0);
    while let Some(caller) = callers.join_next().await {
        let (more, some) = caller.unwrap();
        answers += more;
        timeouts += some;
    }
    assert!(timeouts > 80, "{timeouts}");
    server.go_on();
    let back = Instant::now();
    while bucket.decide(b"k", 1).await.is_err() {
        assert!(back.elapsed() < Duration::from_secs(3), "not used again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Some(answers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_packets_are_dropped_is_given_up_for_a_new_one() {
    let Some(server) = support::start() else { return };
    // Between both: a wire that goes dead for connections that are there, and works for new ones.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let (cut, to) = (Arc::new(AtomicU64::new(0)), server.addr());
    let generation = Arc::clone(&cut);
    let wire = tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (to, generation) = (to.clone(), Arc::clone(&generation));
            tokio::spawn(async move {
                let mine = generation.load(Relaxed);
                let mut far = tokio::net::TcpStream::connect(to).await.unwrap();
                let dead = async {
                    while generation.load(Relaxed) == mine {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    () = dead => std::future::pending().await,
                }
            });
        }
    });
    let redis = Redis::builder(url).build().unwrap();
    let bucket = redis.token_bucket("a", AMPLE);
    while bucket.decide(b"k", 1).await.is_err() {}
    cut.fetch_add(1, Relaxed);
    let begin = Instant::now();
    let mut failed = 0;
    while bucket.decide(b"k", 1).await.is_err() || failed == 0 {
        failed += 1;
        assert!(begin.elapsed() < Duration::from_secs(4), "the dead connection is kept");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    wire.abort();
}

#[tokio::test]
async fn a_service_starts_while_its_redis_is_away() {
    if !crate::servers::is_installed("redis-server") {
        return;
    }
    let port = free_port();
    let redis = Redis::builder(format!("redis://127.0.0.1:{port}/")).build().unwrap();
    let log = redis.sliding_log("a", Quota::per_hour(5));
    let begin = Instant::now();
    let error = log.decide(b"k", 1).await.unwrap_err();
    assert!(matches!(error, RedisError::Unavailable { .. } | RedisError::Timeout { .. }), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert!(redis.ping().await.is_err() && log.reset("k").await.is_err());
    let server = crate::servers::Server::start("redis-server", ["--port", &port.to_string(), "--save", ""], port);
    let begin = Instant::now();
    while log.decide(b"k", 1).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_that_are_dropped_at_any_time_break_nothing() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    let log = redis.sliding_log("a", Quota::per_hour(10_000));
    // Before they are polled, and while the connection is made that others wait for.
    drop(log.decide(b"k", 1));
    for micros in 0..200 {
        let asked = log.decide(b"k", 1);
        let _late = tokio::time::timeout(Duration::from_micros(micros * 5), asked).await;
    }
    let before = log.peeked(b"k", 0).await.remaining;
    assert!((10_000 - 200..=10_000).contains(&before), "{before}");
    for left in (before - 20..before).rev() {
        assert_eq!(log.decided(b"k", 1).await.remaining, left);
    }
}

#[test]
fn a_runtime_that_is_shut_down_while_it_connects_leaves_a_handle_of_use_to_the_next() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bucket = redis.token_bucket("a", Quota::per_hour(100));
    for _ in 0..3 {
        let runtime = runtime();
        runtime.block_on(async {
            let asked = bucket.decide(b"k", 1);
            let _given_up = tokio::time::timeout(Duration::ZERO, asked).await;
        });
        drop(runtime);
    }
    for _ in 0..3 {
        assert!(runtime().block_on(bucket.decided(b"k", 1)).allowed);
    }
}
