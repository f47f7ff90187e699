//! What is done again and again.

use std::time::Duration;

/// Calls `work` once a `period` on the current runtime, for the first time after one, until it says that it was the last
/// time. What was missed is not made up for.
pub(crate) fn every(period: Duration, mut work: impl FnMut() -> bool + Send + 'static) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(period).await;
            if !work() {
                return;
            }
        }
    });
}
