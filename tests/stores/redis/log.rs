//! The sliding window log.

use std::time::Duration;

use peerlimit::{Quota, RateLimiter as _};

use super::support::{self, Raw};
use crate::conformance::Answers as _;

const KEY: &str = "peerlimit:{=k}:log:=a";

/// Time, and permits with it.
type Entry = [f64; 2];

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    String,
    List,
}

/// All entries that are kept; what passed before the first of them does not count.
async fn entries(raw: &mut Raw) -> Vec<Entry> {
    let bytes: Vec<u8> = match form(raw).await {
        None => Vec::new(),
        Some(Form::String) => raw.ask(&format!("GET {KEY}")).await,
        Some(Form::List) => raw.ask::<Vec<Vec<u8>>>(&format!("LRANGE {KEY} 0 -1")).await.concat(),
    };
    let (numbers, []) = bytes.as_chunks::<8>() else { panic!("{bytes:?}") };
    let (entries, []) = numbers.as_chunks::<2>() else { panic!("{bytes:?}") };
    entries.iter().map(|entry| entry.map(f64::from_be_bytes)).collect()
}

async fn form(raw: &mut Raw) -> Option<Form> {
    match &*raw.ask::<String>(&format!("TYPE {KEY}")).await {
        "none" => None,
        "string" => Some(Form::String),
        "list" => Some(Form::List),
        other => panic!("{other}"),
    }
}

/// Replaces all entries, and leaves the log without an expiry.
async fn put(raw: &mut Raw, form: Form, entries: &[Entry]) {
    let _gone: u64 = raw.ask(&format!("DEL {KEY}")).await;
    let entries: Vec<Vec<u8>> = entries.iter().map(|entry| entry.map(f64::to_be_bytes).concat()).collect();
    let mut cmd = match form {
        Form::String => ::redis::cmd("SET"),
        Form::List => ::redis::cmd("RPUSH"),
    };
    cmd.arg(KEY);
    match form {
        Form::String => cmd.arg(entries.concat()),
        Form::List => cmd.arg(entries),
    };
    if cmd.args_iter().count() > 2 {
        let _done: ::redis::Value = cmd.query_async(raw.connection()).await.unwrap();
    }
}

#[tokio::test]
async fn ten_thousand_requests_of_one_millisecond_count_as_ten_thousand() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(20_000));
    let asked: Vec<_> = (0..10_000).map(|_| tokio::spawn(log.decide(b"k", 1))).collect();
    for decision in asked {
        assert!(decision.await.unwrap().unwrap().allowed);
    }
    assert_eq!(entries(&mut raw).await.len(), 1 + 10_000);
    assert_eq!(log.peeked(b"k", 0).await.remaining, 10_000);
    // And as if all had come in one microsecond, the last one: what passed before each tells them apart.
    let mut entries = entries(&mut raw).await;
    let last = entries.last().unwrap()[0];
    entries.iter_mut().for_each(|entry| entry[0] = last);
    put(&mut raw, Form::List, &entries).await;
    assert_eq!(log.peeked(b"k", 0).await.remaining, 10_000);
    assert_eq!(log.refunded(b"k", 2_500).await.remaining, 12_500);
    assert_eq!(log.decided(b"k", 12_501).await.remaining, 12_500);
    assert_eq!(log.decided(b"k", 12_500).await.remaining, 0);
}

#[tokio::test]
async fn a_refused_request_leaves_nothing() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(5));
    assert_eq!(log.passes(b"k").await, 5);
    let before = entries(&mut raw).await;
    for cost in [1, 2, 5, 6, u64::MAX] {
        assert!(!log.decided(b"k", cost).await.allowed);
    }
    assert_eq!((before.len(), before), (1 + 5, entries(&mut raw).await));
    // Nor does one that is refused on a key that nobody knows, or that asks for nothing.
    assert!(!log.decided(b"new", 6).await.allowed);
    assert!(log.decided(b"new", 0).await.allowed);
    assert!(log.peeked(b"new", 1).await.allowed);
    assert_eq!(log.refunded(b"new", 1).await.remaining, 5);
    assert_eq!(raw.ask::<u64>("EXISTS peerlimit:{=new}:log:=a").await, 0);
}

