//! The scenarios of the published table: loads, and how close the cluster has to stay to one central bucket.

use std::{ops::RangeInclusive, time::Duration};

use peerlimit::Quota;

use super::{
    network::Link,
    oracle::Tally,
    scenario::{Load, Scenario, Spread},
};

/// A scenario and its bars.
#[derive(Clone)]
pub struct Bar {
    pub scenario: Scenario,
    /// Admitted in all, over what the central bucket admits.
    pub ratio: RangeInclusive<f64>,
    /// Most permits above `burst + rate * t`, in bursts.
    pub excess: f64,
    /// Most refusals, over what was offered, above those of the central bucket.
    pub refused: f64,
}

/// When the load of every scenario begins and ends.
const FROM: u64 = 5;
const UNTIL: u64 = 20;

/// All of them. `overload` in the name is offered over quota.
pub fn bars() -> Vec<Bar> {
    let slow = Link::LAN.with_delay(Duration::from_millis(20));
    let lossy = Link::LAN.with_loss(0.1);
    vec![
        bar(even("three_nodes_9x_over", 3, 300.0), 0.995..=1.005, 0.10),
        bar(even("ten_nodes_10x_over", 10, 100.0), 0.995..=1.005, 0.15),
        bar(even("ten_nodes_100x_over", 10, 1000.0), 0.99..=1.01, 0.8),
        bar(even("fifty_nodes_10x_over", 50, 20.0), 0.995..=1.005, 0.20),
        bar(wide("ten_nodes_3x_over_a_wide_quota", 10, 3000.0), 0.995..=1.005, 0.10),
        bar(even("three_nodes_9x_over_with_loss", 3, 300.0).on(lossy), 0.99..=1.01, 0.25),
        bar(even("ten_nodes_10x_over_with_loss", 10, 100.0).on(lossy), 0.99..=1.01, 0.25),
        bar(even("fifty_nodes_10x_over_with_loss", 50, 20.0).on(lossy), 0.99..=1.01, 0.25),
        bar(even("ten_nodes_10x_over_at_20_ms", 10, 100.0).on(slow), 0.98..=1.02, 0.6),
        // Plain push does not hold 0.97..=1.03 here, and was not expected to: see DESIGN.md, "Slow networks".
        bar(even("ten_nodes_100x_over_at_20_ms", 10, 1000.0).on(slow), 0.97..=1.12, 4.5),
        bar(spread("one_busy_node_of_ten", Spread::Node(3)), 0.995..=1.005, 0.05),
        bar(spread("load_that_moves_from_node_to_node", Spread::Moving(Duration::from_secs(1))), 0.995..=1.005, 0.05),
        Bar { refused: 0.001, ..bar(even("nine_tenths_of_the_quota", 10, 9.0), 0.999..=1.001, 0.0) },
        bar(zipf("a_thousand_keys_5x_over"), 0.99..=1.01, 0.2),
    ]
}

/// The one of that name.
pub fn named(name: &str) -> Bar {
    bars().into_iter().find(|bar| bar.scenario.name == name).expect("a scenario of the catalogue")
}

impl Bar {
    /// Fails where `total`, over all keys, or the tally of some key misses a bar.
    pub fn check(&self, seed: u64, total: &Tally) {
        let name = self.scenario.name;
        let ratio = total.ratio();
        assert!(self.ratio.contains(&ratio), "{name}, seed {seed}: ratio {ratio:.4}, {total:?}");
        assert!(total.excess <= self.excess, "{name}, seed {seed}: {:.3} bursts above, {total:?}", total.excess);
        let more = total.refused().saturating_sub(total.central_refused) as f64 / total.offered as f64;
        assert!(
            more <= self.refused,
            "{name}, seed {seed}: {more:.4} more refused than by the central bucket, {total:?}"
        );
    }
}

fn bar(scenario: Scenario, ratio: RangeInclusive<f64>, excess: f64) -> Bar {
    Bar { scenario, ratio, excess, refused: 0.01 }
}

fn even(name: &'static str, nodes: usize, rate_per_node: f64) -> Scenario {
    Scenario::new(name, nodes, UNTIL).load(Load::even("key", rate_per_node * nodes as f64, FROM, UNTIL))
}

fn wide(name: &'static str, nodes: usize, rate_per_node: f64) -> Scenario {
    Scenario { quota: Quota::per_second(10_000).burst(1000), ..even(name, nodes, rate_per_node) }
}

fn spread(name: &'static str, spread: Spread) -> Scenario {
    Scenario::new(name, 10, UNTIL).load(Load::even("key", 1000.0, FROM, UNTIL).spread(spread))
}

/// Keys whose popularity falls with their rank, together at five times what one quota for each of the busy ones admits.
fn zipf(name: &'static str) -> Scenario {
    const KEYS: usize = 1000;
    let weights: Vec<f64> = (1..=KEYS).map(|rank| 1.0 / rank as f64).collect();
    let sum: f64 = weights.iter().sum();
    // The hottest key alone gets ten times its quota of 10 per second.
    let total = 100.0 * sum;
    let mut scenario = Scenario { quota: Quota::per_second(10).burst(20), ..Scenario::new(name, 10, UNTIL) };
    for (rank, weight) in weights.iter().enumerate() {
        let key: &'static str = Box::leak(format!("key-{rank:04}").into_boxed_str());
        scenario = scenario.load(Load::even(key, total * weight / sum, FROM, UNTIL));
    }
    scenario
}
