//! When windows begin and end. The server's clock is its own, so some of these take their seconds.

use std::time::Instant;

use peerlimit::Quota;
use tokio::time::sleep;

use super::*;

fn days(days: u64, count: u64) -> Quota {
    Quota::new(count, Duration::from_secs(days * 24 * 60 * 60)).unwrap()
}

/// Seconds that the counter of that key still has.
fn seconds_left(server: &Server, key: &str) -> i64 {
    raw(server, &format!("mg {key} t")).trim().strip_prefix("HD t").unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_window_begins_at_the_first_hit_and_ends_by_itself() {
    let Some(server) = start() else { return };
    let limiter = limiter("api", Quota::new(3, Duration::from_secs(2)).unwrap(), &server);
    let first = limiter.check("ann").await.unwrap();
    assert_eq!((first.remaining, first.reset_after), (2, Duration::from_millis(2_070)));
    assert!(limiter.check_n("ann", 2).await.unwrap().allowed);
    for _ in 0..5 {
        // What is refused does not put the end off.
        let refused = limiter.check("ann").await.unwrap();
        assert!(!refused.allowed);
        sleep(Duration::from_millis(50)).await;
    }
    let refused = limiter.check("ann").await.unwrap();
    sleep(refused.retry_after.unwrap()).await;
    assert_eq!(limiter.check("ann").await.unwrap().remaining, 2);
}

#[tokio::test]
async fn waiting_as_long_as_is_said_is_always_enough_and_little_too_long() {
    let Some(server) = start() else { return };
    let limiter = limiter("api", Quota::per_second(1), &server);
    // Begun at different parts of the server's second.
    let tries = (0..16).map(|key| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(key * 67)).await;
            assert!(limiter.allow(key.to_be_bytes()).await.unwrap());
            let begin = Instant::now();
            let wait = limiter.check(key.to_be_bytes()).await.unwrap().retry_after.unwrap();
            while !limiter.peek(key.to_be_bytes()).await.unwrap().allowed {
                sleep(Duration::from_millis(2)).await;
            }
            (wait, begin.elapsed())
        })
    });
    let tries: Vec<_> = tries.collect();
    for (key, outcome) in tries.into_iter().enumerate() {
        let (said, took) = outcome.await.unwrap();
        // Some more for a test that is late itself.
        assert!(took <= said + Duration::from_millis(100), "key {key}: {said:?} was said, and it took {took:?}");
        assert!(said <= Duration::from_millis(2_100), "key {key}: {said:?}");
    }
}

#[tokio::test]
async fn within_a_period_no_more_than_twice_the_limit_passes() {
    const LIMIT: usize = 20;
    let Some(server) = start() else { return };
    let limiter = limiter("api", Quota::per_second(LIMIT as u64), &server);
    let begin = Instant::now();
    let mut passed: Vec<(Duration, Duration)> = Vec::new();
    while begin.elapsed() < Duration::from_millis(3_500) {
        let asked = begin.elapsed();
        if limiter.allow("hot").await.unwrap() {
            passed.push((asked, begin.elapsed()));
        }
        tokio::task::yield_now().await;
    }
    for (first, one_too_many) in passed.iter().zip(&passed[2 * LIMIT..]) {
        // The longest that can lie between them.
        let apart = one_too_many.1 - first.0;
        assert!(apart >= Duration::from_millis(998), "more than twice the limit within {apart:?} at {first:?}");
    }
    // The bound is reached only if what begins is let through again at once.
    assert!(passed.len() >= 3 * LIMIT, "{} in 3.5 s", passed.len());
    assert!(passed.len() <= 5 * LIMIT, "{} in 3.5 s", passed.len());
}

#[tokio::test]
async fn windows_beyond_thirty_days_work() {
    let Some(server) = start() else { return };
    for window in [30, 31, 60, 365, 3_650] {
        let quota = days(window, 200);
        let limiter = limiter(&format!("d{window}"), quota, &server);
        assert_eq!(limiter.check("ann").await.unwrap().remaining, 199, "{window} days");
        let second = limiter.check("ann").await.unwrap();
        assert_eq!(second.remaining, 198, "{window} days");
        // The clocks of client and server are rounded apart by up to two seconds.
        let off = second.reset_after.abs_diff(quota.period());
        assert!(off <= Duration::from_secs(4), "{window} days: {:?}", second.reset_after);
        let left = seconds_left(&server, &format!("peerlimit:d{window}:=ann"));
        assert!(left.abs_diff(quota.period().as_secs() as i64) <= 3, "{window} days: {left} s");
    }
}

#[tokio::test]
async fn a_counter_without_an_expiry_is_found_and_repaired() {
    let Some(server) = start() else { return };
    let limiter = limiter("api", Quota::per_minute(10), &server);
    let key = "peerlimit:api:=ann";
    let plant = || {
        raw(&server, &format!("set {key} 0 0 1\r\n4"));
        assert_eq!(seconds_left(&server, key), -1);
    };
    for (name, deciding, remaining) in [
        ("decide", limiter.check("ann"), 5),
        ("peek", limiter.peek("ann"), 6),
        ("charge", limiter.charge("ann", 2), 4),
        ("refund", limiter.refund("ann", 1), 7),
    ] {
        plant();
        let decision = deciding.await.unwrap();
        assert_eq!(decision.remaining, remaining, "{name}");
        assert_eq!(decision.reset_after, Duration::from_millis(60_650), "{name}");
        assert!((58..=60).contains(&seconds_left(&server, key)), "{name}");
    }
}
