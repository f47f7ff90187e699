//! The example `playground`, as people use it: its page in a headless Chromium.
//!
//! Needs `chromium` and `chromedriver`. Where they are missing, the tests of the page say `skipped: ...` and pass; with
//! `PEERLIMIT_REQUIRE_BROWSER=1` they fail. Screenshots stay in `target/tmp`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these processes live in real time, and what goes wrong here fails the test"
)]

#[path = "playground/browser.rs"]
mod browser;
#[path = "playground/driver.rs"]
mod driver;
#[path = "playground/http.rs"]
mod http;
#[path = "playground/keyboard.rs"]
mod keyboard;
#[path = "playground/looks.rs"]
mod looks;
#[path = "playground/numbers.rs"]
mod numbers;
#[path = "playground/page.rs"]
mod page;
#[path = "playground/process.rs"]
mod process;
#[path = "playground/server.rs"]
mod server;
