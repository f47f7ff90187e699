//! Figures through the facade `metrics`.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use parking_lot::Mutex;

use crate::{
    net::every,
    table::{Outcome, ScopeSpec},
};

use super::{Limiter, Shared, Stats};

/// How often a gossiping limiter reports. More often than metrics are usually collected.
const PERIOD: Duration = Duration::from_secs(1);

/// What was reported of counters, so that they rise by what came since. So limiters with one name add up.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    stats: Stats,
    /// In the order of the scopes.
    outcomes: Vec<[u64; Outcome::ALL.len()]>,
}

impl Limiter {
    /// Reports all figures to the recorder of the crate `metrics` that is installed, if any. Needs the feature `metrics`.
    ///
    /// A limiter with peers does so by itself once a second. Call it for a local one, before metrics are collected or as
    /// often as you like. Install the recorder before the first limiter: what was counted before the last report is not
    /// told again.
    ///
    /// All have the label `node`: [`Builder::node`](super::Builder::node), or `local`.
    ///
    /// | name | more labels | |
    /// |---|---|---|
    /// | `peerlimit_decisions_total` | `scope`, `outcome` | requests that were `allowed`, `refused`, `shadow_refused` (passed in a scope that only watches), `exempt` |
    /// | `peerlimit_decision_seconds` | | histogram of the time that a decision takes, one of 1,024 on each thread |
    /// | `peerlimit_keys`, `peerlimit_cells`, `peerlimit_runs` | | sizes: buckets, G-Counter cells, runs of processes |
    /// | `peerlimit_evictions_total` | `cause` | as [`Evictions`](super::Evictions) |
    /// | `peerlimit_ready` | | 1 once [`ready`](Self::ready) has resolved, else 0 |
    /// | `peerlimit_members` | | members held alive, this one included |
    /// | `peerlimit_news_age_seconds` | `peer` | how long ago this node knew that it had all news of a peer; none before that |
    /// | `peerlimit_merge_lag_seconds` | `peer` | age of the oldest news merged of late, as [`PeerHealth::merge_lag`](super::PeerHealth) |
    /// | `peerlimit_unsent_permits` | | admitted here and not told yet |
    /// | `peerlimit_published_permits_total` | | told to peers |
    /// | `peerlimit_excess_permits_total` | | estimate of what the cluster admitted beyond its quotas, as [`Stats::excess`] |
    /// | `peerlimit_frames_total`, `peerlimit_bytes_total` | `direction` | datagrams and frames of streams, `in` and `out` |
    /// | `peerlimit_drops_total` | `cause` | as [`Drops`](crate::Drops) |
    /// | `peerlimit_send_errors_total`, `peerlimit_gaps_total`, `peerlimit_merges_total`, `peerlimit_pushes_total`, `peerlimit_duplicates_total` | | as in [`Stats`] |
    /// | `peerlimit_syncs_total` | `outcome` | anti-entropy exchanges that were `done` or `failed` |
    ///
    /// Gauges of peers that are gone keep their last value; let the recorder drop what is idle.
    pub fn record_metrics(&self) {
        describe();
        let (node, stats) = (self.shared.name.as_str(), self.stats());
        self.record_counters(node, stats);
        for (name, value) in [
            ("peerlimit_keys", stats.keys),
            ("peerlimit_cells", stats.cells),
            ("peerlimit_runs", stats.runs),
            ("peerlimit_members", stats.members),
            ("peerlimit_unsent_permits", self.shared.table.unsent()),
            ("peerlimit_ready", u64::from(self.is_ready())),
        ] {
            gauge!(name, "node" => node.to_owned()).set(value as f64);
        }
        for peer in self.health().peers {
            let labels = [("node", node.to_owned()), ("peer", peer.member.addr.to_string())];
            gauge!("peerlimit_merge_lag_seconds", &labels).set(peer.merge_lag.as_secs_f64());
            if let Some(age) = peer.news_age {
                gauge!("peerlimit_news_age_seconds", &labels).set(age.as_secs_f64());
            }
        }
        let times = histogram!("peerlimit_decision_seconds", "node" => node.to_owned());
        self.shared.observed.samples.drain().for_each(|time| times.record(time.as_secs_f64()));
    }

    fn record_counters(&self, node: &str, stats: Stats) {
        let mut known = self.shared.observed.reported.0.lock();
        for (now, before) in counters(&stats).into_iter().zip(counters(&known.stats)) {
            let Count { name, label, value } = now;
            let mut labels = vec![("node", node.to_owned())];
            labels.extend(label.map(|(key, value)| (key, value.to_owned())));
            counter!(name, &labels).increment(value.saturating_sub(before.value));
        }
        known.stats = stats;
        let scopes = self.shared.table.scopes().all();
        known.outcomes.resize(scopes.len(), [0; Outcome::ALL.len()]);
        for (scope, known) in scopes.iter().zip(&mut known.outcomes) {
            record_outcomes(node, scope, known);
        }
    }

