//! Time that goes back between two calls, as it does where each core has a counter of its own.

use super::*;

/// How far it goes back.
const BACK: Duration = Duration::from_millis(1_600);

#[test]
fn whatever_is_asked_of_a_table_while_time_goes_back_stays_within_the_burst() {
    let quota = Quota::per_second(10).burst(20);
    for (seed, publish) in [(1, true), (2, true), (3, false), (4, false)] {
        let (table, spec) = table_of(1 << 10, publish, quota);
        table.scopes().set_peers(3);
        let mut dice = Dice(seed);
        let (mut time, mut admitted, mut charged) = (Timestamp::from_millis(100), 0, 0);
        let mut drained = Vec::new();
        for step in 0..50_000 {
            // Each of a few cores is as far behind as it was before.
            let behind = BACK.mul_f64((dice.roll() % 4) as f64 / 3.0);
            let now = time.saturating_sub(behind);
            let key = digest(&spec, dice.roll() % 8);
            match dice.roll() % 8 {
                0 => {
                    let permits = dice.roll() % 3;
                    charged += permits;
                    table.charge(&spec.rule(), key, Charge::news(permits, now.saturating_sub(behind)), now);
                }
                1 => table.drain_urgent(now, &mut drained),
                2 => table.drain_dirty(now, &mut drained),
                3 => sweep_all(&table, Duration::from_millis(dice.roll() % 3_000), now),
                4 => {
                    let missing = table.missing(&spec.rule(), key, now).raw() >> 16;
                    assert!(missing <= 3 * quota.burst_size(), "seed {seed}, step {step}: {missing} are missing");
                }
                _ => {
                    let cost = dice.roll() % 4;
                    let decision = table.decide(&spec.rule(), key, cost, now);
                    admitted += if decision.allowed { cost } else { 0 };
                    let longest = 2 * quota.refill_time() + 2 * BACK + Duration::from_nanos(1);
                    assert!(decision.remaining <= decision.limit, "seed {seed}, step {step}: {decision:?}");
                    assert!(decision.reset_after <= longest, "seed {seed}, step {step}: {decision:?}");
                    let wait = decision.retry_after.unwrap_or_default();
                    assert!(wait <= longest, "seed {seed}, step {step}: {decision:?}");
                    assert_eq!(decision.allowed, decision.retry_after.is_none(), "seed {seed}, step {step}");
                }
            }
            time = time.saturating_add(Duration::from_millis(dice.roll() % 20));
        }
        // Eight keys; a clock that goes back makes no permit.
        let most = 8 * (quota.burst_size() + 10 * time.saturating_since(Timestamp::ZERO).as_secs());
        assert!(admitted <= most, "seed {seed}: {admitted} admitted and {charged} charged, at most {most}");
        assert!(admitted > 10_000, "seed {seed}: only {admitted} admitted");
        if publish {
            table.drain_dirty(time, &mut drained);
            assert_eq!(drained.iter().map(|unsent| unsent.permits).sum::<u64>(), admitted, "seed {seed}");
        }
    }
}

#[test]
fn a_sweep_on_a_core_that_is_behind_spares_what_another_core_has_touched() {
    let quota = Quota::per_second(1_000_000).burst(1);
    for behind in [Duration::from_nanos(1), Duration::from_millis(1), BACK] {
        let (table, spec) = table_of(1 << 12, false, quota);
        let (now, idle) = (Timestamp::from_millis(10_000), Duration::from_millis(100));
        assert!(table.decide(&spec.rule(), digest(&spec, 1), 1, now).allowed);
        table.charge(&spec.rule(), digest(&spec, 2), Charge::news(1, now), now);
        for idle in [Duration::ZERO, idle] {
            sweep_all(&table, idle, now.saturating_sub(behind));
            assert_eq!(table.stats().keys, 2, "swept {behind:?} behind with {idle:?}");
        }
        for key in [1, 2] {
            assert!(!table.decide(&spec.rule(), digest(&spec, key), 1, now).allowed);
        }
        // And in its time it goes.
        sweep_all(&table, idle, now.saturating_add(idle + Duration::from_micros(1)));
        assert_eq!(table.stats().keys, 0);
    }
}
