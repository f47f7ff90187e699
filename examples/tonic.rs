//! A gRPC service with limits by address and by method, shared by all of its replicas.
//!
//! ```sh
//! cargo run --example tonic --features tower
//! grpcurl -plaintext -import-path . -proto health.proto localhost:50051 grpc.health.v1.Health/Check
//! ```
//!
//! The sixth call at once is answered with `RESOURCE_EXHAUSTED`, and says in a `google.rpc.RetryInfo` how long to wait. The health
//! service of tonic stands for yours, so that nothing has to be generated.
//!
//! A second replica on this machine: `-- --listen 127.0.0.1:50052 --gossip 127.0.0.1:7947 --peer 127.0.0.1:7946`. It ends with
//! its standard input, or with Ctrl-C: calls under way are answered, and the peers hear of what was admitted last.

use std::{error::Error, net::SocketAddr};

use clap::Parser;
use peerlimit::{
    Limiter, Quota, StaticDiscoverer,
    http::{Limit, OnError, RateLimitLayer, RequestHead, key},
};
use tokio::io::AsyncReadExt as _;
use tonic::transport::{
    Server,
    server::{TcpConnectInfo, TcpIncoming},
};

#[derive(Parser)]
struct Settings {
    /// Where clients connect.
    #[arg(long, default_value = "127.0.0.1:50051")]
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
    let limiter = Limiter::builder(Quota::per_second(2).burst(5))
        .bind(settings.gossip)
        .discover(StaticDiscoverer::new(settings.peers))
        .start()
        .await?;
    // Takes calls once it enforces what the others know.
    limiter.ready().await;

    // tonic leaves this with each request. What comes through a proxy has the client's address in a header: `behind`.
    let by_address = key::peer_addr_from(|info: &TcpConnectInfo| info.remote_addr().map(|addr| addr.ip()));
    // A stream costs more than a call.
    let cost = |head: &RequestHead<'_>| if head.uri().path().ends_with("/Watch") { 3 } else { 1 };
    let limit = Limit::new(limiter.clone(), by_address).cost(cost);
    // No store is asked here; with one this is what to say where it fails.
    let limits = RateLimitLayer::limits(limit).on_error(OnError::Refuse);

    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind(settings.listen)?;
    println!("listening on {}", incoming.local_addr()?);
    Server::builder().layer(limits).add_service(health).serve_with_incoming_shutdown(incoming, end()).await?;
    limiter.close().await;
    println!("closed");
    Ok(())
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
