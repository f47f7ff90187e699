//! Waiting for a condition in a runtime, with an end to patience.

use std::time::{Duration, Instant};

/// Waits until `condition` holds. Returns how long that took.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begin.elapsed()
}
