//! Header fields over time, and of stacked layers.

use std::time::Duration;

use peerlimit::{
    Limiter, ManualClock, Quota,
    http::{HeaderStyle, RateLimitLayer, key},
};
use sfv::{BareItem, List, ListEntry, Parser};
use tower::Layer as _;

use super::support::{Answer, Handler, request, send};

const ALL: [HeaderStyle; 3] = [HeaderStyle::Draft, HeaderStyle::RateLimit, HeaderStyle::XRateLimit];

/// Names of a structured list, with one of its parameters.
pub fn members(answer: &Answer, field: &str, parameter: &str) -> Vec<(String, i64)> {
    let list: List = Parser::new(&answer.list(field)).parse().expect("a structured list");
    let member = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("{entry:?} is no item") };
        let Some(BareItem::Integer(value)) = item.params.get(parameter) else { panic!("no {parameter} in {item:?}") };
        (item.bare_item.as_string().expect("a string").as_str().to_string(), i64::from(*value))
    };
    list.iter().map(member).collect()
}

#[tokio::test]
async fn the_fields_are_right_at_the_start_in_the_middle_and_at_the_end_of_a_window() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with_clock(Quota::per_minute(60), clock.clone());
    let service = RateLimitLayer::new(limiter, key::same()).headers(ALL).layer(Handler::default());
    let all = |answer: &Answer| {
        ["ratelimit", "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-remaining", "x-ratelimit-reset"]
            .map(|name| answer.field(name).to_string())
    };
    let first = send(&service, request(&[])).await;
    assert_eq!(first.field("ratelimit-policy"), r#""default";q=60;w=60"#);
    assert_eq!((first.field("ratelimit-limit"), first.field("x-ratelimit-limit")), ("60", "60"));
    assert_eq!(all(&first), [r#""default";r=59;t=1"#, "59", "1", "59", "1"]);
    for _ in 0..59 {
        send(&service, request(&[])).await;
    }
    let refused = send(&service, request(&[])).await;
    assert_eq!((refused.status, refused.field("retry-after")), (429, "1"));
    assert_eq!(all(&refused), [r#""default";r=0;t=1"#, "0", "1", "0", "60"]);
    clock.advance(Duration::from_millis(30_250));
    let middle = send(&service, request(&[])).await;
    assert_eq!(all(&middle), [r#""default";r=29;t=1"#, "29", "1", "29", "31"]);
    clock.advance(Duration::from_millis(30_750));
    let end = send(&service, request(&[])).await;
    assert_eq!(all(&end), [r#""default";r=59;t=1"#, "59", "1", "59", "1"]);
}

#[tokio::test]
async fn a_reset_of_zero_is_written() {
    let limit = peerlimit::http::Limit::new(Limiter::local(Quota::per_minute(60)), key::same()).cost(|_| 0);
    let service = RateLimitLayer::limits(limit).headers(ALL).layer(Handler::default());
    let answer = send(&service, request(&[])).await;
    assert_eq!(answer.field("ratelimit"), r#""default";r=60;t=0"#);
    assert_eq!((answer.field("ratelimit-reset"), answer.field("x-ratelimit-reset")), ("0", "0"));
}

#[tokio::test]
async fn two_layers_both_appear_and_the_tightest_is_in_the_older_fields() {
    let limiter = Limiter::local_with_clock(Quota::per_second(1000), ManualClock::new());
    let inner = RateLimitLayer::new(limiter.scope("daily", Quota::per_day(3)), key::same()).headers(ALL);
    let outer = RateLimitLayer::new(limiter.scope("burst", Quota::per_minute(10)), key::same()).headers(ALL);
    let service = outer.layer(inner.layer(Handler::default()));
    let answer = send(&service, request(&[])).await;
    assert_eq!(members(&answer, "ratelimit-policy", "q"), [("daily".into(), 3), ("burst".into(), 10)]);
    assert_eq!(members(&answer, "ratelimit-policy", "w"), [("daily".into(), 86_400), ("burst".into(), 60)]);
    assert_eq!(members(&answer, "ratelimit", "r"), [("daily".into(), 2), ("burst".into(), 9)]);
    assert_eq!((answer.field("ratelimit-limit"), answer.field("ratelimit-remaining")), ("3", "2"));
    assert_eq!((answer.field("x-ratelimit-limit"), answer.field("x-ratelimit-reset")), ("3", "28800"));
    // The inner one refuses, and the response goes through both.
    send(&service, request(&[])).await;
    send(&service, request(&[])).await;
    let refused = send(&service, request(&[])).await;
    assert_eq!((refused.status, refused.field("retry-after")), (429, "28800"));
    assert_eq!(members(&refused, "ratelimit", "t"), [("daily".into(), 28_800), ("burst".into(), 6)]);
    // The outer one refuses: the inner one was not asked.
    for _ in 0..6 {
        send(&service, request(&[])).await;
    }
    let refused = send(&service, request(&[])).await;
    assert_eq!(members(&refused, "ratelimit", "r"), [("burst".into(), 0)]);
}

#[tokio::test]
async fn hidden_headers_leave_retry_after_alone() {
    let limiter = Limiter::local(Quota::every(Duration::from_secs(60)));
    let service = RateLimitLayer::new(limiter, key::same()).headers([]).layer(Handler::default());
    assert!(send(&service, request(&[])).await.headers.is_empty());
    let refused = send(&service, request(&[])).await;
    let mut names: Vec<_> = refused.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "retry-after"]);
}
