//! A web service with one rate limit for all of its pods, as it runs in Kubernetes. README.md beside this file tells how, and why
//! the manifests are what they are.
//!
//! On a machine without Kubernetes:
//!
//! ```sh
//! POD_IP=127.0.0.1 cargo run --example kubernetes --features tower,metrics
//! curl -i -H 'X-Api-Key: ann' localhost:8080/    # 50 at once, then 100 a second
//! curl localhost:9090/health localhost:9090/metrics
//! ```

mod admin;
mod key_ring;
mod settings;

use std::{
    error::Error,
    io::{self, IsTerminal as _, stdout},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::HeaderName, routing::get};
use peerlimit::{
    DnsDiscoverer, Limiter, Secrets,
    http::{RateLimitLayer, key},
};
use tokio::{net::TcpListener, signal, sync::watch, time::timeout};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use settings::Settings;

/// How long requests under way may take once the pod has to go. With `close`, which takes three seconds at most, and the
/// manifest's pause before SIGTERM it has to fit into `terminationGracePeriodSeconds`.
const DRAIN: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(stdout().is_terminal()).init();
    let Err(error) = run().await else { return ExitCode::SUCCESS };
    // Most errors have their reason in their source.
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        text += &format!(": {reason}");
        source = reason.source();
    }
    tracing::error!("{text}");
    ExitCode::FAILURE
}

async fn run() -> Result<(), Box<dyn Error>> {
    let settings = Settings::from_env()?;
    // Before anything else: a signal that comes early must not be lost, nor be the crash that it is by default.
    let end = told_to_end()?;
    // Before the limiter, so that it counts from the start.
    let figures = admin::Figures::install()?;
    let limiter = start(&settings).await?;
    if let Some(path) = &settings.key_ring {
        tokio::spawn(key_ring::follow(path.clone(), limiter.clone()));
    }

    let leaving = Arc::new(AtomicBool::new(false));
    let probes = TcpListener::bind(settings.admin).await?;
    tokio::spawn(axum::serve(probes, admin::router(limiter.clone(), Arc::clone(&leaving), figures)).into_future());
    let listener = TcpListener::bind(settings.listen).await?;
    tracing::info!(listen = %listener.local_addr()?, admin = %settings.admin, "serves");
    let (stop, stopped) = watch::channel(false);
    let serving = axum::serve(listener, service(&limiter)).with_graceful_shutdown(until(stopped)).into_future();
    let serving = tokio::spawn(serving);

    end.await;
    tracing::info!("was told to end; requests under way are answered");
    leaving.store(true, Ordering::Relaxed);
    stop.send_replace(true);
    match timeout(DRAIN, serving).await {
        Ok(ended) => ended??,
        Err(_) => tracing::warn!(patience = ?DRAIN, "requests under way were cut off"),
    }
    // The last: no request may be admitted that peers do not hear of.
    limiter.close().await;
    tracing::info!("closed");
    Ok(())
}

async fn start(settings: &Settings) -> Result<Limiter, Box<dyn Error>> {
    let mut builder = Limiter::builder(settings.quota)
        // Bound to the pod's own address, which therefore is the one that peers are told.
        .bind(settings.gossip)
        .cluster(&settings.cluster)
        .max_keys(settings.max_keys);
    if let Some(name) = &settings.pod_name {
        builder = builder.node(name);
    }
    if let Some(name) = &settings.peers {
        builder = builder.discover(DnsDiscoverer::new(name, settings.gossip.port()));
    }
    if let Some(path) = &settings.key_ring {
        builder = builder.secret(Secrets::from_file(path)?);
    }
    Ok(builder.start().await?)
}

/// What clients ask.
fn service(limiter: &Limiter) -> Router {
    let by_api_key = key::header(HeaderName::from_static("x-api-key"));
    let limit = RateLimitLayer::new(limiter.clone(), by_api_key).keep_body();
    Router::new().route("/", get(|| async { "hello\n" })).layer(limit)
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // Its sender lives as long as the process.
    let _stopped_or_gone = stopped.wait_for(|stopped| *stopped).await;
}

/// SIGTERM, or Ctrl-C where a person runs this. Listens from the call on.
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminate = signal::unix::signal(signal::unix::SignalKind::terminate())?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _received = signal::ctrl_c().await;
    })
}
