//! Waiting for a condition, with an end to patience.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(PAUSE);
    }
}
