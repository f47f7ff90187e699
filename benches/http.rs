//! What the middleware costs: over a service alone, and beside `tower_governor` on the same axum route.
//!
//! `cargo bench --features tower --bench http`; see `support` for the options. Everything runs on one thread and
//! without sockets, whose microseconds would hide what is measured. Requests are made outside of the measured time.
#![allow(clippy::expect_used, reason = "a benchmark that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(unreachable_pub, reason = "modules of a benchmark are private by nature")]

#[path = "support/mod.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod support;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use axum::{Router, extract::ConnectInfo, routing::get};
use http::{Request, Response, StatusCode};
use peerlimit::{
    Limiter, Quota,
    http::{HeaderStyle, RateLimitLayer, key},
};
use tower::{Layer as _, Service};
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

use support::{
    options::Options,
    rounds::{Contestant, interleave},
};

/// Addresses that clients have.
const CLIENTS: usize = 1_000;
/// Most that the middleware may take for a request that passes, besides finding its key, in nanoseconds.
const BAR: f64 = 500.0;
/// Lets everything pass, and is never full again; as in `decide`.
const BURST: u32 = 300_000_000;
const AMPLE: Quota = Quota::per_second(1).burst(BURST as u64);
/// Spent by one request, for longer than a benchmark runs.
const SPENT: Quota = Quota::per_hour(1);
const HOUR: u64 = 60 * 60;

fn main() {
    let options = Options::read();
    let calls = options.size(200_000, 20_000);
    if options.wants("service") {
        over_a_service(&options, calls);
    }
    for (outcome, status) in [("allow", StatusCode::OK), ("refuse", StatusCode::TOO_MANY_REQUESTS)] {
        if options.wants(&format!("axum {outcome}")) {
            on_a_route(&options, calls / 4, outcome, status);
        }
    }
}

/// Answers at once with nothing.
#[derive(Clone)]
struct Bare;

impl Service<Request<()>> for Bare {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        drop(request);
        ready(Ok(Response::new(())))
    }
}

fn over_a_service(options: &Options, calls: usize) {
    let layer = || RateLimitLayer::new(Limiter::local(AMPLE), key::same());
    let by_address = |ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip();
    let by_address = RateLimitLayer::new(Limiter::local(AMPLE), key::peer_addr_from(by_address));
    let all = [HeaderStyle::Draft, HeaderStyle::RateLimit, HeaderStyle::XRateLimit];
    let (mut bare, mut alone, mut silent) = (Bare, Bare, layer().headers([]).layer(Bare));
    let (mut draft, mut styles) = (layer().layer(Bare), layer().headers(all).layer(Bare));
    let mut addresses = by_address.headers([]).layer(Bare);
    let limiter = Limiter::local(AMPLE);
    let mut check: Vec<Contestant<'_, f64>> = vec![
        Box::new(|| nanos(calls, |_| (), |()| assert!(limiter.allow("")))),
        Box::new(|| nanos(calls, plain, |request| pass(&mut bare, request))),
        Box::new(|| nanos(calls, plain, |request| pass(&mut silent, request))),
        Box::new(|| nanos(calls, plain, |request| pass(&mut draft, request))),
        Box::new(|| nanos(calls, plain, |request| pass(&mut styles, request))),
        Box::new(|| nanos(calls, |number| from(number, ()), |request| pass(&mut alone, request))),
        Box::new(|| nanos(calls, |number| from(number, ()), |request| pass(&mut addresses, request))),
    ];
    let measured = interleave(options.rounds(), &mut check);
    // Addresses are in extensions, which take time to drop, so requests with them have a service alone of their own.
    let [decision, bare, silent, draft, styles, alone, addresses] =
        [0, 1, 2, 3, 4, 5, 6].map(|contestant| measured.median(contestant, |nanos| *nanos));
    println!(
        "ns a request that passes, over a service that does nothing ({bare:.1} ns alone; a decision: {decision:.1} ns)"
    );
    println!("headers hidden | draft headers | all three styles | by address of {CLIENTS}, hidden");
    println!("{:14.1} | {:13.1} | {:16.1} | {:.1}", silent - bare, draft - bare, styles - bare, addresses - alone,);
    let most = silent - bare;
    println!("bar: {BAR} ns with headers hidden{}", if most <= BAR { "" } else { ", MISSED" });
}

