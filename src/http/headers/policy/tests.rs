use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn window(count: u64, period: Duration) -> (u64, u64) {
    let Window { permits, seconds } = Window::of(&Quota::new(count, period).expect("valid"));
    (permits, seconds)
}

#[test]
fn a_window_of_whole_seconds_is_the_period_as_it_was_written() {
    assert_eq!(window(60, Duration::from_secs(60)), (60, 60));
    assert_eq!(window(1, Duration::from_secs(30 * 24 * 60 * 60)), (1, 2_592_000));
    assert_eq!(window(100, Duration::from_secs(1)), (100, 1));
}

#[test]
fn a_fraction_of_a_second_is_scaled_until_both_are_whole() {
    assert_eq!(window(10, Duration::from_millis(500)), (20, 1));
    assert_eq!(window(1, Duration::from_millis(1_500)), (2, 3));
    assert_eq!(window(10, Duration::from_millis(1_500)), (20, 3));
    assert_eq!(window(1, Duration::from_millis(10)), (100, 1));
    assert_eq!(window(3, Duration::from_millis(700)), (30, 7));
    // Three a second, but for a billionth.
    assert_eq!(window(1, Duration::from_nanos(333_333_333)), (3, 1));
    assert_eq!(window(1, Duration::from_nanos(1_500_000_001)), (2, 3));
}

#[test]
fn a_quota_that_refuses_all_has_nothing_to_give() {
    let blocked = Window::of(&Quota::per_minute(60).refuse_all());
    assert_eq!((blocked.permits, blocked.seconds), (0, 60));
}

#[test]
fn a_name_is_what_a_structured_string_may_hold() {
    assert_eq!(name(""), "default");
    assert_eq!(name("per user, daily"), "per user, daily");
    assert_eq!(name("täglich\n"), "t_glich_");
    assert_eq!(name(&"x".repeat(100)), "x".repeat(64));
    assert_eq!(name(r#"a"b\c"#), r#"a"b\c"#, "quotes are escaped where they are written");
}

proptest! {
    #[test]
    fn the_sustained_rate_is_right(count in 1_u64..=1_000_000, nanos in 1_000_u64..=1_000_000_000_000_000) {
        if let Ok(quota) = Quota::new(count, Duration::from_nanos(nanos)) {
            let Window { permits, seconds } = Window::of(&quota);
            let told = permits as f64 / seconds as f64;
            let kept = count as f64 * 1e9 / nanos as f64;
            prop_assert!((told / kept - 1.0).abs() <= 0.000_033, "{permits} per {seconds} s for {quota:?}");
        }
    }
}
