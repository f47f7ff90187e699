//! What a limiter tells a recorder of metrics, and of its health.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/patience.rs"]
mod patience;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use patience::eventually;
use peerlimit::{Limiter, ManualClock, Quota, StaticDiscoverer};

/// Figures by name and labels, as Prometheus writes them.
struct Figures {
    /// Of this thread, where it is not that of the process.
    recorder: Option<DebuggingRecorder>,
    snapshotter: Snapshotter,
    /// Counters add up; a snapshot takes them.
    sums: BTreeMap<String, f64>,
    samples: BTreeMap<String, usize>,
}

impl Figures {
    fn new() -> Self {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        Self { recorder: Some(recorder), snapshotter, sums: BTreeMap::new(), samples: BTreeMap::new() }
    }

    /// Of all that report by themselves.
    fn of_process() -> Self {
        let mut figures = Self::new();
        figures.recorder.take().unwrap().install().unwrap();
        figures
    }

    fn of(&mut self, limiter: &Limiter) -> &mut Self {
        metrics::with_local_recorder(self.recorder.as_ref().unwrap(), || limiter.record_metrics());
        self.look()
    }

    /// Takes what was reported.
    fn look(&mut self) -> &mut Self {
        for (key, _, description, value) in self.snapshotter.snapshot().into_vec() {
            let (kind, key) = key.into_parts();
            assert!(description.is_some(), "{kind:?} {} is not described", key.name());
            let mut labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            let name = format!("{}{{{}}}", key.name(), labels.join(","));
            match value {
                DebugValue::Counter(value) => *self.sums.entry(name).or_default() += value as f64,
                DebugValue::Gauge(value) => {
                    self.sums.insert(name, value.into_inner());
                }
                DebugValue::Histogram(values) => *self.samples.entry(name).or_default() += values.len(),
            }
        }
        self
    }

    fn value(&self, name: &str) -> f64 {
        *self.sums.get(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.sums))
    }
}

fn decisions(figures: &Figures, scope: &str) -> [f64; 4] {
    ["allowed", "refused", "shadow_refused", "exempt"].map(|outcome| {
        figures.value(&format!("peerlimit_decisions_total{{node=local,outcome={outcome},scope={scope}}}"))
    })
}

#[test]
fn decisions_are_counted_by_scope_and_outcome() {
    let limiter = Limiter::local_with_clock(Quota::per_hour(2), ManualClock::new());
    let trial = limiter.scope("trial", Quota::per_hour(1));
    trial.set_shadow(true);
    trial.exempt("vip");
    for _ in 0..3 {
        let _ = (limiter.check("ann"), trial.check("ann"), trial.check("vip"));
    }
    // One by one, together, and without a look.
    assert_eq!(limiter.check_many(&["bob", "bob", "bob"]).len(), 3);
    assert!(limiter.allow("cid") && limiter.peek("cid").allowed);
    let mut figures = Figures::new();
    assert_eq!(decisions(figures.of(&limiter), "default"), [5.0, 2.0, 0.0, 0.0]);
    assert_eq!(decisions(&figures, "trial"), [1.0, 0.0, 2.0, 3.0]);
    assert_eq!(figures.value("peerlimit_keys{node=local}"), 4.0);
    assert_eq!(figures.value("peerlimit_ready{node=local}"), 1.0);
    // A second report tells what came since.
    assert!(!limiter.allow("ann"));
    assert_eq!(decisions(figures.of(&limiter), "default"), [5.0, 3.0, 0.0, 0.0]);
}

