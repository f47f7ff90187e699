//! The cells' index, against a map.

use super::*;
use crate::crdt::{
    cells::{Cells, Node},
    runs::{RunSlot, Runs},
};

/// The slots of as many runs.
fn slots(count: u64) -> Vec<RunSlot> {
    let mut runs = Runs::new(run(0));
    (0..count).map(|id| runs.begin(run(id), usize::MAX).expect("there is room").slot).collect()
}

fn node(of: RunSlot, digest: Digest, permits: u64) -> Node {
    let count = Count { epoch: Epoch::default(), permits };
    Node::new(of, SCOPE, digest, &Cell { run: run(0), count, version: version(1), heard: at(0) })
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn a_cell_is_found_by_key_and_run(
        steps in prop::collection::vec((0..300_usize, 0..40_u64, any::<bool>()), 0..3_000),
    ) {
        // More runs than a table tells apart at first sight.
        let slots = slots(300);
        let (mut cells, mut model) = (Cells::default(), BTreeMap::new());
        for (permits, (slot, number, comes)) in (0..).zip(steps) {
            let at = cells.find(slots[slot], key(number));
            prop_assert_eq!(at, model.get(&(slot, number)).map(|(at, _)| *at));
            match (at, comes) {
                (None, true) => {
                    let at = cells.insert(node(slots[slot], key(number), permits)).expect("there is room");
                    model.insert((slot, number), (at, permits));
                }
                (Some(at), false) => {
                    let permits = model.remove(&(slot, number)).map(|(_, permits)| permits);
                    prop_assert_eq!(cells.remove(at).map(|node| node.permits), permits);
                    prop_assert!(cells.remove(at).is_none());
                }
                _ => {}
            }
        }
        prop_assert_eq!(cells.len(), model.len());
        for ((slot, number), (at, permits)) in model {
            prop_assert_eq!(cells.find(slots[slot], key(number)), Some(at));
            prop_assert_eq!(cells.get(at).map(|node| (node.digest, node.permits)), Some((key(number), permits)));
        }
    }
}

#[test]
fn runs_that_went_leave_their_slots() {
    let mut runs = Runs::new(run(0));
    let begin = |runs: &mut Runs, id| runs.begin(run(id), 4).map(|run| run.slot);
    let first: Vec<_> = (0..4).filter_map(|id| begin(&mut runs, id)).collect();
    assert_eq!((first.len(), begin(&mut runs, 4)), (4, None));
    assert_eq!((first[0], begin(&mut runs, 2)), (RunSlot::OWN, Some(first[2])));
    runs.retain(|id, _| id != run(1) && id != run(2));
    let next: Vec<_> = [5, 6].into_iter().filter_map(|id| begin(&mut runs, id)).collect();
    assert!(next.iter().all(|slot| first[1..3].contains(slot)) && next[0] != next[1]);
    assert_eq!(begin(&mut runs, 7), None);
}