fn on_a_route(options: &Options, calls: usize, outcome: &str, expected: StatusCode) {
    let passes = expected == StatusCode::OK;
    let quota = if passes { AMPLE } else { SPENT };
    let route = || Router::new().route("/", get(|| async { "hello" }));
    let ours = || {
        let by_address = |ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip();
        RateLimitLayer::new(Limiter::local(quota), key::peer_addr_from(by_address)).keep_body()
    };
    let mut theirs = GovernorConfigBuilder::default();
    theirs.per_second(if passes { 1 } else { HOUR }).burst_size(if passes { BURST } else { 1 });
    let silent = GovernorLayer::new(theirs.finish().expect("a valid quota"));
    let speaking = GovernorLayer::new(theirs.use_headers().finish().expect("a valid quota"));
    let routers = [
        route(),
        route().layer(ours().headers([])),
        route().layer(ours().headers([HeaderStyle::XRateLimit])),
        route().layer(ours()),
        route().layer(silent),
        route().layer(speaking),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _guard = runtime.enter();
    // As `into_make_service` does; without it each request puts its route together anew.
    let routers = routers.map(|router| router.with_state(()));
    // The first request of each client passes in any case.
    for router in &routers {
        let mut router = router.clone();
        for number in 0..CLIENTS {
            let _first = answer(&mut router, from(number, axum::body::Body::empty()));
        }
    }
    let mut contestants: Vec<Contestant<'_, f64>> = Vec::new();
    for (index, router) in routers.iter().enumerate() {
        let expected = if index == 0 { StatusCode::OK } else { expected };
        let mut router = router.clone();
        contestants.push(Box::new(move || {
            let ask = |request| assert_eq!(answer(&mut router, request), expected);
            nanos(calls, |number| from(number, axum::body::Body::empty()), ask)
        }));
    }
    let measured = interleave(options.rounds(), &mut contestants);
    let median = |contestant| measured.median(contestant, |nanos: &f64| *nanos);
    let ratio = |one, other| measured.ratio(one, other, |nanos: &f64| *nanos);
    println!("ns a request on an axum route, {CLIENTS} addresses, {outcome}; without a limit {:.0} ns", median(0));
    println!("fields        | peerlimit | tower_governor | theirs takes so many times as long");
    for (name, ours, theirs) in [("hidden", 1, 4), ("x-ratelimit", 2, 5), ("draft", 3, 5)] {
        let times = ratio(theirs, ours);
        let missed = if name != "draft" && times < 1.0 { ", MISSED" } else { "" };
        println!("{name:13} | {:9.0} | {:14.0} | {times:.2}{missed}", median(ours), median(theirs));
    }
}

fn plain(_: usize) -> Request<()> {
    Request::new(())
}

/// A request as a server hands it on: with the address of the client that has this number.
fn from<B>(number: usize, body: B) -> Request<B> {
    // Far apart, as addresses are.
    let addr = Ipv4Addr::from((number % CLIENTS) as u32 * 2_654_435);
    let mut request = Request::new(body);
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(IpAddr::V4(addr), 4711)));
    request
}

/// Sends a request that passes.
fn pass<S>(service: &mut S, request: Request<()>)
where
    S: Service<Request<()>, Error = Infallible>,
{
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    match pin!(service.call(request)).poll(&mut cx) {
        Poll::Ready(response) => drop(black_box(response)),
        Poll::Pending => unreachable!("it answers at once"),
    }
}

/// The status with which a route answers.
fn answer(router: &mut Router, request: Request<axum::body::Body>) -> StatusCode {
    let mut cx = Context::from_waker(Waker::noop());
    let ready = Service::<Request<axum::body::Body>>::poll_ready(router, &mut cx);
    assert!(ready.is_ready());
    match pin!(router.call(request)).poll(&mut cx) {
        Poll::Ready(Ok(response)) => black_box(response).status(),
        Poll::Ready(Err(never)) => match never {},
        Poll::Pending => unreachable!("it answers at once"),
    }
}

/// Nanoseconds of one of `calls`, whose inputs are made before.
fn nanos<I>(calls: usize, input: impl Fn(usize) -> I, mut call: impl FnMut(I)) -> f64 {
    /// Few enough that their inputs stay in a core's cache.
    const AT_ONCE: usize = 256;
    let mut inputs = Vec::with_capacity(AT_ONCE);
    let mut spent = 0;
    for start in (0..calls).step_by(AT_ONCE) {
        inputs.extend((start..start + AT_ONCE).map(&input));
        let begun = Instant::now();
        inputs.drain(..).for_each(&mut call);
        spent += begun.elapsed().as_nanos();
    }
    spent as f64 / calls.next_multiple_of(AT_ONCE) as f64
}