#[test]
fn several_limits_count_once_each_or_where_they_refused() {
    let limiter = Limiter::local_with_clock(Quota::per_hour(10), ManualClock::new());
    let user = limiter.scope("user", Quota::per_hour(1));
    let limits = [(limiter.default_scope(), "acme"), (&user, "ann")];
    assert!(limiter.check_all(&limits).allowed && !limiter.check_all(&limits).allowed);
    let mut figures = Figures::new();
    assert_eq!(decisions(figures.of(&limiter), "default"), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(decisions(&figures, "user"), [1.0, 1.0, 0.0, 0.0]);
}

#[tokio::test]
async fn whoever_waits_is_counted_once() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with_clock(Quota::per_second(1), clock.clone());
    limiter.until_ready("key").await.unwrap();
    let waiting = limiter.clone();
    let waiter = tokio::spawn(async move { waiting.until_ready("key").await });
    while !waiter.is_finished() {
        clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    limiter.until_ready_n("key", 1, Duration::from_millis(10)).await.unwrap_err();
    limiter.until_ready_n("key", 9, Duration::from_secs(60)).await.unwrap_err();
    let mut figures = Figures::new();
    assert_eq!(decisions(figures.of(&limiter), "default"), [2.0, 2.0, 0.0, 0.0]);
}

#[test]
fn one_decision_of_a_thousand_is_measured() {
    let limiter = Limiter::local(Quota::per_hour(1));
    let allowed = (0..10_240).filter(|key| limiter.allow(format!("key-{key}"))).count();
    assert_eq!(allowed, 10_240);
    let mut figures = Figures::new();
    assert_eq!(figures.of(&limiter).samples["peerlimit_decision_seconds{node=local}"], 10);
}

#[test]
fn limiters_of_one_name_add_up() {
    let limiters = [Limiter::local(Quota::per_hour(1)), Limiter::local(Quota::per_hour(1))];
    let mut figures = Figures::new();
    for limiter in &limiters {
        assert!(limiter.allow("ann"));
        figures.of(limiter);
    }
    assert_eq!(decisions(&figures, "default"), [2.0, 0.0, 0.0, 0.0]);
}

#[tokio::test]
async fn a_cluster_shows_that_it_agrees() {
    let mut figures = Figures::of_process();
    let builder = |name: &str| {
        let quota = Quota::per_hour(1_000);
        Limiter::builder(quota).node(name).bind("127.0.0.1:0".parse().unwrap())
    };
    let first = builder("first").start().await.unwrap();
    let seed = first.local_addr().unwrap().to_string();
    let second = builder("second").discover(StaticDiscoverer::new([seed.clone()])).start().await.unwrap();
    second.ready().await;
    eventually("both agree", || {
        [&first, &second].into_iter().all(|node| {
            let health = node.health();
            health.peers.len() == 1 && health.agrees_within(Duration::from_secs(10))
        })
    })
    .await;
    assert!(first.check_n("ann", 400).allowed);
    eventually("news travel", || second.peek("ann").remaining <= 600).await;
    // What is not urgent waits for the next flush.
    let mut spent = 400;
    eventually("some news waited", || {
        spent += u64::from(first.allow("bob"));
        !second.health().peers[0].merge_lag.is_zero()
    })
    .await;
    let published = || first.stats().published;
    eventually("everything is told", || published() == spent).await;

    // They report by themselves.
    eventually("all of it is reported", || {
        figures.look().sums.get("peerlimit_published_permits_total{node=first}") == Some(&(spent as f64))
    })
    .await;
    eventually("the other one reports too", || {
        figures.look().sums.get("peerlimit_members{node=second}") == Some(&2.0)
            && figures.value("peerlimit_merges_total{node=second}") >= 1.0
    })
    .await;
    assert!(figures.value(&format!("peerlimit_news_age_seconds{{node=second,peer={seed}}}")) < 10.0);
    let lag = figures.value(&format!("peerlimit_merge_lag_seconds{{node=second,peer={seed}}}"));
    assert!(lag > 0.0 && lag < 10.0, "{lag}");
    assert!(figures.value("peerlimit_bytes_total{direction=in,node=second}") > 100.0);
    assert_eq!(figures.value("peerlimit_excess_permits_total{node=second}"), 0.0);
    assert_eq!(figures.value("peerlimit_unsent_permits{node=first}"), 0.0);
    assert_eq!(figures.value("peerlimit_drops_total{cause=malformed,node=first}"), 0.0);
    let health = second.health().to_string();
    assert!(health.starts_with("ready, 1 peers\n") && health.contains(" first alive, all news as of "), "{health}");
}

#[test]
fn the_dashboard_asks_for_figures_that_there_are() {
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../examples/grafana.json")).unwrap();
    let mut figures = Figures::new();
    figures.of(&Limiter::local(Quota::per_second(1)));
    let known: Vec<&str> =
        figures.sums.keys().chain(figures.samples.keys()).map(|name| name.split('{').next().unwrap()).collect();
    let of_peers = ["peerlimit_news_age_seconds", "peerlimit_merge_lag_seconds"];
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            asked.extend(
                query
                    .split(|char: char| !char.is_alphanumeric() && char != '_')
                    .filter(|word| word.starts_with("peerlimit_")),
            );
        }
    }
    for name in &asked {
        assert!(known.contains(name) || of_peers.contains(name), "nothing is called {name}");
    }
    // Nor is anything forgotten.
    for name in known.into_iter().chain(of_peers) {
        assert!(asked.contains(name), "no panel shows {name}");
    }
}
