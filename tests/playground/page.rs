//! The page, by what stands on it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    browser::Browser,
    process::{DEADLINE, Playground},
};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Looks in a row that have to agree: more than a second, which is what a rate is taken over.
const STEADY: usize = 11;

/// A playground, and a browser that has its page open.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) browser: Browser,
    _playground: Playground,
}

impl Page {
    pub(crate) async fn open(args: &[&str]) -> Self {
        let playground = Playground::start(args).await;
        let browser = Browser::open().await;
        browser.go(&format!("http://{}/", playground.addr)).await;
        Self { browser, _playground: playground }
    }

    /// What stands there; nothing where there is no such element.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let text =
            self.browser.run("return document.querySelector(arguments[0])?.textContent", json!([selector])).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The number that stands there first, if any.
    async fn number(&self, selector: &str) -> Option<f64> {
        let text = self.text(selector).await;
        let digits = text.trim_start().split(|char: char| !char.is_ascii_digit() && char != '.').next();
        digits.and_then(|digits| digits.parse().ok())
    }

    /// Waits until the text satisfies the condition.
    pub(crate) async fn says(&self, selector: &str, what: &str, condition: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let text = self.text(selector).await;
            if condition(&text) {
                return;
            }
            assert!(begin.elapsed() < DEADLINE, "{selector} says {text:?} for {DEADLINE:?}, not {what}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the number stays in the range, bounds included.
    pub(crate) async fn settles(&self, selector: &str, least: f64, most: f64) {
        let begin = Instant::now();
        let mut seen = Vec::new();
        loop {
            seen.push(self.number(selector).await.unwrap_or(f64::NAN));
            let last = &seen[seen.len().saturating_sub(STEADY)..];
            if last.len() == STEADY && last.iter().all(|value| (least..=most).contains(value)) {
                return;
            }
            assert!(
                begin.elapsed() < DEADLINE,
                "{selector} does not settle in {least}..={most} within {DEADLINE:?}, last {last:?}"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Neither the page nor the browser found fault.
    pub(crate) async fn has_no_complaints(&self) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.is_empty(), "the console says: {complaints:#?}");
    }
}
