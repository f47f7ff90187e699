//! Servers that are down, hang, and come back.

use std::time::Instant;

use peerlimit::{Quota, stores::memcached::MemcachedError};
use tokio::{task::JoinSet, time::sleep};

use super::*;
use crate::punctual::{self, Answers, timed};

const QUOTA: Quota = Quota::per_hour(1_000_000);
/// As by default.
const SHORT: Duration = Duration::from_millis(50);

fn hasty(server: &Server) -> FixedWindow {
    builder("api", QUOTA, server).timeout(SHORT).connect_timeout(SHORT).build().unwrap()
}

/// How long until a check works, asking all the time.
async fn until_it_works(limiter: &FixedWindow) -> Duration {
    let begin = Instant::now();
    while limiter.check("key").await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10), "never works again");
        sleep(Duration::from_millis(1)).await;
    }
    begin.elapsed()
}

#[tokio::test]
async fn a_server_that_is_down_at_the_start_is_used_when_it_is_there() {
    if !is_installed("memcached") {
        return;
    }
    let port = free_port();
    let limiter = FixedWindow::builder("api", QUOTA).server(format!("localhost:{port}")).build().unwrap();
    let begin = Instant::now();
    let error = limiter.check("key").await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(matches!(error, MemcachedError::Unreachable { .. } | MemcachedError::Timeout { .. }), "{error}");
    let _server = start_at(port);
    let took = until_it_works(&limiter).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn a_server_that_is_down_is_a_typed_error_and_no_refusal() {
    let Some(mut server) = start() else { return };
    let limiter = hasty(&server);
    assert!(until_it_works(&limiter).await < Duration::from_secs(1));
    server.kill();
    for _ in 0..100 {
        match limiter.check("key").await {
            Err(MemcachedError::Unreachable { source, .. } | MemcachedError::Disconnected { source, .. }) => {
                assert!(!source.to_string().is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.to_string(), format!("memcached server {} cannot be reached", server.addr()));
    assert!(std::error::Error::source(&error).is_some());
    // Nothing else works either, and says so.
    limiter.peek("key").await.unwrap_err();
    limiter.refund("key", 1).await.unwrap_err();
    limiter.reset("key").await.unwrap_err();
}

#[tokio::test]
async fn a_server_that_was_killed_is_used_again_within_a_second_of_its_return() {
    let Some(mut server) = start() else { return };
    let limiter = hasty(&server);
    for round in 0..3 {
        assert!(until_it_works(&limiter).await < Duration::from_secs(1));
        server.kill();
        // Long enough for the longest pauses between tries.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(700) {
            limiter.check("key").await.unwrap_err();
            sleep(Duration::from_millis(2)).await;
        }
        server.restart();
        let took = until_it_works(&limiter).await;
        assert!(took < Duration::from_secs(1), "round {round}: {took:?}");
        // It has forgotten everything.
        assert!(limiter.remaining("key").await.unwrap() >= QUOTA.count() - 2, "round {round}");
    }
}

#[tokio::test]
async fn a_server_that_restarts_while_nobody_asks_costs_nobody_an_error() {
    let Some(mut server) = start() else { return };
    let limiter = hasty(&server);
    assert!(until_it_works(&limiter).await < Duration::from_secs(1));
    server.kill();
    server.restart();
    // The task hears of the end before anybody asks.
    sleep(Duration::from_millis(20)).await;
    assert!(limiter.check("key").await.unwrap().allowed);
}

#[tokio::test]
async fn a_check_returns_within_its_timeout_while_the_server_is_stopped() {
    punctual::in_time(async || while_stopped().await.into_iter().collect()).await;
}

/// What 16 callers of a stopped server get; none where there is no server.
async fn while_stopped() -> Option<Answers> {
    const LOAD: Duration = Duration::from_millis(1_500);
    let server = start()?;
    let limiter = hasty(&server);
    assert!(until_it_works(&limiter).await < Duration::from_secs(1));
    let before = limiter.remaining("key").await.unwrap();
    server.stop();
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let mut answers = Answers::default();
            while begin.elapsed() < LOAD {
                let (answer, took, late) = timed(SHORT, limiter.check("key")).await;
                answers.add(took, late);
                let error = answer.unwrap_err();
                assert!(
                    matches!(error, MemcachedError::Timeout { .. } | MemcachedError::Unreachable { .. }),
                    "{error:?}"
                );
                sleep(Duration::from_millis(1)).await;
            }
            answers
        });
    }
    let mut answers = Answers::default();
    while let Some(more) = tasks.join_next().await {
        answers += more.unwrap();
    }
    let waited = answers.took.iter().filter(|took| **took >= SHORT).count();
    eprintln!("{} checks of a stopped server, {waited} of them to the timeout", answers.took.len());
    assert!(waited >= 16, "nothing waited for the server");
    server.go_on();
    let back = until_it_works(&limiter).await;
    assert!(back < Duration::from_secs(1), "{back:?}");
    eprintln!("used again {back:?} after it went on");
    // What nobody had an answer for may have been counted, and nothing else was.
    let left = limiter.remaining("key").await.unwrap();
    let most = answers.took.len() as u64 + 2;
    assert!(left < before && left >= before - most, "{left} of {before}");
    Some(answers)
}

#[tokio::test]
async fn a_short_pause_of_the_server_costs_those_who_wait_and_no_connection() {
    let Some(server) = start() else { return };
    let limiter = hasty(&server);
    assert!(until_it_works(&limiter).await < Duration::from_secs(1));
    let connections = || {
        let stats = raw(&server, "stats");
        let line = stats.lines().find_map(|line| line.strip_prefix("STAT total_connections ")).unwrap();
        line.parse::<u32>().unwrap()
    };
    let before = connections();
    server.stop();
    let error = limiter.check("key").await.unwrap_err();
    assert!(matches!(error, MemcachedError::Timeout { timeout: SHORT, .. }), "{error:?}");
    server.go_on();
    // In step, though an answer came late. The second one finds the late one counted.
    let until = until_it_works(&limiter).await;
    assert!(until < Duration::from_millis(500), "{until:?}");
    assert!(limiter.check("key").await.unwrap().allowed);
    // The test's own, and none of the limiter's.
    assert_eq!(connections(), before + 1);
}

#[tokio::test]
async fn the_connection_ends_with_the_last_handle() {
    let Some(server) = start() else { return };
    let now = || {
        let stats = raw(&server, "stats");
        stats.lines().find_map(|line| line.strip_prefix("STAT curr_connections ")).unwrap().parse::<u32>().unwrap()
    };
    // The server may take a moment to see that a connection of the test's own is closed.
    let current = || (0..20).map(|_| now()).min().unwrap();
    let before = current();
    let limiter = hasty(&server);
    let clone = limiter.scope("other", QUOTA).unwrap();
    assert!(until_it_works(&limiter).await < Duration::from_secs(1));
    drop(limiter);
    assert!(clone.check("key").await.is_ok());
    assert_eq!(current(), before + 1);
    drop(clone);
    let begin = Instant::now();
    while current() != before {
        assert!(begin.elapsed() < TIMEOUT, "{} connections, {before} before", current());
        sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_limiter_whose_runtime_is_gone_says_so() {
    let Some(server) = start() else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let limiter = first.block_on(async {
        let limiter = hasty(&server);
        assert!(until_it_works(&limiter).await < Duration::from_secs(1));
        limiter
    });
    drop(first);
    let error = runtime().block_on(limiter.check("key")).unwrap_err();
    assert!(matches!(error, MemcachedError::Closed), "{error:?}");
}
