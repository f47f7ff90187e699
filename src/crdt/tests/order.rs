//! The order of versions, against a map.

use super::*;
use crate::crdt::order::Order;

/// Versions that come one after the other, from some version on: up or down by a stride.
#[derive(Clone, Debug)]
enum Step {
    Row {
        from: u64,
        count: u64,
        stride: u64,
        up: bool,
    },
    /// Of those that are there, from some place on, each that is left out by `every` goes.
    Remove {
        from: usize,
        count: usize,
        every: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let from = prop_oneof![4 => 1..2_000_u64, 1 => any::<u64>().prop_map(|from| from.max(1))];
    let stride = prop_oneof![4 => 1..4_u64, 1 => 1..1_u64 << 40];
    let row = (from, 0..300_u64, stride, any::<bool>());
    let row = row.prop_map(|(from, count, stride, up)| Step::Row { from, count, stride, up });
    let remove = (0..2_000_usize, 0..600_usize, 1..5_usize);
    let remove = remove.prop_map(|(from, count, every)| Step::Remove { from, count, every });
    prop::collection::vec(prop_oneof![3 => row, 2 => remove], 0..20)
}

fn agree(order: &Order, model: &BTreeMap<u64, u32>) -> Result<(), TestCaseError> {
    prop_assert_eq!((order.len(), order.is_empty()), (model.len(), model.is_empty()));
    prop_assert!(order.newest().eq(model.values().rev().copied()));
    let near = model.keys().flat_map(|at| [at.saturating_sub(1), *at, at.saturating_add(1)]);
    for at in near.chain([0, 1, 1_000, u64::MAX]) {
        let plain = |(at, cell): (&u64, &u32)| (version(*at), *cell);
        prop_assert_eq!(order.get(version(at)), model.get(&at).copied());
        prop_assert_eq!(order.first_from(version(at)), model.range(at..).next().map(plain));
        prop_assert_eq!(order.last_below(version(at)), model.range(..at).next_back().map(plain));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn an_order_is_that_of_the_versions(steps in steps()) {
        let (mut order, mut model) = (Order::default(), BTreeMap::new());
        let mut cell = 0;
        for step in steps {
            match step {
                Step::Row { from, count, stride, up } => for nth in 0..count {
                    let by = stride.saturating_mul(nth);
                    let at = if up { from.saturating_add(by) } else { from.saturating_sub(by).max(1) };
                    if let std::collections::btree_map::Entry::Vacant(vacant) = model.entry(at) {
                        vacant.insert(cell);
                        order.insert(version(at), cell);
                        cell += 1;
                    }
                },
                Step::Remove { from, count, every } => {
                    let gone: Vec<u64> = model.keys().copied().skip(from).take(count).step_by(every).collect();
                    for at in gone {
                        prop_assert_eq!(order.remove(version(at)), model.remove(&at));
                        prop_assert_eq!(order.remove(version(at)), None);
                    }
                }
            }
            agree(&order, &model)?;
        }
    }
}

/// How many blocks `rows` leave of as many versions.
fn blocks_of(rows: impl Iterator<Item = u64>) -> (usize, usize) {
    let mut order = Order::default();
    rows.for_each(|at| order.insert(version(at), 0));
    (order.blocks(), order.len())
}

#[test]
fn rows_fill_their_blocks() {
    // Up, down, and down into a gap that two rows left.
    assert_eq!(blocks_of(1..=6_400), (100, 6_400));
    let (blocks, len) = blocks_of((1..=6_400).rev());
    assert!(blocks <= 110, "{blocks} blocks of {len} versions");
    let (blocks, len) = blocks_of((1..=640).chain(9_361..=10_000).chain((641..=9_360).rev()));
    assert!(blocks <= 180, "{blocks} blocks of {len} versions");
    // Two rows that come down in turn, as two members tell of one run.
    let (blocks, len) = blocks_of((1..=3_200).rev().flat_map(|at| [at, at + 3_200]));
    assert!(blocks <= 120, "{blocks} blocks of {len} versions");
}

#[test]
fn an_order_in_use_keeps_its_blocks_more_than_half_full() {
    let mut order = Order::default();
    let mut at_version: Vec<u64> = (1..=10_000).collect();
    at_version.iter().for_each(|at| order.insert(version(*at), 0));
    let mut cell = 0;
    for next in 10_001..110_000 {
        cell = (cell * 1_103_515_245 + 12_345) % (1 << 31);
        let index = (cell >> 8) % at_version.len();
        assert!(order.remove(version(at_version[index])).is_some());
        at_version[index] = next;
        order.insert(version(next), 0);
    }
    let blocks = order.blocks();
    assert!(10_000 > 38 * blocks, "{blocks} blocks of 10,000 versions");
}
