//! Several limits on one request.

use std::{
    future::{Ready, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    thread,
};

use http::HeaderName;
use peerlimit::{
    Ask, Decision, Limiter, ManualClock, Policy, Quota, RateLimiter, Scope,
    http::{ByResponse, Limit, Limits, RateLimitLayer, key},
};

use super::{
    fields::members,
    support::{Store, behind, now, request, send},
};

#[tokio::test]
async fn all_limits_have_to_allow_a_request_or_none_is_charged() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let wide = limiter.scope("wide", Quota::per_hour(10));
    let narrow = limiter.scope("narrow", Quota::per_hour(2));
    let by_user = key::header(HeaderName::from_static("x-user"));
    let limits = Limit::new(wide.clone(), key::same()).and(Limit::new(narrow.clone(), by_user));
    let (service, handler) = behind(&RateLimitLayer::limits(limits));
    let user = |user: &'static str| request(&[("x-user", user)]);
    let passed = send(&service, user("a")).await;
    assert_eq!(members(&passed, "ratelimit", "r"), [("wide".into(), 9), ("narrow".into(), 1)]);
    send(&service, user("a")).await;
    for _ in 0..20 {
        let refused = send(&service, user("a")).await;
        assert_eq!(refused.status, 429);
        assert_eq!(
            members(&refused, "ratelimit", "r"),
            [("wide".into(), 8), ("narrow".into(), 0)],
            "wide kept its permit"
        );
        assert!(refused.body.contains("[\"narrow\"]"), "{}", refused.body);
    }
    assert_eq!(wide.peek("").remaining, 8);
    for user_id in ["b", "c", "d", "e"] {
        for _ in 0..2 {
            assert_eq!(send(&service, user(user_id)).await.status, 200);
        }
    }
    // Now the first one refuses.
    let refused = send(&service, user("f")).await;
    assert_eq!(members(&refused, "ratelimit", "r"), [("wide".into(), 0), ("narrow".into(), 2)]);
    assert!(refused.status == 429 && refused.body.contains("[\"wide\"]"), "{}", refused.body);
    assert_eq!(narrow.peek("f").remaining, 2);
    assert_eq!(handler.calls(), 10);
}

#[tokio::test]
async fn three_limits_are_given_back_each_its_own_cost() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let scopes = ["one", "two", "three"].map(|name| limiter.scope(name, Quota::per_hour(10)));
    let limit = |index: usize, cost: u64| Limit::new(scopes[index].clone(), key::same()).cost(move |_| cost);
    let (service, _) = behind(&RateLimitLayer::limits(limit(0, 3).and(limit(1, 2)).and(limit(2, 6))));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    for _ in 0..3 {
        assert_eq!(send(&service, request(&[])).await.status, 429);
    }
    assert_eq!(scopes.map(|scope| scope.peek("").remaining), [7, 8, 4]);
}

#[tokio::test]
async fn stores_that_take_their_time_are_given_back_too() {
    let [wide, narrow] = [10, 1].map(|count| Store::new(Limiter::local(Quota::per_hour(count))));
    let limits = Limit::new(wide.clone(), key::same()).and(Limit::new(narrow.clone(), key::same()));
    let (service, handler) = behind(&RateLimitLayer::limits(limits));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);
    assert_eq!(wide.limiter.peek("").remaining, 9);
    assert_eq!(*wide.asked.lock().unwrap(), ["decide", "decide", "refund"]);
    assert_eq!(*narrow.asked.lock().unwrap(), ["decide", "decide"]);
    assert_eq!(handler.calls(), 1);
}

/// Sends refused requests on one thread while another looks at the first limit; how often that was not full.
fn times_missing(limits: impl Limits + Send + Sync + 'static, wide: &Scope) -> u64 {
    const LOOKS: u64 = 200_000;
    let (service, handler) = behind(&RateLimitLayer::limits(limits));
    let ends = Arc::new(AtomicBool::new(false));
    let (missing, refused) = thread::scope(|threads| {
        let sends = threads.spawn(|| {
            let mut refused = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                let future = std::pin::pin!(send(&service, request(&[])));
                let answer = now(future);
                refused += u64::from(answer.status == 429);
            }
            refused
        });
        let missing = (0..LOOKS).filter(|_| wide.peek("").remaining < wide.quota().burst_size()).count() as u64;
        ends.store(true, Ordering::Relaxed);
        (missing, sends.join().unwrap())
    });
    assert!(refused > 100 && handler.calls() == 0, "{refused} refused, {} passed", handler.calls());
    missing
}

#[test]
fn limits_of_one_limiter_are_decided_at_one_instant_and_a_refusal_shows_nowhere_else() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let wide = limiter.scope("wide", Quota::per_hour(10));
    let spent = limiter.scope("spent", Quota::per_hour(1));
    assert!(spent.allow(""));
    let limits = Limit::new(wide.clone(), key::same()).and(Limit::new(spent, key::same()));
    assert_eq!(times_missing(limits, &wide), 0);
}

#[tokio::test]
async fn limits_of_stores_are_asked_in_order_so_a_refused_request_is_missing_from_the_first_for_a_moment() {
    let [wide, spent] = [10, 1].map(|count| Store::new(Limiter::local(Quota::per_hour(count))));
    assert!(spent.limiter.allow(""));
    let limits = Limit::new(wide.clone(), key::same()).and(Limit::new(spent, key::same()));
    let (service, _) = behind(&RateLimitLayer::limits(limits));
    let mut request = Box::pin(send(&service, request(&[])));
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(wide.limiter.peek("").remaining, 9, "what everybody else sees until the second has answered");
    assert_eq!(request.await.status, 429);
    assert_eq!(wide.limiter.peek("").remaining, 10);
}

