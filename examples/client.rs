//! A client that keeps to somebody else's limit: `cargo run --example client --features tower`.
//!
//! The API allows five requests a second and answers 429 beyond. Twenty tasks call it as fast as they may, and none of them
//! meets a 429, since each waits for its turn. With a [`Limiter`] that gossips the replicas of a service would share the five.

use std::{error::Error, net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use peerlimit::{
    Limiter, Quota, Wait,
    http::{RateLimitLayer, key},
};
use tokio::{net::TcpListener, task::JoinSet};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let api = api().await?;
    // A little less than the API allows, as its clock and ours see the same requests at different times.
    let limiter = Limiter::local(Quota::new(9, Duration::from_secs(2))?.burst(4));
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (limiter, client) = (limiter.clone(), client.clone());
        tasks.spawn(async move {
            // First come, first served; no longer than ten seconds.
            limiter.until_ready_n("api", 1, Wait::at_most(Duration::from_secs(10))).await?;
            let request = http::Request::get(format!("http://{api}/")).body(Empty::<Bytes>::new())?;
            Ok::<_, Box<dyn Error + Send + Sync>>(client.request(request).await?.status())
        });
    }
    let mut passed = 0;
    while let Some(status) = tasks.join_next().await {
        let status = status?.map_err(|error| error.to_string())?;
        passed += u32::from(status.is_success());
        println!("{status}");
    }
    println!("{passed} of 20 passed");
    Ok(())
}

/// The API: five a second.
async fn api() -> Result<SocketAddr, Box<dyn Error>> {
    let limits = RateLimitLayer::new(Limiter::local(Quota::per_second(5)), key::same());
    let router = Router::new().route("/", get(|| async { "hello" })).layer(limits);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(addr)
}
