//! Runs discovery, at start and for ever after.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::discovery::DynDiscoverer;

/// How long one discoverer may take for a round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks all `discoverers` every `interval`, and sends what they found together. One that fails does not stop the
/// others; one that hangs is asked again in the next round. Ends with the receiver.
pub(super) async fn find(
    discoverers: Vec<Box<dyn DynDiscoverer>>,
    interval: Duration,
    found: mpsc::Sender<Vec<SocketAddr>>,
) {
    let mut failing = vec![false; discoverers.len()];
    loop {
        let mut addrs = Vec::new();
        let mut answered = discoverers.is_empty();
        for (discoverer, was_failing) in discoverers.iter().zip(&mut failing) {
            let failure = match timeout(ROUND_TIMEOUT, discoverer.discover_dyn()).await {
                Ok(Ok(more)) => {
                    addrs.extend(more);
                    answered = true;
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {ROUND_TIMEOUT:?}")),
            };
            match &failure {
                Some(error) if *was_failing => tracing::debug!(error, "discovery still fails"),
                Some(error) => tracing::warn!(error, "discovery fails; goes on trying"),
                None if *was_failing => tracing::info!("discovery works again"),
                None => {}
            }
            *was_failing = failure.is_some();
        }
        // Where all of them failed nothing was found out, not even that there is nobody.
        if answered && found.send(addrs).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(interval) => {}
            () = found.closed() => return,
        }
    }
}
