//! Runs discovery, at start and for ever after.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::discovery::DynDiscoverer;

/// How long one discoverer may take for a round: longer than any that ends by itself, see
/// [`DnsDiscoverer::timeout`](crate::DnsDiscoverer::timeout).
const ROUND_TIMEOUT: Duration = Duration::from_secs(70);

/// What one discoverer said in a round; nothing where it failed.
struct Answer {
    discoverer: usize,
    addrs: Option<Vec<SocketAddr>>,
}

/// Asks all `discoverers` every `interval`, each by itself, and sends what they found last together, whenever one has
/// answered. One that fails or hangs holds up none of the others, and is asked again. Ends with the receiver.
///
/// That there is nobody is only said once all have been asked: a node takes it for leave to start alone.
pub(super) async fn find(
    discoverers: Vec<Box<dyn DynDiscoverer>>,
    interval: Duration,
    found: mpsc::Sender<Vec<SocketAddr>>,
) {
    if discoverers.is_empty() {
        // If the receiver is gone, nobody waits for it.
        let _nobody_waits = found.send(Vec::new()).await;
        return;
    }
    let mut known: Vec<Option<Vec<SocketAddr>>> = vec![None; discoverers.len()];
    let mut asked = vec![false; discoverers.len()];
    let (answers, mut answered) = mpsc::channel(discoverers.len());
    // They end with this task, which owns them.
    let mut asking = JoinSet::new();
    for (index, discoverer) in discoverers.into_iter().enumerate() {
        asking.spawn(ask(index, discoverer, interval, answers.clone()));
    }
    loop {
        let answer = tokio::select! {
            answer = answered.recv() => answer,
            () = found.closed() => return,
        };
        // There is always a sender: ours.
        let Some(Answer { discoverer, addrs }) = answer else { return };
        asked[discoverer] = true;
        if addrs.is_some() {
            known[discoverer] = addrs;
        }
        let all: BTreeSet<SocketAddr> = known.iter().flatten().flatten().copied().collect();
        // Where all of them failed nothing was found out, not even that there is nobody.
        let is_news = !all.is_empty() || (asked.iter().all(|asked| *asked) && known.iter().any(Option::is_some));
        if is_news && found.send(all.into_iter().collect()).await.is_err() {
            return;
        }
    }
}

/// Asks one discoverer for ever.
async fn ask(index: usize, discoverer: Box<dyn DynDiscoverer>, interval: Duration, answers: mpsc::Sender<Answer>) {
    let mut was_failing = false;
    loop {
        let (addrs, failure) = match timeout(ROUND_TIMEOUT, discoverer.discover_dyn()).await {
            Ok(Ok(addrs)) => (Some(addrs), None),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("no answer within {ROUND_TIMEOUT:?}"))),
        };
        match &failure {
            Some(error) if was_failing => tracing::debug!(error, "discovery still fails"),
            Some(error) => tracing::warn!(error, "discovery fails; goes on trying"),
            None if was_failing => tracing::info!("discovery works again"),
            None => {}
        }
        was_failing = failure.is_some();
        if answers.send(Answer { discoverer: index, addrs }).await.is_err() {
            return;
        }
        sleep(interval).await;
    }
}
