//! What the README says of coming from `tower_governor`: the same settings give the same answers.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, routing::get};
use http::{Method, Request};
use peerlimit::{
    Limiter, Quota,
    http::{HeaderStyle, Limit, Limits, RateLimitLayer, RequestHead, key},
};
use tower::ServiceExt as _;
use tower_governor::{
    GovernorLayer,
    governor::GovernorConfigBuilder,
    key_extractor::{GlobalKeyExtractor, SmartIpKeyExtractor},
};

/// Status, limit, and what remains.
type Answers = Vec<(u16, Option<String>, Option<String>)>;

/// What a router answers to requests by method, client, and what a proxy says of it.
async fn answers(router: Router, requests: &[(Method, &str, &str)]) -> Answers {
    let mut answers = Vec::new();
    for (method, peer, forwarded) in requests {
        let request = Request::builder().method(method).uri("/").header("x-forwarded-for", *forwarded);
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>(format!("{peer}:1").parse().unwrap()));
        let response = router.clone().oneshot(request).await.unwrap();
        let field = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_string());
        let (limit, remaining) = (field("x-ratelimit-limit"), field("x-ratelimit-remaining"));
        answers.push((response.status().as_u16(), limit, remaining));
    }
    answers
}

fn route() -> Router {
    Router::new().route("/", get(|| async { "hello" }).post(|| async { "hello" }))
}

fn ours(limits: impl Limits<Limiter = Limiter> + Send + Sync + 'static) -> Router {
    route().layer(RateLimitLayer::limits(limits).headers([HeaderStyle::XRateLimit]).keep_body())
}

fn limiter() -> Limiter {
    Limiter::local(Quota::every(Duration::from_secs(400)).burst(2))
}

fn by_peer() -> key::ClientAddr<impl key::PeerSource> {
    key::peer_addr_from(|ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip())
}

const REQUESTS: [(Method, &str, &str); 7] = [
    (Method::GET, "10.0.0.1", "192.0.2.1"),
    (Method::POST, "10.0.0.1", "192.0.2.2"),
    (Method::GET, "10.0.0.1", "192.0.2.1"),
    (Method::GET, "10.0.0.2", "192.0.2.1"),
    (Method::POST, "10.0.0.2", "192.0.2.2"),
    (Method::GET, "10.0.0.2", "192.0.2.3"),
    (Method::POST, "10.0.0.1", "192.0.2.2"),
];

#[tokio::test]
async fn clients_told_apart_by_peer_by_proxy_or_not_at_all_get_the_same_answers() {
    let mut theirs = GovernorConfigBuilder::default();
    theirs.per_second(400).burst_size(2);
    let peers = route().layer(GovernorLayer::new(theirs.use_headers().finish().unwrap()));
    let smart = theirs.key_extractor(SmartIpKeyExtractor).use_headers().finish().unwrap();
    let smart = route().layer(GovernorLayer::new(smart));
    let all = theirs.key_extractor(GlobalKeyExtractor).use_headers().finish().unwrap();
    let all = route().layer(GovernorLayer::new(all));

    let proxies = key::TrustedProxies::networks(["10.0.0.0/8"]).unwrap();
    let by_client = by_peer().behind(proxies, key::ForwardedHeader::XForwardedFor);
    for (theirs, ours, refused) in [
        (peers, ours(Limit::new(limiter(), by_peer())), 3),
        (smart, ours(Limit::new(limiter(), by_client)), 2),
        (all, ours(Limit::new(limiter(), key::same())), 5),
    ] {
        let theirs = answers(theirs, &REQUESTS).await;
        assert_eq!(theirs.iter().filter(|answer| answer.0 == 429).count(), refused);
        assert_eq!(answers(ours, &REQUESTS).await, theirs);
    }
}

#[tokio::test]
async fn methods_that_are_left_out_pass_free() {
    let mut theirs = GovernorConfigBuilder::default();
    let theirs = theirs.per_second(400).burst_size(2).methods(vec![Method::POST]).use_headers().finish().unwrap();
    let limiter = limiter();
    let posts = move |head: &RequestHead<'_>| (head.method() == Method::POST).then(|| (limiter.clone(), 1));
    let ours = ours(Limit::resolve(posts, key::same()));
    let requests = [Method::GET, Method::POST, Method::GET, Method::POST, Method::POST, Method::GET]
        .map(|method| (method, "10.0.0.1", "192.0.2.1"));
    let theirs = answers(route().layer(GovernorLayer::new(theirs)), &requests).await;
    assert_eq!(theirs.iter().map(|answer| answer.0).collect::<Vec<_>>(), [200, 200, 200, 200, 429, 200]);
    assert_eq!(answers(ours, &requests).await, theirs);
}

#[test]
fn nonsense_is_an_error_here_where_it_is_nothing_there() {
    assert!(GovernorConfigBuilder::default().burst_size(0).finish().is_none());
    let error = Quota::new(1, Duration::from_secs(1)).and_then(|quota| quota.with_burst(0)).expect_err("no burst");
    assert!(error.to_string().contains("burst"), "{error}");
    assert!(GovernorConfigBuilder::default().per_second(0).finish().is_none());
    assert!(Quota::new(1, Duration::ZERO).is_err_and(|error| error.to_string().contains("period")));
}