#[tokio::test]
async fn what_has_left_the_window_is_trimmed_before_it_is_counted() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(10));
    // Entries of long ago, and after some of them what is still in the window.
    for (old, young, form) in cases() {
        let what = format!("{old} old, {young} young, as a {form:?}");
        let now: (u64, u64) = raw.ask("TIME").await;
        let now = (now.0 * 1_000_000 + now.1) as f64;
        // What passed before the first is no entry of the window, whenever it was.
        let at = |index| if index <= old { 1_000.0 + f64::from(index) } else { now };
        let all: Vec<Entry> = (0..=old + young).map(|index| [at(index), (5 + index).into()]).collect();
        put(&mut raw, form, &all).await;
        let left = u64::from(10 - young);
        assert_eq!(log.peeked(b"k", 1).await.remaining, left, "{what}");
        assert_eq!(entries(&mut raw).await, all, "a peek changes nothing: {what}");
        assert_eq!(log.peeked(b"k", left).await.remaining, left);
        let refused = log.decided(b"k", left + 1).await;
        assert_eq!((refused.allowed, refused.remaining), (false, left), "{what}");
        put(&mut raw, form, &all).await;
        let decision = log.decided(b"k", left).await;
        assert_eq!((decision.allowed, decision.remaining), (true, 0), "{what}");
        let kept = entries(&mut raw).await;
        assert_eq!(kept[..kept.len() - 1], all[old as usize..], "{what}");
        assert!(raw.ask::<i64>(&format!("PTTL {KEY}")).await > 0);
    }
}

/// Entries that have left the window, entries that have not, and how they are kept.
fn cases() -> impl Iterator<Item = (u32, u32, Form)> {
    let counts = [0_u32, 1, 2, 3, 29, 30, 31, 32, 33, 64, 100, 1_000]
        .into_iter()
        .flat_map(|old| [0_u32, 1, 2, 7].map(|young| (old, young)));
    counts.flat_map(|(old, young)| [Form::String, Form::List].map(|form| (old, young, form)))
}

#[tokio::test]
async fn a_log_that_grows_long_becomes_a_list_and_says_the_same() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(200));
    for left in (0..200).rev() {
        assert_eq!(log.decided(b"k", 1).await.remaining, left);
        let expected = if left >= 200 - 31 { Form::String } else { Form::List };
        assert_eq!(form(&mut raw).await, Some(expected), "{left} left");
        let entries = entries(&mut raw).await;
        assert!(entries.iter().map(|entry| entry[1]).eq((0..=200 - left as u32).map(f64::from)), "{entries:?}");
    }
    assert!(!log.decided(b"k", 1).await.allowed);
    // It stays one until it is gone.
    assert_eq!(log.refunded(b"k", 199).await.remaining, 199);
    assert_eq!(form(&mut raw).await, Some(Form::List));
    assert_eq!(log.refunded(b"k", 1).await.remaining, 200);
    assert_eq!(form(&mut raw).await, None);
}

