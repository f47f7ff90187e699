//! What one central bucket would have said, and how far the cluster went above its envelope.

use std::{collections::VecDeque, time::Duration};

use peerlimit::{
    Quota,
    bucket::{Gcra, Tat, Timestamp},
};

/// One bucket for the whole cluster, fed with the same arrivals at the same times.
pub struct Oracle {
    gcra: Gcra,
    quota: Quota,
    tat: Tat,
    /// A leaky bucket of what the cluster admitted: permits above what the rate let drain.
    level: f64,
    level_at: Duration,
    news_delay: Duration,
    /// When the cluster admitted something within the last delay of news.
    recent: VecDeque<Duration>,
    pub tally: Tally,
}

/// What came of the arrivals on one key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub offered: u64,
    pub admitted: u64,
    pub central: u64,
    /// Refused although the central bucket passed it.
    pub refused_wrongly: u64,
    pub central_refused: u64,
    /// Most permits above `burst + rate * t` over any span of time, in units of the burst.
    pub excess: f64,
    /// Most permits admitted within one delay of news.
    pub within_news_delay: u64,
}

impl Tally {
    pub fn ratio(&self) -> f64 {
        self.admitted as f64 / self.central.max(1) as f64
    }

    pub fn refused(&self) -> u64 {
        self.offered - self.admitted
    }

    pub fn add(&mut self, other: &Tally) {
        self.offered += other.offered;
        self.admitted += other.admitted;
        self.central += other.central;
        self.refused_wrongly += other.refused_wrongly;
        self.central_refused += other.central_refused;
        self.excess = self.excess.max(other.excess);
        self.within_news_delay = self.within_news_delay.max(other.within_news_delay);
    }
}

impl Oracle {
    pub fn new(quota: Quota, news_delay: Duration) -> Self {
        Self {
            gcra: Gcra::new(&quota),
            quota,
            tat: Tat::FULL,
            level: 0.0,
            level_at: Duration::ZERO,
            news_delay,
            recent: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// A request arrived at `now`, and the cluster said `allowed`. Returns what the central bucket says.
    pub fn arrival(&mut self, now: Duration, allowed: bool) -> bool {
        let at = Timestamp::from_nanos(now.as_nanos() as u64);
        let admitted = self.gcra.admit(self.tat, at, 1);
        self.tally.offered += 1;
        match admitted {
            Some(tat) => {
                self.tat = tat;
                self.tally.central += 1;
                self.tally.refused_wrongly += u64::from(!allowed);
            }
            None => self.tally.central_refused += 1,
        }
        if allowed {
            self.tally.admitted += 1;
            self.recent.push_back(now);
            while self.recent.front().is_some_and(|first| *first + self.news_delay < now) {
                self.recent.pop_front();
            }
            self.tally.within_news_delay = self.tally.within_news_delay.max(self.recent.len() as u64);
            let rate = self.quota.count() as f64 / self.quota.period().as_secs_f64();
            let drained = (now - self.level_at).as_secs_f64() * rate;
            self.level = (self.level - drained).max(0.0) + 1.0;
            self.level_at = now;
            let burst = self.quota.burst_size() as f64;
            self.tally.excess = self.tally.excess.max((self.level - burst) / burst);
        }
        admitted.is_some()
    }
}
