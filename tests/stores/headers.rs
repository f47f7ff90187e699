//! Header fields over every kind of limiter: they parse as structured fields, and hold when they are read.

use std::{convert::Infallible, time::Duration};

use http::{HeaderMap, Request, Response};
use peerlimit::{
    Quota, RateLimiter,
    http::{HeaderStyle, RateLimitLayer, key},
};
use sfv::{BareItem, List, ListEntry, Parser};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::conformance::{Case, Return, cases};

const ALL: [HeaderStyle; 3] = [HeaderStyle::Draft, HeaderStyle::RateLimit, HeaderStyle::XRateLimit];
const BURST: u64 = 4;
/// Fields count whole seconds, so a window is some of them.
const WINDOW: Duration = Duration::from_secs(4);

/// What a response says.
#[derive(Debug)]
struct Told {
    status: u16,
    /// `q` and `w` of the policy.
    policy: (i64, i64),
    /// `r` and `t` of the limit.
    limit: (i64, i64),
    /// Limit, remaining and reset of the fields with and without `X-`.
    older: [[u64; 3]; 2],
    retry_after: Option<u64>,
}

impl Told {
    fn read(status: u16, headers: &HeaderMap, name: &str) -> Self {
        let text = |field: &str| headers[field].to_str().unwrap();
        let number = |field: &str| text(field).parse().unwrap_or_else(|_| panic!("{field}: {}", text(field)));
        let pair = |field: &str, parameters: [&str; 2]| {
            let list: List = Parser::new(text(field)).parse().unwrap_or_else(|error| panic!("{field}: {error}"));
            let [ListEntry::Item(item)] = &list[..] else { panic!("{list:?} is not one item") };
            assert_eq!(item.bare_item.as_string().expect("a string").as_str(), name);
            let [one, other] = parameters.map(|parameter| match item.params.get(parameter) {
                Some(BareItem::Integer(value)) => i64::from(*value),
                other => panic!("{parameter} of {field} is {other:?}"),
            });
            (one, other)
        };
        let older = ["ratelimit", "x-ratelimit"]
            .map(|kind| ["limit", "remaining", "reset"].map(|what| number(&format!("{kind}-{what}"))));
        Self {
            status,
            policy: pair("ratelimit-policy", ["q", "w"]),
            limit: pair("ratelimit", ["r", "t"]),
            older,
            retry_after: headers.get("retry-after").map(|_| number("retry-after")),
        }
    }
}

/// Fields at the start, in the middle, and at the end of a window.
async fn fields_hold<C: Case>(case: &C)
where
    <C::Limiter as RateLimiter>::Error: Send,
{
    let quota = case.quota(Quota::per_second(1).burst(BURST));
    let (count, period) = (i64::try_from(quota.count()).unwrap(), i64::try_from(quota.period().as_secs()).unwrap());
    // What is said of a window may be a little longer than it is.
    let longest = (WINDOW + C::RETURN.slack()).as_secs();
    let limiter = case.limiter("fields", quota).await;
    let name = case.policy_name("fields");
    let name = if name.is_empty() { "default" } else { name };
    let handler = service_fn(|_: Request<String>| async { Ok::<_, Infallible>(Response::new(String::new())) });
    let service = RateLimitLayer::new(limiter, key::same()).headers(ALL).layer(handler);
    let ask = async || {
        let (head, _) = service.clone().oneshot(Request::new(String::new())).await.unwrap().into_parts();
        let told = Told::read(head.status.as_u16(), &head.headers, name);
        assert_eq!((told.policy, told.older[0][0], told.older[1][0]), ((count, period), BURST, BURST));
        let remaining = u64::try_from(told.limit.0).unwrap();
        assert_eq!((told.older[0][1], told.older[1][1]), (remaining, remaining), "{told:?}");
        assert_eq!(told.older[0][2], u64::try_from(told.limit.1).unwrap(), "{told:?}");
        // `t` and what waits are never longer than until all is back.
        assert!(told.older[0][2] <= told.older[1][2] && told.older[1][2] <= longest, "{told:?}");
        told
    };
    // At the start: nothing was used before.
    let begin = case.elapsed();
    let first = ask().await;
    assert_eq!((first.status, first.limit.0, first.retry_after), (200, 3, None));
    for left in [2, 1, 0] {
        assert_eq!(ask().await.limit.0, left);
    }
    let refused = ask().await;
    let wait = refused.retry_after.expect("when to come again");
    assert_eq!((refused.status, refused.limit.0), (429, 0));
    match C::RETURN {
        Return::Steadily => assert_eq!((wait, refused.older[1][2]), (1, WINDOW.as_secs())),
        Return::AsTheyLeft => assert_eq!((wait, refused.older[1][2]), (WINDOW.as_secs(), WINDOW.as_secs())),
        // A second of the server's clock may have ended meanwhile.
        Return::AtItsEnd => assert!((longest - 1..=longest).contains(&wait) && wait == refused.older[1][2], "{wait}"),
    }
    // What is said to be back then is.
    assert_eq!(refused.limit.1, i64::try_from(wait).unwrap(), "{refused:?}");
    // In the middle: what came back is there, and no more. A window of a server's clock may be over soon after a half.
    let half = match C::RETURN {
        Return::Steadily | Return::AsTheyLeft => WINDOW / 2 + Duration::from_millis(100),
        Return::AtItsEnd => WINDOW / 2 - Duration::from_millis(500),
    };
    case.pass((begin + half).saturating_sub(case.elapsed())).await;
    let middle = ask().await;
    match C::RETURN {
        Return::Steadily => assert_eq!((middle.status, middle.limit.0), (200, 1)),
        Return::AsTheyLeft => assert_eq!((middle.status, middle.limit.0, middle.retry_after), (429, 0, Some(2))),
        Return::AtItsEnd => {
            let wait = middle.retry_after.expect("when to come again");
            assert_eq!((middle.status, middle.limit.0, middle.older[1][2]), (429, 0, wait));
            // Less than at the start, and no less than one second's look too early.
            assert!((2..longest).contains(&wait), "{middle:?}");
        }
    }
    // At the end: whoever waits as long as the fields say meets a full bucket.
    let asked = case.elapsed();
    case.pass((asked + Duration::from_secs(middle.older[1][2])).saturating_sub(case.elapsed())).await;
    let end = ask().await;
    assert_eq!((end.status, end.limit.0, end.retry_after), (200, 3, None));
}

macro_rules! fields {
    ($($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(case) = cases::$case().await {
                    fields_hold(&case).await;
                }
            }
        )*
    };
}

fields!(gossip, local, scope, redis_log, redis_bucket, memcached, hybrid_on_primary, hybrid_on_fallback);
