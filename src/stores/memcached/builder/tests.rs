//! Settings that cannot be.

use super::*;

const QUOTA: Quota = Quota::per_minute(10);

fn error(builder: Builder) -> String {
    builder.build().unwrap_err().to_string()
}

fn good() -> Builder {
    FixedWindow::builder("login", QUOTA).server("127.0.0.1:11211")
}

#[tokio::test]
async fn a_quota_that_is_no_fixed_window_is_refused_by_name() {
    let with = |quota| FixedWindow::builder("login", quota).server("127.0.0.1:11211");
    assert_eq!(
        error(with(QUOTA.burst(20))),
        "quota burst is 20, must be 10, the quota's count, as a fixed window has no other"
    );
    for millis in [1, 500, 999, 1_001, 1_500] {
        let period = Duration::from_millis(millis);
        let error = error(with(Quota::new(1, period).unwrap()));
        assert!(
            error.starts_with(&format!("quota period is {period:?}, must be whole seconds, from 1 s to ")),
            "{error}"
        );
    }
    assert!(with(Quota::per_second(10)).build().is_ok());
    assert!(with(Quota::new(60, Duration::from_secs(60 * 24 * 60 * 60)).unwrap()).build().is_ok());
}

#[test]
fn a_window_that_ends_after_what_servers_can_express_is_refused() {
    let days = |days: u64| Quota::new(days, Duration::from_secs(days * 24 * 60 * 60)).unwrap();
    let wall_2037 = 2_130_000_000;
    assert_eq!(check_quota(&days(200), wall_2037), Ok(()));
    let most = Duration::from_secs(i32::MAX as u64 - wall_2037);
    let period = days(210).period();
    assert_eq!(check_quota(&days(210), wall_2037), Err(BuildError::Period { period, most }));
    assert_eq!(check_quota(&days(30), u64::MAX), Ok(()));
}

#[tokio::test]
async fn texts_that_would_not_be_a_part_of_a_key_are_refused() {
    let long = "x".repeat(65);
    for text in ["", " ", "a b", "a\r\nflush_all", "a\0", "{a}", "\u{e4}", &long] {
        let message = error(good().prefix(text));
        assert!(message.starts_with(&format!("prefix is {text:?}, must be 1 to 64")), "{message}");
        let named = FixedWindow::builder(text, QUOTA).server("127.0.0.1:11211");
        assert!(error(named).starts_with(&format!("name is {text:?}, must be 1 to 64")));
    }
    // With a colon in it, prefix and name could be cut in another place.
    assert!(error(FixedWindow::builder("a:b", QUOTA).server("127.0.0.1:1")).ends_with("without braces or colons"));
    assert!(good().prefix("a:b").build().is_ok());
    let longest = FixedWindow::builder("n".repeat(64), QUOTA).prefix("p".repeat(64)).server("127.0.0.1:1").build();
    assert!(longest.is_ok());
    const { assert!(2 * (Builder::MAX_TEXT + 1) + key::MAX_LEN <= 250) }
}

#[tokio::test]
async fn servers_are_checked() {
    for server in [
        "",
        "cache",
        "cache:",
        ":11211",
        "cache:0",
        "cache:65536",
        "::1:11211",
        "[::1:11211",
        "[x]:1",
        "a b:1",
        "ca\r\nche:1",
    ] {
        let message = error(FixedWindow::builder("login", QUOTA).server(server));
        assert!(message.starts_with(&format!("server is {server:?}, must be host:port")), "{message}");
    }
    for server in ["cache.internal:11211", "[::1]:11211", "10.0.0.1:1"] {
        assert!(FixedWindow::builder("login", QUOTA).server(server).build().is_ok(), "{server}");
    }
    assert_eq!(error(FixedWindow::builder("login", QUOTA)), "0 servers were given, must be from 1 to 64");
}

#[tokio::test]
async fn times_and_numbers_outside_their_bounds_are_refused() {
    assert_eq!(error(good().timeout(Duration::ZERO)), "timeout is 0ns, must be from 1ms to 60s");
    assert!(error(good().connect_timeout(Duration::MAX)).starts_with("connect_timeout is "));
    assert_eq!(error(good().max_waiting(0)), "max_waiting is 0, must be from 1 to 1048576");
}

#[test]
fn there_has_to_be_a_runtime() {
    assert_eq!(good().build().unwrap_err(), BuildError::NoRuntime);
}
