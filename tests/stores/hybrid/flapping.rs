//! A primary that comes and goes once a second, in virtual time.

use std::time::Duration;

use peerlimit::{
    Limiter, Quota, RateLimiter,
    stores::hybrid::{Hybrid, State},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::scripted::{AWAY, Mode, Scripted, clock, pair};

const QUOTA: Quota = Quota::per_second(100).burst(50);
const MINUTES: u64 = 5;

/// Five minutes at five times the quota. Returns the hybrid, and what was admitted in units of one central bucket.
async fn flap(down: Mode) -> (Scripted, Hybrid<Scripted, Limiter>, f64) {
    let clock = clock();
    let (store, local) = pair(QUOTA, &clock);
    let hybrid = Hybrid::builder(store.clone(), local).clock(clock).build().unwrap();
    let (begin, mut admitted) = (Instant::now(), 0);
    for call in 0..MINUTES * 60 * 500 {
        sleep_until(begin + Duration::from_millis(2) * u32::try_from(call).unwrap()).await;
        match call % 500 {
            0 => store.set(Mode::After(Duration::ZERO)),
            250 => store.set(down),
            _ => {}
        }
        // No error, and no wait beyond the timeout.
        let asked = Instant::now();
        admitted += u64::from(hybrid.decide(b"user", 1).await.unwrap().allowed);
        assert!(asked.elapsed() <= Duration::from_millis(51), "{:?}", asked.elapsed());
    }
    let central = 50.0 + 100.0 * 60.0 * MINUTES as f64;
    (store, hybrid, admitted as f64 / central)
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_flaps_once_a_second_does_not_flap_the_limiter() {
    for down in [AWAY, Mode::Hangs] {
        let (store, hybrid, admitted) = flap(down).await;
        let stats = hybrid.stats();
        // The primary changes 600 times; it opens at 0.5, 5, 15, 35, 75, and then once in a minute.
        assert!((3..=12).contains(&stats.openings), "{down:?}: {stats:?}");
        assert!((0.98..=1.01).contains(&admitted), "{down:?}: {admitted} of one bucket");
        // Well for good, it is used again, and after a healthy time an outage is a first one.
        store.set(Mode::After(Duration::ZERO));
        sleep(Duration::from_secs(60)).await;
        for _ in 0..4 {
            let _answer = hybrid.decide(b"other", 1).await.unwrap();
        }
        assert_eq!(hybrid.state(), State::Closed);
    }
}
