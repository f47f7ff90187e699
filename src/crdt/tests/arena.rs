//! The arena, against a map.

use super::*;
use crate::crdt::arena::Arena;

#[derive(Clone, Debug)]
enum Step {
    /// So many values come.
    Insert(usize),
    /// Of so many that are there, from some place on, every second goes.
    Remove { from: usize, count: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let insert = (0..1_500_usize).prop_map(Step::Insert);
    let remove = (0..3_000_usize, 0..1_500_usize).prop_map(|(from, count)| Step::Remove { from, count });
    prop::collection::vec(prop_oneof![insert, remove], 0..12)
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn values_stay_under_their_numbers(steps in steps()) {
        let (mut arena, mut model) = (Arena::default(), BTreeMap::new());
        let (mut next, mut most) = (0_u64, 0);
        for step in steps {
            match step {
                Step::Insert(count) => for _ in 0..count {
                    let at = arena.insert(next).expect("a few thousand numbers are there");
                    prop_assert_eq!(model.insert(at, next), None, "{} is taken", at);
                    next += 1;
                },
                Step::Remove { from, count } => {
                    let gone: Vec<u32> = model.keys().copied().skip(from).take(count).step_by(2).collect();
                    for at in gone {
                        prop_assert_eq!(arena.remove(at), model.remove(&at));
                        prop_assert_eq!(arena.remove(at), None);
                    }
                }
            }
            most = most.max(model.len());
            prop_assert_eq!(arena.len(), model.len());
            for at in 0..4_096 {
                prop_assert_eq!(arena.get(at), model.get(&at));
                prop_assert_eq!(arena.get_mut(at), model.get_mut(&at));
            }
            // What is free is used before there is more.
            prop_assert!(model.keys().all(|at| (*at as usize) < most));
        }
        prop_assert_eq!(arena.get(u32::MAX), None);
    }
}
