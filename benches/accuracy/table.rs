//! The table: each scenario under each rule, over all seeds.

use std::{fmt, ops::RangeInclusive};

use crate::contest::{Contest, Played};

/// The rules, in the order of the table.
pub const RULES: [Rule; 3] = [
    Rule { name: "this library", played: |contest| &contest.library },
    Rule { name: "one random peer", played: |contest| &contest.random_peer },
    Rule { name: "every node alone", played: |contest| &contest.alone },
];

/// A rule's name, and where to find what came of it.
pub struct Rule {
    pub name: &'static str,
    pub played: fn(&Contest) -> &Played,
}

/// A scenario's rows, one a rule.
pub struct Rows {
    pub scenario: &'static str,
    pub rules: [Row; 3],
}

/// One rule in one scenario.
pub struct Row {
    /// Admitted over what the central bucket admits.
    ratio: RangeInclusive<f64>,
    /// Most bursts above the envelope, of the worst seed.
    pub above: f64,
    /// Refusals beyond the number of the central bucket's, over what was offered; of the worst seed.
    refused_more: f64,
    /// Requests refused that the central bucket passed, over what was offered; of the worst seed.
    refused_wrongly: f64,
    /// In a node and second, on average.
    datagrams: f64,
    bytes: f64,
}

impl Rows {
    pub fn of(scenario: &'static str, contests: &[Contest]) -> Self {
        Self { scenario, rules: RULES.map(|rule| Row::of(contests.iter().map(rule.played))) }
    }
}

impl Row {
    fn of<'a>(seeds: impl Iterator<Item = &'a Played>) -> Self {
        let mut row = Self {
            ratio: f64::MAX..=0.0,
            above: 0.0,
            refused_more: 0.0,
            refused_wrongly: 0.0,
            datagrams: 0.0,
            bytes: 0.0,
        };
        let mut count = 0.0;
        for Played { tally, datagrams, bytes, .. } in seeds {
            let ratio = tally.ratio();
            let share = |requests: u64| requests as f64 / tally.offered as f64;
            row.ratio = row.ratio.start().min(ratio)..=row.ratio.end().max(ratio);
            row.above = row.above.max(tally.excess);
            row.refused_more = row.refused_more.max(share(tally.refused().saturating_sub(tally.central_refused)));
            row.refused_wrongly = row.refused_wrongly.max(share(tally.refused_wrongly));
            row.datagrams += datagrams;
            row.bytes += bytes;
            count += 1.0;
        }
        row.datagrams /= count;
        row.bytes /= count;
        row
    }
}

/// What precedes the rows.
pub const HEAD: &str = "\
| scenario | rule | admitted / central | bursts above | refused more | refused wrongly | datagrams | bytes |
|---|---|--:|--:|--:|--:|--:|--:|";

/// What the rules and the columns mean.
pub const LEGEND: &str = "\
one random peer:    every 200 ms a node exchanges all cells that it knows with one random peer
every node alone:   a node keeps the whole quota for itself

admitted / central: over all keys, least to most of all seeds
bursts above:       most permits above burst + rate * t, over any span of time, in bursts; worst seed and key
refused more:       refusals beyond the number of the central bucket's, as a share of what was offered; worst seed
refused wrongly:    requests refused that the central bucket passed, as a share of what was offered; worst seed.
                    Over the quota it says little: a permit that another request got a moment earlier counts
datagrams, bytes:   sent by a node in a second under load, without IP and UDP headers; the library's include
                    membership and streams";

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut scenario = self.scenario;
        for (rule, row) in RULES.iter().zip(&self.rules) {
            let ratio = format!("{:.3} – {:.3}", row.ratio.start(), row.ratio.end());
            writeln!(
                f,
                "| {scenario:<33} | {:<16} | {ratio:>15} | {:>6.2} | {:>7.3} % | {:>7.3} % | {:>6.1} | {:>8.0} |",
                rule.name,
                row.above,
                row.refused_more * 100.0,
                row.refused_wrongly * 100.0,
                row.datagrams,
                row.bytes,
            )?;
            scenario = "";
        }
        Ok(())
    }
}
