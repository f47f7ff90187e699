//! A web service with limits by address and by user, shared by all of its replicas, and with figures for Prometheus.
//!
//! ```sh
//! cargo run --example axum --features tower,metrics
//! curl -i localhost:8080/                                         # by address: 20 at once, then 10 a second
//! curl -i -H 'Authorization: Bearer free-ann' localhost:8080/search    # by user too: 5 a minute, or 50 for paid-*
//! curl localhost:8080/metrics
//! ```
//!
//! A second replica on this machine: `-- --listen 127.0.0.1:8081 --gossip 127.0.0.1:7947 --peer 127.0.0.1:7946`. It ends with
//! its standard input, or with Ctrl-C: requests under way are answered, and the peers hear of what was admitted last.

use std::{error::Error, net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::{ConnectInfo, Extension},
    http::header::AUTHORIZATION,
    routing::get,
};
use clap::Parser;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use peerlimit::{
    Decision, Limiter, Quota, StaticDiscoverer,
    http::{ByResponse, HeaderStyle, Limit, RateLimitLayer, RequestHead, key},
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

#[derive(Parser)]
struct Settings {
    /// Where clients connect.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where peers reach this replica.
    #[arg(long, default_value = "127.0.0.1:7946")]
    gossip: SocketAddr,
    /// Another replica's gossip address; as often as there are others.
    #[arg(long = "peer")]
    peers: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    // First, so that what the limiter records has somewhere to go.
    let figures = PrometheusBuilder::new().install_recorder()?;
    let limiter = Limiter::builder(Quota::per_second(10).burst(20))
        .bind(settings.gossip)
        .discover(StaticDiscoverer::new(settings.peers))
        .start()
        .await?;
    // Takes requests once it enforces what the others know.
    limiter.ready().await;
    let listener = TcpListener::bind(settings.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    tokio::spawn(upkeep(figures.clone()));
    let service = service(&limiter, figures)?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(end()).await?;
    limiter.close().await;
    println!("closed");
    Ok(())
}

fn service(limiter: &Limiter, figures: PrometheusHandle) -> Result<Router, Box<dyn Error>> {
    // Whoever connects from these is believed what it says of its client; all others are clients themselves.
    let proxies = key::TrustedProxies::networks(["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"])?;
    let by_client = key::peer_addr_from(|ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip())
        .behind(proxies, key::ForwardedHeader::XForwardedFor);
    let all = RateLimitLayer::new(limiter.clone(), by_client)
        .headers([HeaderStyle::Draft, HeaderStyle::XRateLimit])
        .keep_body();

    // Two tiers, each with users of its own. A real service knows them from its sessions.
    let free = limiter.scope("free", Quota::per_minute(5));
    let paid = limiter.scope("paid", Quota::per_minute(50));
    let tier = move |head: &RequestHead<'_>| {
        let token = head.headers().get(AUTHORIZATION);
        let pays = token.is_some_and(|token| token.as_bytes().starts_with(b"Bearer paid-"));
        Some((if pays { paid.clone() } else { free.clone() }, 1))
    };
    let users = RateLimitLayer::limits(Limit::resolve(tier, key::bearer_token()))
        .insert_decision()
        // Nobody pays for errors of ours.
        .by_response(ByResponse::refund_server_errors())
        .keep_body();

    Ok(Router::new()
        .route("/search", get(search))
        .route_layer(users)
        .route("/", get(|| async { "hello\n" }))
        .layer(all)
        // What comes after a layer is not behind it. A real service has this on a port that strangers do not reach.
        .route("/metrics", get(async move || figures.render())))
}

async fn search(Extension(decision): Extension<Decision>) -> String {
    metrics::counter!("searches_total", "tier" => decision.policy).increment(1);
    format!("found nothing; {} more searches at once as a {} user\n", decision.remaining, decision.policy)
}

/// Lets the recorder forget what is old, which it does not do by itself.
async fn upkeep(figures: PrometheusHandle) {
    let mut turns = tokio::time::interval(Duration::from_secs(5));
    loop {
        turns.tick().await;
        figures.run_upkeep();
    }
}

/// Ctrl-C, or the end of the input.
async fn end() {
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = async { while input.read(&mut ignored).await.is_ok_and(|read| read > 0) {} } => {}
    }
}
