//! Where cells are kept, beside plain maps.

use super::*;
use crate::crdt::{
    cells::{CellId, Cells, RunSlot, Stored},
    order::Order,
};

fn stored(slot: u16, number: u64) -> Stored {
    let count = Count { epoch: Epoch::from_raw(number as u32 % 3), permits: number };
    Stored { run: RunSlot(slot), count, version: version(number), heard: at(number) }
}

proptest! {
    #![proptest_config(config(256))]

    /// Inserts, removals and replacements of cells of few keys and few runs.
    #[test]
    fn cells_are_a_map_from_key_and_run(steps in prop::collection::vec((0..6_u64, 0..4_u16, any::<bool>()), 0..400)) {
        let mut cells = Cells::default();
        let mut model: BTreeMap<(u64, u16), (CellId, Stored)> = BTreeMap::new();
        for (number, (key_number, slot, removes)) in (1..).zip(steps) {
            let digest = key(key_number);
            match (model.get(&(key_number, slot)).copied(), removes) {
                (Some((id, _)), true) => {
                    cells.remove(id);
                    model.remove(&(key_number, slot));
                }
                (Some((id, _)), false) => {
                    cells.set(id, stored(slot, number));
                    model.insert((key_number, slot), (id, stored(slot, number)));
                }
                (None, _) => {
                    let id = cells.insert(SCOPE, digest, stored(slot, number)).expect("there is room");
                    model.insert((key_number, slot), (id, stored(slot, number)));
                }
            }
            prop_assert_eq!(cells.len(), model.len());
            let keys: BTreeSet<u64> = model.keys().map(|(key, _)| *key).collect();
            prop_assert_eq!(cells.keys(), keys.len());
            for key_number in 0..6 {
                let linked = cells.linked(cells.first_of(key(key_number)));
                let held: BTreeSet<u16> = linked.map(|id| cells.get(id).run.0).collect();
                let expected = model.keys().filter(|(of, _)| *of == key_number).map(|(_, slot)| *slot).collect();
                prop_assert_eq!(held, expected);
            }
            for ((key_number, _), (id, stored)) in &model {
                prop_assert_eq!(cells.get(*id), *stored);
                prop_assert_eq!(cells.key(*id), (SCOPE, key(*key_number)));
            }
        }
    }

    #[test]
    fn an_order_is_a_map_from_versions(
        steps in prop::collection::vec((1..100_u64, any::<bool>()), 0..200),
        low in 0..110_u64,
        below in 0..110_u64,
    ) {
        // Cells to put in order; which ones does not matter.
        let mut cells = Cells::default();
        let mut order = Order::default();
        let mut model: BTreeMap<u64, CellId> = BTreeMap::new();
        for (number, removes) in steps {
            if removes || model.contains_key(&number) {
                order.remove(version(number));
                model.remove(&number);
            } else {
                let id = cells.insert(SCOPE, key(number), stored(0, number)).expect("there is room");
                order.insert(version(number), id);
                model.insert(number, id);
            }
            prop_assert_eq!((order.len(), order.is_empty()), (model.len(), model.is_empty()));
        }
        let named = |entry: Option<(&u64, &CellId)>| entry.map(|(number, id)| (version(*number), *id));
        prop_assert_eq!(order.first(), named(model.first_key_value()));
        prop_assert_eq!(order.first_from(version(low)), named(model.range(low..).next()));
        let between = if low < below { model.range(low..below).next_back() } else { None };
        prop_assert_eq!(order.last_between(version(low), version(below)), named(between));
        prop_assert_eq!(order.newest_first().collect::<Vec<_>>(), model.values().rev().copied().collect::<Vec<_>>());
        for number in 0..110 {
            prop_assert_eq!(order.get(version(number)), model.get(&number).copied());
        }
    }
}

#[test]
fn a_time_that_a_cell_keeps_is_off_by_less_than_four_microseconds() {
    let mut cells = Cells::default();
    for nanos in [0, 1, 3_999, 4_000, 123_456_789_012, 20 * 365 * 24 * 3_600 * 1_000_000_000] {
        let heard = Timestamp::from_nanos(nanos);
        let id = cells.insert(SCOPE, key(nanos), Stored { heard, ..stored(65_535, 1) }).expect("there is room");
        let kept = cells.get(id);
        assert!(kept.heard <= heard && heard.as_nanos() - kept.heard.as_nanos() < 4_000, "{nanos}");
        assert_eq!(kept.run, RunSlot(65_535));
    }
}

#[test]
fn chunks_are_filled_before_the_next_and_used_again() {
    let mut cells = Cells::default();
    let ids: Vec<CellId> =
        (0..10_000).map(|number| cells.insert(SCOPE, key(number), stored(1, number)).expect("room")).collect();
    for id in ids.iter().step_by(2) {
        cells.remove(*id);
    }
    let again: BTreeSet<u64> = (0..5_000)
        .map(|number| cells.insert(SCOPE, key(20_000 + number), stored(2, number)).expect("room"))
        .map(|id| ids.iter().position(|old| *old == id).expect("a place that was free") as u64)
        .collect();
    assert_eq!(again, (0..10_000).step_by(2).collect());
    assert_eq!((cells.len(), cells.keys()), (10_000, 10_000));
}