#[tokio::test]
async fn what_is_no_log_is_an_error_that_says_so() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_second(10));
    for (spoil, says) in [
        ("SET {} hello", "no log"),
        ("SETRANGE {} 16 x", "no log"),
        ("LPUSH {} x", "no log"),
        ("SADD {} x", "WRONGTYPE"),
    ] {
        let _gone: u64 = raw.ask(&format!("DEL {KEY}")).await;
        let _done: ::redis::Value = raw.ask(&spoil.replace("{}", KEY)).await;
        for answer in [log.decide(b"k", 1).await, log.peek(b"k", 1).await, log.charge(b"k", 1).await] {
            let error = answer.unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        log.reset(b"k").await.unwrap();
        assert!(log.decided(b"k", 1).await.allowed);
    }
    // Nor do numbers that are none come to anything else.
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for form in [Form::String, Form::List] {
            for entry in [[number, 2.0], [2e15, number], [number, number]] {
                put(&mut raw, form, &[[0.0, 1.0], [0.0, 1.5], entry]).await;
                match log.decide(b"k", 1).await {
                    Ok(decision) => assert!(decision.remaining <= 9, "{decision:?}"),
                    Err(error) => assert!(error.to_string().contains("no log"), "{error}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn an_entry_takes_some_twenty_bytes() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(5_000));
    assert_eq!(log.passes(b"k").await, 5_000);
    let bytes: u64 = raw.ask(&format!("MEMORY USAGE {KEY} SAMPLES 0")).await;
    assert!(bytes / 5_000 <= 28, "{bytes} bytes");
}

#[tokio::test]
async fn a_request_of_many_permits_is_one_entry() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_second(1_000_000).burst(Quota::MAX_BURST));
    assert!(log.decided(b"k", 4_000_000_000).await.allowed);
    assert!(!log.charged(b"k", u64::MAX).await.allowed);
    assert_eq!(entries(&mut raw).await.len(), 1 + 2);
    let refunded = log.refunded(b"k", 2 * Quota::MAX_BURST - 1).await;
    assert_eq!(refunded.remaining, Quota::MAX_BURST - 1);
    assert_eq!(entries(&mut raw).await.iter().map(|entry| entry[1]).collect::<Vec<_>>(), [0.0, 1.0]);
}

#[tokio::test]
async fn it_is_exact_across_the_edge_of_a_window_where_a_fixed_one_lets_twice_as_much_pass() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    let quota = Quota::per_second(50).burst(10);
    let (log, window) = (redis.sliding_log("a", quota), quota.refill_time());
    let begin = std::time::Instant::now();
    // Of each pass: when it was asked for and when it was answered.
    let mut passed = Vec::new();
    while begin.elapsed() < window * 5 {
        let asked = begin.elapsed();
        if log.decided(b"k", 1).await.allowed {
            passed.push((asked, begin.elapsed()));
        }
    }
    assert!(passed.len() >= 40, "{}", passed.len());
    for ten in passed.windows(11) {
        let apart = ten[10].1.saturating_sub(ten[0].0);
        assert!(apart >= window, "11 of 10 within {apart:?}");
    }
}

#[tokio::test]
async fn a_clock_of_the_server_that_goes_back_keeps_the_log_in_order() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let log = redis.sliding_log("a", Quota::per_hour(10));
    for form in [Form::String, Form::List] {
        log.reset(b"k").await.unwrap();
        assert!(log.decided(b"k", 2).await.allowed);
        // As if that had been admitted in a minute.
        let mut all = entries(&mut raw).await;
        all[1][0] += 60e6;
        put(&mut raw, form, &all).await;
        for left in (0..8).rev() {
            assert_eq!(log.decided(b"k", 1).await.remaining, left);
        }
        let refused = log.decided(b"k", 1).await;
        let wait = refused.retry_after.unwrap();
        assert!(wait > Duration::from_secs(3_600) && wait <= Duration::from_secs(3_660), "{wait:?}");
        assert!(entries(&mut raw).await.is_sorted_by_key(|entry| entry[0]));
        assert_eq!(log.refunded(b"k", 9).await.remaining, 9);
    }
    // What had left the window before does not come back with the clock.
    let now: (u64, u64) = raw.ask("TIME").await;
    let now = (now.0 * 1_000_000 + now.1) as f64;
    for form in [Form::String, Form::List] {
        put(&mut raw, form, &[[now, 1_000.0], [now, 1_001.0], [now, 1_002.0]]).await;
        assert_eq!(log.peeked(b"k", 1).await.remaining, 8, "{form:?}");
        assert_eq!(log.decided(b"k", 1).await.remaining, 7, "{form:?}");
    }
}
