//! Whether answers come in time, on a machine that may be late itself.
//!
//! A timer is set at the moment of each question, a little longer than the answer may take. What keeps the answer from
//! this process keeps the timer from it too: a host that is busy with something else, a task that does not yield. An
//! answer is late if the timer was there clearly before it. All of that has to run on one thread, or only a part of it
//! may be kept waiting.

use std::{
    ops::AddAssign,
    pin::pin,
    time::{Duration, Instant},
};

use tokio::time::sleep;

/// How much longer than the timeout an answer may take, by the timer and beyond it.
const ALLOWANCE: (Duration, Duration) = (Duration::from_millis(3), Duration::from_millis(2));
/// Of how many measurements one has to be in time. Each is a whole one.
const ATTEMPTS: u32 = 3;

/// An answer, how long it took, and whether it was late: 5 ms beyond `timeout`, and not because of this process.
pub async fn timed<T>(timeout: Duration, ask: impl Future<Output = T>) -> (T, Duration, bool) {
    let asked = Instant::now();
    let (mut ask, mut timer) = (pin!(ask), pin!(sleep(timeout + ALLOWANCE.0)));
    tokio::select! {
        biased;
        answer = &mut ask => return (answer, asked.elapsed(), false),
        () = &mut timer => {}
    }
    // Where both were kept from this process, the answer is there as soon as what brings it had its turn.
    let rang = Instant::now();
    let answer = ask.await;
    (answer, asked.elapsed(), rang.elapsed() > ALLOWANCE.1)
}

/// Answers of one measurement.
#[derive(Debug, Default)]
pub struct Answers {
    pub took: Vec<Duration>,
    pub late: usize,
}

impl Answers {
    pub fn add(&mut self, took: Duration, late: bool) {
        self.took.push(took);
        self.late += usize::from(late);
    }

    /// Whether the 99th percentile is in time.
    pub fn are_in_time(&self) -> bool {
        assert!(!self.took.is_empty(), "nothing was asked");
        self.late * 100 <= self.took.len()
    }

    /// The 99th percentile of what it took, lateness of the machine included.
    pub fn p99(&self) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took[took.len() * 99 / 100]
    }
}

impl AddAssign for Answers {
    fn add_assign(&mut self, other: Self) {
        self.took.extend(other.took);
        self.late += other.late;
    }
}

/// Measures up to three times, until answers are in time at their 99th percentile.
pub async fn in_time(measure: impl AsyncFn() -> Vec<Answers>) {
    for _ in 0..ATTEMPTS {
        let all = measure().await;
        for answers in &all {
            let (late, of) = (answers.late, answers.took.len());
            eprintln!("{late} of {of} answers late, p99 {:?} with what the machine added", answers.p99());
        }
        if all.iter().all(Answers::are_in_time) {
            return;
        }
    }
    panic!("answers were late in each of {ATTEMPTS} measurements");
}

#[tokio::test]
async fn what_is_late_is_told_from_what_a_busy_thread_keeps_waiting() {
    const TIMEOUT: Duration = Duration::from_millis(20);
    let (_, took, late) = timed(TIMEOUT, sleep(TIMEOUT)).await;
    assert!(!late, "{took:?}");
    let (_, took, late) = timed(TIMEOUT, sleep(TIMEOUT * 10)).await;
    assert!(late, "{took:?}");
    // Nobody gets a turn for a while, and the answer comes by another task. The machine may stop just when it has come.
    let kept_waiting = async || {
        let hog = tokio::spawn(async {
            sleep(TIMEOUT / 2).await;
            std::thread::sleep(TIMEOUT * 4);
        });
        let (_, took, late) = timed(TIMEOUT, tokio::spawn(sleep(TIMEOUT))).await;
        hog.await.unwrap();
        assert!(took >= TIMEOUT * 2, "{took:?}");
        late
    };
    assert!(!kept_waiting().await || !kept_waiting().await || !kept_waiting().await);
}
