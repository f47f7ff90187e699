//! One event when a name starts to fail and one when it recovers, however many rounds lie between.

use std::{collections::BTreeSet, fmt::Display};

use parking_lot::Mutex;

/// Remembers which names fail, so that a name that always fails does not fill the log.
#[derive(Debug, Default)]
pub(super) struct NameLog {
    failing: Mutex<BTreeSet<String>>,
}

impl NameLog {
    /// `name` gave addresses in this round.
    pub(super) fn resolved(&self, name: &str) {
        if self.failing.lock().remove(name) {
            tracing::info!(name, "a peer name gives addresses again");
        }
    }

    /// `name` gave none in this round, and why.
    pub(super) fn failed(&self, name: &str, reason: impl Display) {
        if self.failing.lock().insert(name.to_owned()) {
            tracing::warn!(name, %reason, "a peer name gives no addresses; it is asked again every round");
        } else {
            tracing::debug!(name, %reason, "a peer name still gives no addresses");
        }
    }

    /// Forgets the names that are no longer asked for, lest the memory of them grow for ever.
    pub(super) fn retain(&self, is_current: impl Fn(&str) -> bool) {
        self.failing.lock().retain(|name| is_current(name));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::{
        Event, Level, Metadata, Subscriber,
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// Notes the level of every event.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.0.lock().push(*event.metadata().level());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn levels_of(act: impl FnOnce(&NameLog)) -> Vec<Level> {
        let levels = Levels::default();
        tracing::subscriber::with_default(levels.clone(), || act(&NameLog::default()));
        levels.0.lock().clone()
    }

    #[test]
    fn a_name_that_keeps_failing_warns_once_until_it_has_recovered() {
        let levels = levels_of(|log| {
            log.resolved("a");
            log.failed("a", "x");
            log.failed("a", "x");
            log.failed("a", "y");
            log.resolved("a");
            log.resolved("a");
            log.failed("a", "x");
        });
        assert_eq!(levels, [Level::WARN, Level::DEBUG, Level::DEBUG, Level::INFO, Level::WARN]);
    }

    #[test]
    fn names_fail_and_recover_apart() {
        let levels = levels_of(|log| {
            log.failed("a", "x");
            log.failed("b", "x");
            log.resolved("b");
            log.failed("a", "x");
        });
        assert_eq!(levels, [Level::WARN, Level::WARN, Level::INFO, Level::DEBUG]);
    }

    #[test]
    fn a_name_that_is_no_longer_asked_for_is_forgotten() {
        let levels = levels_of(|log| {
            log.failed("a", "x");
            log.retain(|name| name != "a");
            log.failed("a", "x");
        });
        assert_eq!(levels, [Level::WARN, Level::WARN]);
    }
}
