//! What nodes log. One test, as a process has one log.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/patience.rs"]
mod patience;

use std::sync::{Arc, Mutex};

use patience::eventually;
use peerlimit::{Limiter, Quota, StaticDiscoverer};

/// What the process logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

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
