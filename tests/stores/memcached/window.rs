//! What passes, what is left, and what is put right.

use peerlimit::{Policy, Quota, RateLimiter, stores::memcached::MemcachedError};

use super::*;

const TEN: Quota = Quota::per_minute(10);
const KEY: &str = "peerlimit:login:=ann";

#[tokio::test]
async fn a_window_lets_its_limit_through_and_the_counter_rises_while_it_refuses() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    for left in (0..10).rev() {
        let decision = login.check("ann").await.unwrap();
        assert!(decision.allowed);
        assert_eq!((decision.limit, decision.remaining, decision.retry_after), (10, left, None));
        assert_eq!(decision.policy, "login");
    }
    for refusals in 1..=5 {
        let decision = login.check("ann").await.unwrap();
        assert!(!decision.allowed && !decision.is_impossible());
        assert_eq!(decision.remaining, 0);
        assert_eq!(decision.retry_after, Some(decision.reset_after));
        assert_eq!(counter(&server, KEY), Some(10 + refusals));
    }
    assert!(!login.allow("ann").await.unwrap());
    assert!(login.allow("bob").await.unwrap());
}

#[tokio::test]
async fn permits_are_consumed_all_or_none_passes() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    assert_eq!(login.check_n("ann", 7).await.unwrap().remaining, 3);
    let refused = login.check_n("ann", 4).await.unwrap();
    // What is refused counts, so what is left does not pass either, and is not said to be there.
    assert!(!refused.allowed);
    assert_eq!(refused.remaining, 0);
    assert!(!login.allow("ann").await.unwrap());
    assert!(login.check_n("bob", 10).await.unwrap().allowed);
}

#[tokio::test]
async fn an_impossible_cost_is_refused_and_changes_nothing() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    for cost in [11, 200_000_000, u64::from(u32::MAX), u64::MAX] {
        assert!(login.check_n("ann", cost).await.unwrap().is_impossible());
        assert_eq!(counter(&server, KEY), None);
    }
    assert_eq!(login.check_n("ann", 4).await.unwrap().remaining, 6);
    let impossible = login.check_n("ann", 11).await.unwrap();
    assert_eq!((impossible.is_impossible(), impossible.remaining), (true, 6));
    assert_eq!(counter(&server, KEY), Some(4));
    // Nor does one for nothing.
    assert!(login.check_n("ann", 0).await.unwrap().allowed);
    assert_eq!(counter(&server, KEY), Some(4));
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    let fresh = login.peek("ann").await.unwrap();
    assert_eq!((fresh.allowed, fresh.remaining, fresh.reset_after), (true, 10, Duration::ZERO));
    assert_eq!(counter(&server, KEY), None);
    assert_eq!(login.check_n("ann", 8).await.unwrap().remaining, 2);
    assert_eq!(login.remaining("ann").await.unwrap(), 2);
    assert!(RateLimiter::peek(&login, b"ann", 2).await.unwrap().allowed);
    let refused = RateLimiter::peek(&login, b"ann", 3).await.unwrap();
    assert_eq!((refused.allowed, refused.remaining), (false, 2));
    assert!(refused.retry_after.is_some());
    assert_eq!(counter(&server, KEY), Some(8));
}

#[tokio::test]
async fn a_key_that_is_reset_begins_anew() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    login.reset("ann").await.unwrap();
    assert!(login.check_n("ann", 10).await.unwrap().allowed);
    assert!(!login.allow("ann").await.unwrap());
    login.reset("ann").await.unwrap();
    assert_eq!(login.check("ann").await.unwrap().remaining, 9);
}

#[tokio::test]
async fn a_charge_may_go_beyond_the_limit_and_never_wraps_around() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    assert_eq!(login.charge("ann", 4).await.unwrap().remaining, 6);
    let spent = login.charge("ann", 10).await.unwrap();
    assert_eq!((spent.allowed, spent.remaining), (false, 0));
    assert_eq!(counter(&server, KEY), Some(14));
    for _ in 0..8 {
        assert_eq!(login.charge("ann", u64::MAX).await.unwrap().remaining, 0);
    }
    assert_eq!(counter(&server, KEY), Some(14 + 8 * u64::from(u32::MAX)));
    assert!(!login.allow("ann").await.unwrap());
    assert_eq!(login.charge("bob", 0).await.unwrap().remaining, 10);
    assert_eq!(counter(&server, "peerlimit:login:=bob"), None);
}

#[tokio::test]
async fn a_refund_works_when_nothing_is_left_and_gives_no_credit() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    // Of a key that nobody knows: nothing.
    assert_eq!(login.refund("ann", 5).await.unwrap().remaining, 10);
    assert_eq!(counter(&server, KEY), None);
    assert_eq!(login.check_n("ann", 10).await.unwrap().remaining, 0);
    assert_eq!(login.refund("ann", 3).await.unwrap().remaining, 3);
    assert_eq!(login.refund("ann", 0).await.unwrap().remaining, 3);
    // The number got shorter, which servers pad.
    assert_eq!(login.remaining("ann").await.unwrap(), 3);
    assert_eq!(login.refund("ann", u64::MAX).await.unwrap().remaining, 10);
    assert_eq!(counter(&server, KEY), Some(0));
    assert!(login.check_n("ann", 10).await.unwrap().allowed);
    // What was refused counts as well.
    assert!(!login.allow("ann").await.unwrap());
    assert_eq!(login.refund("ann", 1).await.unwrap().remaining, 0);
    assert_eq!(login.refund("ann", 1).await.unwrap().remaining, 1);
}

