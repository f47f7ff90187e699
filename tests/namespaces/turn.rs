//! Which test may use the machine, and what becomes of tests that cannot.

use std::{
    env,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Clusters take turns: two at once would measure the scheduler.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What namespaces were wanted for. `None` where this machine has none and need not have them.
pub(crate) fn or_skipped<T>(made: Result<T, String>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(reason) if env::var("PEERLIMIT_REQUIRE_NETNS").is_ok_and(|value| value == "1") => {
            panic!("no network namespaces: {reason}")
        }
        Err(reason) => {
            eprintln!("skipped: no network namespaces: {reason}");
            None
        }
    }
}
