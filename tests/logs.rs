//! What nodes log. One test, as a process has one log.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/log.rs"]
mod log;
#[path = "support/patience.rs"]
mod patience;

use log::Log;
use patience::eventually;
use peerlimit::{Limiter, Quota, StaticDiscoverer};

#[tokio::test]
async fn a_log_tells_nodes_and_exchanges_apart_and_says_nothing_of_decisions() {
    let log = Log::default();
    let writer = log.clone();
    let format = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
    // For all threads: what a subscriber of one thread sees depends on what others saw first.
    tracing::subscriber::set_global_default(format.with_writer(move || writer.clone()).finish()).unwrap();
    let builder = |name: &str| Limiter::builder(Quota::per_second(1)).node(name).bind("127.0.0.1:0".parse().unwrap());
    let one = builder("node-one").start().await.unwrap();
    let seed = one.local_addr().unwrap().to_string();
    let two = builder("node-two").discover(StaticDiscoverer::new([seed])).start().await.unwrap();
    eventually("an exchange ended", || {
        let text = log.text();
        let ended = |line: &str| line.contains("sync{opened_here=") && line.contains("exchange ended well=true");
        ["node=\"node-one\"", "node=\"node-two\""].iter().all(|node| {
            let of_node = || text.lines().filter(|line| line.contains(node));
            of_node().any(ended) && of_node().any(|line| line.contains("member up"))
        })
    })
    .await;
    let lines_of = |log: &Log| log.text().lines().filter(|line| line.contains("peerlimit::limiter")).count();
    let before = lines_of(&log);
    for _ in 0..100 {
        let _ = (one.check("secret-key"), two.peek("secret-key"));
    }
    assert_eq!(lines_of(&log), before, "decisions are not logged");
    assert!(!log.text().contains("secret-key"));
}
