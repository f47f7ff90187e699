//! What the kubelet, Prometheus and people ask, on a port that no Service leads to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::get};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use peerlimit::Limiter;
use tokio::time::interval;

/// Gauges of peers that are gone are not kept for longer.
const IDLE: Duration = Duration::from_secs(60);
/// How often samples of histograms are taken in, whether or not somebody asks for figures.
const UPKEEP: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Figures(PrometheusHandle);

impl Figures {
    /// Takes in what all limiters of this process report from now on.
    pub(crate) fn install() -> Result<Self, BuildError> {
        let handle = PrometheusBuilder::new().idle_timeout(MetricKindMask::GAUGE, Some(IDLE)).install_recorder()?;
        let upkeep = handle.clone();
        tokio::spawn(async move {
            let mut ticks = interval(UPKEEP);
            loop {
                ticks.tick().await;
                upkeep.run_upkeep();
            }
        });
        Ok(Self(handle))
    }
}

pub(crate) fn router(limiter: Limiter, leaving: Arc<AtomicBool>, figures: Figures) -> Router {
    let health = limiter.clone();
    let ready = move || async move {
        // Not whether peers agree: a pod that is cut off limits well by itself, and if it took itself out of service, a fault of
        // the network between pods would take out all of them.
        match (leaving.load(Ordering::Relaxed), limiter.is_ready()) {
            (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "is leaving\n"),
            (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "asks its peers what they know\n"),
            (false, true) => (StatusCode::OK, "ready\n"),
        }
    };
    Router::new()
        .route("/ready", get(ready))
        .route("/live", get(|| async { "alive\n" }))
        .route("/health", get(move || async move { format!("{}\n", health.health()) }))
        .route("/metrics", get(move || async move { figures.0.render() }))
}