#[tokio::test]
async fn two_limiters_with_the_same_key_are_independent_and_clones_are_one() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    let signup = limiter("signup", TEN, &server);
    let scope = login.scope("upload", TEN).unwrap();
    let elsewhere = builder("login", TEN, &server).prefix("other").build().unwrap();
    let replica = limiter("login", TEN, &server);
    let clone = login.clone();
    assert!(login.check_n("ann", 6).await.unwrap().allowed);
    for other in [&signup, &scope, &elsewhere] {
        assert_eq!(other.remaining("ann").await.unwrap(), 10);
    }
    for same in [&clone, &replica] {
        assert_eq!(same.remaining("ann").await.unwrap(), 4);
    }
    assert_eq!(login.policy(), Policy { name: "login", quota: TEN });
    assert_eq!(scope.check("ann").await.unwrap().policy, "upload");
    let error = login.scope("a b", TEN).unwrap_err();
    assert!(error.to_string().starts_with(r#"name is "a b", must be"#), "{error}");
}

#[tokio::test]
async fn a_quota_that_refuses_everything_refuses_without_counting() {
    let Some(server) = start() else { return };
    let closed = limiter("login", TEN.refuse_all(), &server);
    let decision = closed.check("ann").await.unwrap();
    assert!(decision.is_impossible());
    assert_eq!((decision.limit, decision.remaining), (0, 0));
    assert_eq!(counter(&server, KEY), None);
}

#[tokio::test]
async fn a_decision_that_nobody_awaits_counts_nothing() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    drop(login.check("ann"));
    assert_eq!(login.remaining("ann").await.unwrap(), 10);
}

#[tokio::test]
async fn what_is_no_counter_is_an_error_of_its_key_alone() {
    let Some(server) = start() else { return };
    let login = limiter("login", TEN, &server);
    for foreign in ["abc", "-1", "", &"x".repeat(100_000)] {
        raw(&server, &format!("set {KEY} 0 60 {}\r\n{foreign}", foreign.len()));
        for deciding in [login.check("ann"), login.peek("ann"), login.charge("ann", 1), login.refund("ann", 1)] {
            let (error, other) = tokio::join!(deciding, login.check("bob"));
            let error = error.unwrap_err();
            assert!(
                matches!(&error, MemcachedError::Refused { message, .. } if message.contains("non-numeric")),
                "{error}"
            );
            let _passed_or_not = other.expect("the connection is in step");
        }
    }
    login.reset("ann").await.unwrap();
    assert!(login.allow("ann").await.unwrap());
}

#[tokio::test]
async fn several_servers_share_the_keys_and_one_that_is_down_takes_only_its_own() {
    let Some(first) = start() else { return };
    let mut second = start_at(free_port());
    let login = builder("login", TEN, &first).server(second.addr()).build().unwrap();
    let replica = builder("login", TEN, &second).server(first.addr()).build().unwrap();
    let keys: Vec<String> = (0..100).map(|key| format!("user:{key}")).collect();
    for key in &keys {
        assert_eq!(login.check(key).await.unwrap().remaining, 9);
        assert_eq!(replica.check(key).await.unwrap().remaining, 8);
    }
    let of_first = |key: &&String| counter(&first, &format!("peerlimit:login:={key}")).is_some();
    let (of_first, of_second): (Vec<_>, Vec<_>) = keys.iter().partition(of_first);
    assert!(of_first.len() > 25 && of_second.len() > 25, "{} and {}", of_first.len(), of_second.len());
    second.kill();
    for key in of_first {
        assert_eq!(login.check(key).await.unwrap().remaining, 7);
    }
    for key in of_second {
        login.check(key).await.expect_err("its server is down");
    }
}

#[tokio::test]
async fn a_server_that_is_short_of_memory_begins_windows_anew_early() {
    if !is_installed("memcached") {
        return;
    }
    let port = free_port();
    let text = port.to_string();
    let server =
        Server::start("memcached", ["-l", "127.0.0.1", "-p", &text, "-U", "0", "-u", "nobody", "-m", "2"], port);
    let login = limiter("login", TEN, &server);
    assert!(login.check_n("ann", 10).await.unwrap().allowed);
    assert!(!login.allow("ann").await.unwrap());
    // Nobody asks for it while others come.
    for flood in 0..60 {
        let checks: Vec<_> = (0..1_000).map(|key| tokio::spawn(login.check(format!("user:{flood}:{key}")))).collect();
        for check in checks {
            assert!(check.await.unwrap().unwrap().allowed);
        }
    }
    assert!(login.allow("ann").await.unwrap());
}
