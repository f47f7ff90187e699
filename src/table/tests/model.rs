//! The table against a plain map.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::table::Unsent;

const PEERS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Decide { scope: usize, key: u64, cost: u64 },
    Peek { scope: usize, key: u64, cost: u64 },
    Charge { scope: usize, key: u64, permits: u64, missing: u64, ago_ms: u64 },
    Missing { scope: usize, key: u64 },
    IsFull { scope: usize, key: u64 },
    DrainUrgent,
    DrainDirty,
    Sweep { idle_ms: u64 },
    Advance { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![8 => 0..4_u64, 1 => 0..25_u64, 1 => Just(u64::MAX)];
    let permits = prop_oneof![3 => Just(0), 4 => 0..6_u64, 1 => Just(u64::MAX)];
    let missing = prop_oneof![3 => Just(0), 4 => 0..12_u64 << 16, 1 => Just(u64::MAX)];
    let step = prop_oneof![
        8 => (0..2_usize, 0..4_u64, cost.clone()).prop_map(|(scope, key, cost)| Step::Decide { scope, key, cost }),
        2 => (0..2_usize, 0..4_u64, cost).prop_map(|(scope, key, cost)| Step::Peek { scope, key, cost }),
        3 => (0..2_usize, 0..4_u64, permits, missing, prop_oneof![Just(0), 0..900_u64])
            .prop_map(|(scope, key, permits, missing, ago_ms)| Step::Charge { scope, key, permits, missing, ago_ms }),
        2 => (0..2_usize, 0..4_u64).prop_map(|(scope, key)| Step::Missing { scope, key }),
        1 => (0..2_usize, 0..4_u64).prop_map(|(scope, key)| Step::IsFull { scope, key }),
        2 => Just(Step::DrainUrgent),
        1 => Just(Step::DrainDirty),
        1 => prop_oneof![Just(0), 0..2_000_u64].prop_map(|idle_ms| Step::Sweep { idle_ms }),
        4 => prop_oneof![0..300_u64, 0..5_000_u64].prop_map(|ms| Step::Advance { ms }),
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tat: Tat,
    unsent: u64,
    urgent: bool,
}

/// What the table is meant to be.
struct Model {
    buckets: HashMap<(usize, u64), Bucket>,
    publish: bool,
    /// Some key became urgent since the urgent ones were drained.
    urgent: bool,
}

impl Model {
    fn of(&self, scope: usize, key: u64) -> Bucket {
        self.buckets.get(&(scope, key)).copied().unwrap_or_default()
    }

    fn admit(&mut self, scope: usize, key: u64, gcra: &Gcra, tat: Tat, cost: u64, now: Timestamp) {
        if cost == 0 {
            return;
        }
        let bucket = self.buckets.entry((scope, key)).or_default();
        bucket.tat = tat;
        if self.publish {
            bucket.unsent += cost;
            self.rate(scope, key, gcra, now);
        }
    }

    /// A key with unsent permits is urgent from `unsent >= remaining / (2 * peers)` on, the part of a permit included.
    fn rate(&mut self, scope: usize, key: u64, gcra: &Gcra, now: Timestamp) {
        let bucket = self.buckets.entry((scope, key)).or_default();
        bucket.urgent |= bucket.unsent * 2 * PEERS * gcra.interval() >= gcra.slack(bucket.tat, now);
        self.urgent |= bucket.urgent;
    }

    fn drain(&mut self, all: bool) -> Vec<(usize, u64, u64)> {
        self.urgent = false;
        let mut drained = Vec::new();
        for ((scope, key), bucket) in &mut self.buckets {
            if (all || bucket.urgent) && bucket.unsent > 0 {
                drained.push((*scope, *key, bucket.unsent));
                bucket.unsent = 0;
            }
            bucket.urgent = false;
        }
        drained.sort_unstable();
        drained
    }
}

fn run(steps: &[Step], publish: bool) -> Result<(), TestCaseError> {
    let table = Table::new(TableOptions { max_keys: 1 << 12, publish });
    table.scopes().set_peers(PEERS as usize);
    let quotas = [Quota::per_second(10), Quota::per_second(3).burst(20)];
    let specs = [
        table.scopes().get_or_add(&DigestKey::PUBLIC, "one", quotas[0]),
        table.scopes().get_or_add(&DigestKey::PUBLIC, "two", quotas[1]),
    ];
    let keys: HashMap<Digest, (usize, u64)> = (0..2)
        .flat_map(|scope| (0..4).map(move |key| (scope, key)))
        .map(|(scope, key)| (digest(&specs[scope], key), (scope, key)))
        .collect();
    let named = |unsent: &[Unsent]| {
        let mut named: Vec<(usize, u64, u64)> = unsent
            .iter()
            .map(|unsent| {
                let (scope, key) = keys[&unsent.digest];
                assert_eq!(unsent.scope, specs[scope].index());
                (scope, key, unsent.permits)
            })
            .collect();
        named.sort_unstable();
        named
    };
    let mut model = Model { buckets: HashMap::new(), publish, urgent: false };
    let mut now = Timestamp::from_millis(1_000);
    for step in steps {
        match *step {
            Step::Decide { scope, key, cost } | Step::Peek { scope, key, cost } => {
                let consumes = matches!(step, Step::Decide { .. });
                let gcra = specs[scope].gcra();
                let tat = model.of(scope, key).tat;
                let expected = match gcra.admit(tat, now, cost) {
                    Some(after) => {
                        let shown = if consumes { after } else { tat };
                        if consumes {
                            model.admit(scope, key, &gcra, after, cost, now);
                        }
                        gcra.allowed(shown, now).by(specs[scope].name())
                    }
                    None => gcra.refused(tat, now, cost).by(specs[scope].name()),
                };
                let (rule, digest) = (specs[scope].rule(), digest(&specs[scope], key));
                let answer = if consumes {
                    table.decide(&rule, digest, cost, now)
                } else {
                    table.peek(&rule, digest, cost, now)
                };
                prop_assert_eq!(answer, expected, "{:?}", step);
            }
            Step::Charge { scope, key, permits, missing, ago_ms } => {
                let gcra = specs[scope].gcra();
                let missing = Missing::from_raw(missing);
                let as_of = now.saturating_sub(Duration::from_millis(ago_ms));
                let tat = model.of(scope, key).tat;
                let after = gcra.charge(tat, as_of, permits).max(gcra.raise(tat, as_of, missing));
                if model.buckets.contains_key(&(scope, key)) || !after.is_full_since(now) {
                    model.buckets.entry((scope, key)).or_default().tat = after;
                }
                if model.of(scope, key).unsent > 0 {
                    model.rate(scope, key, &gcra, now);
                }
                let charge = Charge { permits, missing, as_of };
                table.charge(&specs[scope].rule(), digest(&specs[scope], key), charge, now);
            }
            Step::Missing { scope, key } => {
                let bucket = model.of(scope, key);
                let gcra = specs[scope].gcra();
                let expected = gcra.missing_besides(bucket.tat, now, bucket.unsent);
                prop_assert_eq!(table.missing(&specs[scope].rule(), digest(&specs[scope], key), now), expected);
            }
            Step::IsFull { scope, key } => {
                let full = model.of(scope, key).tat.is_full_since(now);
                prop_assert_eq!(table.is_full(digest(&specs[scope], key), now), full);
            }
            Step::DrainUrgent | Step::DrainDirty => {
                let all = matches!(step, Step::DrainDirty);
                let expected = model.drain(all);
                let mut drained = Vec::new();
                if all {
                    table.drain_dirty(Timestamp::ZERO, &mut drained);
                } else {
                    table.drain_urgent(Timestamp::ZERO, &mut drained);
                }
                prop_assert_eq!(named(&drained), expected, "{:?}", step);
            }
            Step::Sweep { idle_ms } => {
                let idle = Duration::from_millis(idle_ms);
                let full_since = now.saturating_sub(idle);
                if full_since > Timestamp::ZERO {
                    model.buckets.retain(|_, bucket| bucket.unsent > 0 || !bucket.tat.is_full_since(full_since));
                }
                sweep_all(&table, idle, now);
            }
            Step::Advance { ms } => now = now.saturating_add(Duration::from_millis(ms)),
        }
        prop_assert_eq!(table.stats().keys, model.buckets.len() as u64, "{:?}", step);
        prop_assert_eq!(table.is_urgent(), model.urgent, "{:?}", step);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_map_of_buckets(steps in steps()) {
        run(&steps, true)?;
    }

    #[test]
    fn a_table_that_nobody_drains_keeps_nothing_to_tell(steps in steps()) {
        run(&steps, false)?;
    }
}

#[test]
fn equal_keys_of_two_scopes_are_two_buckets() {
    let table = Table::new(TableOptions { max_keys: 1 << 12, publish: true });
    let slow = table.scopes().get_or_add(&DigestKey::PUBLIC, "slow", Quota::per_day(1));
    let fast = table.scopes().get_or_add(&DigestKey::PUBLIC, "fast", Quota::per_second(5));
    let now = Timestamp::from_millis(1_000);
    let (a, b) = (slow.hasher().digest(b"key"), fast.hasher().digest(b"key"));
    assert_ne!(a, b);
    assert!(table.decide(&slow.rule(), a, 1, now).allowed);
    assert!(!table.decide(&slow.rule(), a, 1, now).allowed);
    assert_eq!(table.decide(&fast.rule(), b, 1, now).remaining, 4);
    // The sweep of the one that is full again leaves the other.
    let mut drained = Vec::new();
    table.drain_dirty(Timestamp::ZERO, &mut drained);
    assert_eq!(drained.len(), 2);
    sweep_all(&table, Duration::ZERO, Timestamp::from_millis(10_000));
    assert_eq!((table.stats().keys, table.stats().idle), (1, 1));
    assert!(!table.decide(&slow.rule(), a, 1, Timestamp::from_millis(10_000)).allowed);
}

#[test]
fn a_scope_that_is_there_keeps_its_quota() {
    let table = Table::new(TableOptions { max_keys: 1 << 12, publish: true });
    let first = table.scopes().get_or_add(&DigestKey::PUBLIC, "one", Quota::per_second(5));
    let again = table.scopes().get_or_add(&DigestKey::PUBLIC, "one", Quota::per_second(7));
    assert_eq!((again.index(), again.quota()), (first.index(), Quota::per_second(5)));
    assert_eq!(table.scopes().len(), 1);
    assert_eq!(table.scopes().find(first.id()).map(|spec| spec.index()), Some(first.index()));
}
