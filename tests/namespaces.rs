//! Clusters of processes over two hosts, which are network namespaces with a cable between them: cut both ways and one
//! way, flapping, and with losses; with processes that are stopped, and restarted.
//!
//! And clusters of pods, one a namespace, which find each other by a DNS server: deployed anew one by one, and with addresses of
//! either family and of both.
//!
//! `PEERLIMIT_STOP_SECONDS` says for how long a process is stopped, 6 where nothing is said, and
//! `PEERLIMIT_RESTART_ROUNDS` how often all of them restart, 5 where nothing is said.
//!
//! Needs root, `ip` and `iptables`. Where they are missing these tests say `skipped: ...` and pass; with
//! `PEERLIMIT_REQUIRE_NETNS=1` they fail.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these processes live in real time, and what goes wrong here fails the test"
)]

#[path = "namespaces/cluster.rs"]
mod cluster;
#[path = "namespaces/cuts.rs"]
mod cuts;
#[path = "namespaces/deploys.rs"]
mod deploys;
#[path = "support/dns_server.rs"]
mod dns_server;
#[path = "namespaces/families.rs"]
mod families;
#[path = "namespaces/host.rs"]
mod host;
#[path = "namespaces/losses.rs"]
mod losses;
#[path = "support/node_process.rs"]
mod node_process;
#[path = "namespaces/pods.rs"]
mod pods;
#[path = "namespaces/processes.rs"]
mod processes;
#[path = "namespaces/switch.rs"]
mod switch;
#[path = "namespaces/turn.rs"]
mod turn;

use node_process::eventually;
