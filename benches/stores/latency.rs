//! How long one decision takes by each kind of limiter, when nothing else is asked: the table of the README.

use std::time::Instant;

use peerlimit::{Limiter, Quota, RateLimiter};
use tokio::runtime::Runtime;

use crate::{
    load,
    redis::{Subject, pass},
    support::{histogram::Histogram, options::Options},
};

const QUOTA: Quota = Quota::per_second(100_000).burst(1_000_000);

pub fn run(options: &Options, runtime: &Runtime, redis: &Subject) {
    if !options.wants("latency") {
        return;
    }
    let requests = options.size(50_000, 5_000);
    let gossip = runtime.block_on(Limiter::builder(QUOTA).bind("127.0.0.1:0".parse().unwrap()).start()).unwrap();
    println!("latency of a decision, one at a time: median, 99th percentile");
    row(runtime, "gossip", &gossip, requests);
    row(runtime, "local", &Limiter::local(QUOTA), requests);
    row(runtime, "Redis log", &redis.log, requests);
    row(runtime, "Redis bucket", &redis.bucket, requests);
}

fn row<R: RateLimiter>(runtime: &Runtime, name: &str, limiter: &R, requests: usize) {
    let keys = load::keys();
    let mut took = Histogram::new();
    runtime.block_on(async {
        for index in 0..requests + load::KEYS {
            let begin = Instant::now();
            pass(limiter, &keys[index % load::KEYS]).await;
            // Not of a key's first request.
            if index >= load::KEYS {
                took.add(begin.elapsed());
            }
        }
    });
    println!("  {name:14} {:>9.2} us {:>9.2} us", took.percentile(0.5) / 1e3, took.percentile(0.99) / 1e3);
}
