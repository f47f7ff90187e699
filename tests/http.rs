//! The middleware: what it does with requests, in front of services of this test and of real servers.

#![allow(unreachable_pub, reason = "modules of a test are private by nature")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "http/allocations.rs"]
mod allocations;
#[path = "http/answers.rs"]
mod answers;
#[path = "http/by_response.rs"]
mod by_response;
#[path = "http/cors.rs"]
mod cors;
#[path = "http/examples.rs"]
mod examples;
#[path = "http/fields.rs"]
mod fields;
#[path = "http/migration.rs"]
mod migration;
#[path = "http/servers.rs"]
mod servers;
#[path = "http/several.rs"]
mod several;
#[path = "http/stores.rs"]
mod stores;
#[path = "http/support/mod.rs"]
mod support;