#[tokio::test]
async fn two_limits_of_one_scope_add_up() {
    let limiter = Limiter::local(Quota::per_hour(10));
    let limit = |cost: u64| Limit::new(limiter.clone(), key::same()).cost(move |_| cost);
    let (service, _) = behind(&RateLimitLayer::limits(limit(6).and(limit(5))));
    let refused = send(&service, request(&[])).await;
    assert_eq!((refused.status, limiter.peek("").remaining), (429, 10));
    assert!(refused.headers.contains_key("retry-after"), "it passes later, though each passes now: {refused:?}");
    let (service, _) = behind(&RateLimitLayer::limits(limit(6).and(limit(4))));
    assert_eq!((send(&service, request(&[])).await.status, limiter.peek("").remaining), (200, 0));
}

#[tokio::test]
async fn of_several_refusals_the_one_that_takes_longest_answers() {
    let limiter = Limiter::local_with_clock(Quota::per_second(1000), ManualClock::new());
    let scopes = [("second", Quota::per_second(1)), ("hour", Quota::per_hour(1)), ("minute", Quota::per_minute(1))]
        .map(|(name, quota)| limiter.scope(name, quota));
    let [second, hour, minute] = scopes.clone().map(|scope| Limit::new(scope, key::same()));
    let (service, _) = behind(&RateLimitLayer::limits(second.and(hour).and(minute)));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    let refused = send(&service, request(&[])).await;
    assert_eq!((refused.status, refused.field("retry-after")), (429, "3600"));
    assert!(refused.body.contains("[\"hour\"]"), "{}", refused.body);
    // Blocked is for ever.
    scopes[0].block("");
    let refused = send(&service, request(&[])).await;
    assert!(refused.status == 429 && refused.body.contains("[\"second\"]"), "{}", refused.body);
    assert!(!refused.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn what_is_set_aside_for_one_limit_holds_among_several() {
    let limiter = Limiter::local(Quota::per_second(1000));
    let [one, two] = ["one", "two"].map(|name| limiter.scope(name, Quota::per_hour(2)));
    let limits = Limit::new(one.clone(), key::same()).and(Limit::new(two.clone(), key::same()));
    let layer = RateLimitLayer::limits(limits).by_response(ByResponse::refund_server_errors());
    let (service, _) = behind(&layer);
    let left = || [&one, &two].map(|scope| scope.peek("").remaining);
    let failed = || request(&[("x-status", "503")]);
    // What was consumed at both comes back to both.
    assert_eq!((send(&service, failed()).await.status, left()), (503, [2, 2]));
    // An exempt key consumes nothing and gets nothing back.
    assert!(one.check_n("", 2).allowed);
    one.exempt("");
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, failed()).await.status, 503);
    one.release("");
    assert_eq!(left(), [0, 1]);
    // One that only watches refuses nobody, and gets back only what it took.
    one.set_shadow(true);
    assert_eq!(send(&service, failed()).await.status, 503);
    assert_eq!(left(), [0, 1]);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429, "the other one refuses");
    assert_eq!(left(), [0, 0]);
}

/// Says which of its methods was called.
#[derive(Clone, Debug)]
struct Joint {
    asked: Arc<Mutex<Vec<&'static str>>>,
    together: bool,
}

impl Joint {
    fn say(&self, what: &'static str) -> Ready<Result<Decision, std::convert::Infallible>> {
        self.asked.lock().unwrap().push(what);
        ready(Ok(Decision::allow(10, 9, std::time::Duration::ZERO)))
    }
}

impl RateLimiter for Joint {
    type Error = std::convert::Infallible;
    type Deciding = Ready<Result<Decision, Self::Error>>;

    fn decide(&self, _: &[u8], _: u64) -> Self::Deciding {
        self.say("decide")
    }

    fn decide_all_now(asks: &mut [Ask<'_, Self>]) -> bool {
        for ask in asks.iter_mut().filter(|ask| ask.limiter.together) {
            *ask.answer = ask.limiter.say("together").into_inner().ok();
        }
        asks.iter().all(|ask| ask.limiter.together)
    }

    fn peek(&self, _: &[u8], _: u64) -> Self::Deciding {
        self.say("peek")
    }

    fn charge(&self, _: &[u8], _: u64) -> Self::Deciding {
        self.say("charge")
    }

    fn refund(&self, _: &[u8], _: u64) -> Self::Deciding {
        self.say("refund")
    }

    fn policy(&self) -> Policy {
        Policy { name: "joint", quota: Quota::per_second(10) }
    }
}

#[tokio::test]
async fn a_limiter_of_ones_own_is_asked_together_if_it_can_and_in_order_if_not() {
    for (together, expected) in [(true, ["together"; 3]), (false, ["decide"; 3])] {
        let joint = Joint { asked: Arc::default(), together };
        let limit = || Limit::new(joint.clone(), key::same());
        let (service, _) = behind(&RateLimitLayer::limits(limit().and(limit()).and(limit())));
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, members(&answer, "ratelimit", "r").len()), (200, 3));
        assert_eq!(*joint.asked.lock().unwrap(), expected);
        // One alone has nothing to agree with.
        joint.asked.lock().unwrap().clear();
        let (service, _) = behind(&RateLimitLayer::limits(limit()));
        assert_eq!(send(&service, request(&[])).await.status, 200);
        assert_eq!(*joint.asked.lock().unwrap(), ["decide"]);
    }
}
