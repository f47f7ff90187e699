//! A cluster on this machine to play with, on a page in the browser: `cargo run --release --example playground`.
//!
//! The nodes are real: each has its own UDP and TCP port on loopback, and they talk through nothing else. In front of
//! each stands a relay, which loses datagrams and cuts the network as the page says; see `network.rs`. Every node gets
//! requests for one hot key. The page shows what they admit together, beside the quota, and what they would if every
//! node limited alone.
//!
//! It listens on 127.0.0.1 only, needs nothing from elsewhere, and ends with Ctrl-C.

#![allow(clippy::disallowed_methods, reason = "a program of its own: it lives in real time")]

mod command;
mod fleet;
mod load;
mod network;
mod server;
mod show;
mod state;

use std::{
    error::Error,
    io::{self, Write},
    net::Ipv4Addr,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use peerlimit::Quota;
use tokio::{net::TcpListener, sync::oneshot};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use command::{MOST_LOAD, MOST_NODES};
use fleet::Fleet;
use show::Show;

/// Starts a cluster on loopback, and a page to play with it.
#[derive(Debug, Parser)]
struct Args {
    /// Port of the page; 0 picks one that is free
    #[arg(long, default_value_t = 7900)]
    port: u16,
    /// Nodes at the start
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=MOST_NODES as i64))]
    nodes: u8,
    /// Permits per second of the quota
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// Permits that may be taken at once
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    burst: u64,
    /// Requests per second to each node at the start
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_LOAD)))]
    load: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Nodes that are not sealed say so at their start; on loopback that is as it should be.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::ERROR.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();

    let quota = Quota::new(args.rate, Duration::from_secs(1))?.with_burst(args.burst)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .map_err(|error| format!("port {} of the page: {error}; --port takes another", args.port))?;
    let mut fleet = Fleet::new(quota);
    fleet.add(args.nodes, args.load).await?;

    let mut out = io::stdout();
    writeln!(out, "Open http://{} in a browser. Ctrl-C ends it.", listener.local_addr()?)?;
    out.flush()?;

    let (show, remote) = Show::new(fleet, quota);
    let (end, ended) = oneshot::channel::<()>();
    let mut show = tokio::spawn(show.run(async {
        // Dropped is as good as told.
        let _either_way = ended.await;
    }));
    tokio::select! {
        served = async { axum::serve(listener, server::router(remote)).await } => served?,
        asked = end_asked() => asked?,
        // It does not end before it is told to, unless something is wrong.
        broken = &mut show => return Ok(broken??),
    }
    drop(end);
    show.await??;
    Ok(())
}

/// Waits for Ctrl-C, or for what `kill` sends.
async fn end_asked() -> io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
