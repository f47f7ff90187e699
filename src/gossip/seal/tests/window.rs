//! The window against a set that forgets nothing.

use std::collections::BTreeSet;

use super::{
    super::window::{Seen, Window},
    *,
};

/// What has to hold of every number that is asked for.
fn check<const WORDS: usize>(window: &Window<WORDS>, seen: &BTreeSet<u64>, number: u64) {
    let highest = seen.last().copied();
    match window.look(number) {
        Seen::No => assert!(!seen.contains(&number), "{number} was seen"),
        Seen::Yes => assert!(seen.contains(&number), "{number} was not seen"),
        Seen::TooOld => {
            let behind = highest.unwrap_or_default() - number;
            assert!(behind >= 64 * (WORDS as u64 - 1), "{number} is only {behind} behind");
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_window_agrees_with_a_set(
        steps in prop::collection::vec(prop_oneof![8 => 0..80_u64, 2 => 0..400_u64, 1 => any::<u64>()], 1..300)
    ) {
        let mut window = Window::<3>::default();
        let mut seen = BTreeSet::new();
        let mut middle = 1_000_u64;
        for step in steps {
            let number = if step < 400 { (middle + step).saturating_sub(100) } else { step >> 1 };
            check(&window, &seen, number);
            if window.look(number) == Seen::No {
                window.note(number);
                seen.insert(number);
                prop_assert_eq!(window.look(number), Seen::Yes);
            }
            middle = middle.max(number.min(1 << 40));
            for near in middle.saturating_sub(300)..middle + 3 {
                check(&window, &seen, near);
            }
        }
    }
}

#[test]
fn the_window_of_datagrams_reaches_two_thousand_and_forty_eight_back() {
    let mut window = Window::<33>::default();
    for highest in [2_048_u64, 2_111, 2_112, 5_000, 1 << 62] {
        window.note(highest);
        assert_eq!(window.look(highest - 2_047), Seen::No, "behind {highest}");
    }
    assert_eq!(window.look((1 << 62) - 2_200), Seen::TooOld);
    assert_eq!(window.look(0), Seen::TooOld);
    window.note(0);
    assert_eq!(window.look(0), Seen::TooOld);
}
