//! Load on both limiters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use peerlimit::{
    Quota, RateLimiter,
    stores::redis::{Redis, RedisError},
};

/// Nothing is refused for want of it.
pub const AMPLE: Quota = Quota::per_second(1_000_000);

/// Tasks that decide all the time until they are told to stop.
pub struct Load {
    stop: Arc<AtomicBool>,
    decided: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<Vec<RedisError>>>,
}

impl Load {
    /// On both kinds of limiters.
    pub fn start(redis: &Redis) -> Self {
        let mut load = Self { stop: Arc::default(), decided: Arc::default(), tasks: Vec::new() };
        for task in 0..4 {
            load.add(redis.sliding_log("load", Quota::per_second(1_000)), task);
            load.add(redis.token_bucket("load", AMPLE), task);
        }
        load
    }

    fn add(&mut self, limiter: impl RateLimiter<Error = RedisError, Deciding: Send> + Send + 'static, task: usize) {
        let (stop, decided) = (Arc::clone(&self.stop), Arc::clone(&self.decided));
        self.tasks.push(tokio::spawn(async move {
            let mut errors = Vec::new();
            let mut turn = 0_u64;
            while !stop.load(Relaxed) {
                let key = format!("{task}-{}", turn % 50);
                turn += 1;
                let asked = limiter.decide(key.as_bytes(), 1);
                match asked.await {
                    Ok(_) => decided.fetch_add(1, Relaxed),
                    Err(error) => {
                        errors.push(error);
                        // A caller without a fallback does not ask again at once.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        0
                    }
                };
            }
            errors
        }));
    }

    pub fn decided(&self) -> u64 {
        self.decided.load(Relaxed)
    }

    /// Waits until some more were decided.
    pub async fn goes_on(&self) {
        let before = self.decided();
        let begin = Instant::now();
        while self.decided() < before + 100 {
            assert!(begin.elapsed() < Duration::from_secs(20), "nothing is decided any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How many were decided, and what errors there were.
    pub async fn stop(self) -> (u64, Vec<RedisError>) {
        self.stop.store(true, Relaxed);
        let mut errors = Vec::new();
        for task in self.tasks {
            errors.extend(task.await.unwrap());
        }
        (self.decided.load(Relaxed), errors)
    }
}
