//! What a connection can be told.

use std::time::Duration;

use peerlimit::{
    Quota, RateLimiter as _,
    stores::redis::{BuildError, Redis, RedisError},
};

use super::support::{self, Raw};
use crate::conformance::Answers as _;

#[test]
fn a_setting_out_of_bounds_is_named_with_its_value_and_bound() {
    let builder = || Redis::builder("redis://127.0.0.1/");
    for bad in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(61), Duration::MAX] {
        for (field, builder) in [
            ("connect_timeout", builder().connect_timeout(bad)),
            ("response_timeout", builder().response_timeout(bad)),
            ("reconnect_pause", builder().reconnect_pause(bad)),
        ] {
            let error = builder.build().unwrap_err().to_string();
            assert!(
                error.starts_with(field) && error.contains(&format!("{bad:?}")) && error.contains("60s"),
                "{error}"
            );
        }
    }
    for bad in ["", "{x}", "a b", "a\n", &"p".repeat(65)] {
        let error = builder().prefix(bad).build().unwrap_err();
        assert!(matches!(&error, BuildError::Prefix { prefix, most: 64 } if prefix == bad), "{error}");
        let redis = builder().build().unwrap();
        assert_eq!(redis.with_prefix(bad).unwrap_err(), error);
    }
}

#[test]
fn an_address_that_cannot_be_used_is_told_by_its_place_and_without_its_password() {
    for bad in ["", "127.0.0.1:6379", "http://user:hush@host/", "rediss://user:hush@host/", "redis://user:hush@host/x"]
    {
        let error = Redis::builder("redis://127.0.0.1/").or(bad).build().unwrap_err();
        assert!(matches!(error, BuildError::Url { index: 1, .. }), "{bad}: {error}");
        let builder = format!("{:?}", Redis::builder(bad));
        for text in [error.to_string(), format!("{error:?}"), builder] {
            assert!(!text.contains("hush"), "{text}");
        }
    }
    let error = Redis::cluster(Vec::<String>::new()).build().unwrap_err();
    assert!(matches!(error, BuildError::Cluster { .. }), "{error}");
}

#[tokio::test]
async fn limiters_of_two_prefixes_names_or_kinds_share_nothing_and_of_one_share_all() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let quota = Quota::per_hour(2);
    let shop = redis.with_prefix("shop").unwrap();
    assert_eq!(redis.sliding_log("a", quota).passes(b"k").await, 2);
    assert_eq!(shop.sliding_log("a", quota).passes(b"k").await, 2);
    assert_eq!(shop.sliding_log("b", quota).passes(b"k").await, 2);
    assert_eq!(shop.token_bucket("b", quota).passes(b"k").await, 2);
    let other = support::patiently(support::builder(&server)).prefix("shop").build().unwrap();
    assert_eq!(other.sliding_log("a", quota).passes(b"k").await, 0);
    assert_eq!(other.token_bucket("b", quota).passes(b"k").await, 0);
    let mut keys: Vec<String> = raw.ask("KEYS *").await;
    keys.sort();
    let expected = ["peerlimit:{=k}:log:=a", "shop:{=k}:bucket:=b", "shop:{=k}:log:=a", "shop:{=k}:log:=b"];
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn a_reset_gives_a_key_its_whole_quota_back_and_no_other() {
    let Some(server) = support::start() else { return };
    let redis = support::patient(&server);
    let quota = Quota::per_hour(3);
    let (log, bucket) = (redis.sliding_log("a", quota), redis.token_bucket("a", quota));
    for key in ["k", "l", "a b {}\r\n"] {
        assert_eq!((log.passes(key.as_bytes()).await, bucket.passes(key.as_bytes()).await), (3, 3));
    }
    for key in ["k", "a b {}\r\n", "unknown"] {
        log.reset(key).await.unwrap();
        bucket.reset(key).await.unwrap();
        assert_eq!((log.passes(key.as_bytes()).await, bucket.passes(key.as_bytes()).await), (3, 3));
    }
    assert_eq!((log.passes(b"l").await, bucket.passes(b"l").await), (0, 0));
}

#[tokio::test]
async fn a_decision_is_one_command() {
    let Some(server) = support::start() else { return };
    let (redis, mut raw) = (support::patient(&server), Raw::of(&server).await);
    let quota = Quota::per_hour(3);
    let (log, bucket) = (redis.sliding_log("a", quota), redis.token_bucket("a", quota));
    // The first of each kind tells the server the script.
    let _warm = (log.peeked(b"k", 1).await, bucket.peeked(b"k", 1).await);
    let _reset: String = raw.ask("CONFIG RESETSTAT").await;
    for cost in [1, 2, 1, 0, 9] {
        let _answers = (log.decided(b"k", cost).await, bucket.decided(b"k", cost).await);
    }
    let calls = [raw.calls("evalsha").await, raw.calls("eval").await, raw.calls("script|load").await];
    assert_eq!(calls, [10, 0, 0]);
}

#[tokio::test]
async fn a_password_is_used_and_a_wrong_one_is_a_typed_error() {
    let Some(server) = support::start_with(&["--requirepass", "hush"]) else { return };
    let quota = Quota::per_hour(3);
    let with = |user: &str| {
        let url = format!("redis://{user}{}/2", server.addr());
        support::patiently(Redis::builder(url)).response_timeout(Duration::from_millis(500)).build().unwrap()
    };
    assert!(with(":hush@").token_bucket("a", quota).decided(b"k", 1).await.allowed);
    for wrong in ["", ":wrong@"] {
        let error = with(wrong).token_bucket("a", quota).decide(b"k", 1).await.unwrap_err();
        assert!(matches!(error, RedisError::Server { .. } | RedisError::Unavailable { .. }), "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