    /// Reports until the limiter is gone.
    pub(super) fn record_metrics_regularly(&self) {
        let (shared, default) = (Arc::downgrade(&self.shared), Arc::clone(&self.default.spec));
        every(PERIOD, move || {
            let Some(shared) = Weak::<Shared>::upgrade(&shared) else { return false };
            Self { default: super::Scope::from_spec(Arc::clone(&default), &shared), shared }.record_metrics();
            true
        });
    }
}

fn record_outcomes(node: &str, scope: &ScopeSpec, known: &mut [u64; Outcome::ALL.len()]) {
    let totals = scope.tally().totals();
    // The default scope is called so in header fields too.
    let name = if scope.name().is_empty() { "default" } else { scope.name() };
    for ((outcome, total), before) in Outcome::ALL.into_iter().zip(totals).zip(*known) {
        let labels = [("node", node.to_owned()), ("scope", name.to_owned()), ("outcome", outcome.name().to_owned())];
        counter!("peerlimit_decisions_total", &labels).increment(total.saturating_sub(before));
    }
    *known = totals;
}

/// One counter.
struct Count {
    name: &'static str,
    label: Option<(&'static str, &'static str)>,
    value: u64,
}

/// The counters that are in [`Stats`], always in one order.
fn counters(stats: &Stats) -> Vec<Count> {
    let evictions = &stats.evictions;
    let labelled = [
        ("peerlimit_frames_total", "direction", "in", stats.frames_in),
        ("peerlimit_frames_total", "direction", "out", stats.frames_out),
        ("peerlimit_bytes_total", "direction", "in", stats.bytes_in),
        ("peerlimit_bytes_total", "direction", "out", stats.bytes_out),
        ("peerlimit_syncs_total", "outcome", "done", stats.syncs),
        ("peerlimit_syncs_total", "outcome", "failed", stats.syncs_failed),
        ("peerlimit_evictions_total", "cause", "idle", evictions.idle),
        ("peerlimit_evictions_total", "cause", "recycled", evictions.recycled),
        ("peerlimit_evictions_total", "cause", "untracked", evictions.untracked),
        ("peerlimit_evictions_total", "cause", "cells", evictions.cells),
    ];
    let drops = stats.drops.by_cause().map(|(cause, count)| ("peerlimit_drops_total", "cause", cause, count));
    let plain = [
        ("peerlimit_send_errors_total", stats.send_errors),
        ("peerlimit_gaps_total", stats.gaps),
        ("peerlimit_merges_total", stats.merges),
        ("peerlimit_pushes_total", stats.pushes),
        ("peerlimit_duplicates_total", stats.duplicates),
        ("peerlimit_published_permits_total", stats.published),
        ("peerlimit_excess_permits_total", stats.excess),
    ];
    let labelled = labelled.into_iter().chain(drops);
    let labelled = labelled.map(|(name, key, value, count)| Count { name, label: Some((key, value)), value: count });
    labelled.chain(plain.map(|(name, value)| Count { name, label: None, value })).collect()
}

/// Says what the figures are. Each time, as a recorder may be installed at any time.
fn describe() {
    describe_counter!("peerlimit_decisions_total", "Requests decided, by scope and outcome");
    describe_histogram!("peerlimit_decision_seconds", Unit::Seconds, "Time of one decision of 1,024");
    describe_gauge!("peerlimit_keys", "Buckets held");
    describe_gauge!("peerlimit_cells", "G-Counter cells held");
    describe_gauge!("peerlimit_runs", "Runs of processes known");
    describe_counter!("peerlimit_evictions_total", "Buckets and cells that went, by cause");
    describe_gauge!("peerlimit_ready", "1 once the node enforces what the cluster knows");
    describe_gauge!("peerlimit_members", "Members held alive, this one included");
    describe_gauge!("peerlimit_news_age_seconds", Unit::Seconds, "Time since all news of a peer were known to be here");
    describe_gauge!("peerlimit_merge_lag_seconds", Unit::Seconds, "Age of the oldest news of a peer merged of late");
    describe_gauge!("peerlimit_unsent_permits", "Permits admitted here and not told to peers yet");
    describe_counter!("peerlimit_published_permits_total", "Permits told to peers");
    describe_counter!("peerlimit_excess_permits_total", "Permits admitted by the cluster beyond its quotas, estimated");
    describe_counter!("peerlimit_frames_total", "Datagrams and frames of streams");
    describe_counter!("peerlimit_bytes_total", Unit::Bytes, "Bytes of datagrams and frames of streams");
    describe_counter!("peerlimit_drops_total", "Frames and cells dropped, by cause");
    describe_counter!("peerlimit_send_errors_total", "Datagrams that the system refused to send");
    describe_counter!("peerlimit_gaps_total", "Datagrams that showed an earlier one to be lost or late");
    describe_counter!("peerlimit_merges_total", "Cells merged that brought news");
    describe_counter!("peerlimit_pushes_total", "Rounds of eager pushes");
    describe_counter!("peerlimit_duplicates_total", "Sealed datagrams that had come before");
    describe_counter!("peerlimit_syncs_total", "Anti-entropy exchanges, by outcome");
}
