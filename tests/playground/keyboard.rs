//! The page without a pointer.

use std::collections::BTreeSet;

use serde_json::json;

use super::{browser::key, driver::is_installed, page::Page};

/// What has the focus, and whether one sees that.
const FOCUSED: &str = "
    const focused = document.activeElement;
    const shown = (element) => element && getComputedStyle(element).outlineStyle !== 'none';
    const name = focused.id || focused.value || focused.getAttribute('aria-label');
    return [name, shown(focused) || shown(focused.closest('label'))];
";

impl Page {
    async fn focused(&self) -> String {
        let focused = self.browser.run(FOCUSED, json!([])).await;
        let name = focused[0].as_str().unwrap_or_default().to_owned();
        assert!(name.is_empty() || focused[1] == true, "{name} has the focus, and nothing shows it");
        name
    }

    /// Goes on by the tabulator until `name` has the focus.
    async fn tab_to(&self, name: &str) {
        let mut passed = Vec::new();
        while passed.last().is_none_or(|last| last != name) {
            assert!(passed.len() < 60, "{name} is not to be reached; passed {passed:?}");
            self.browser.press(&[key::TAB]).await;
            passed.push(self.focused().await);
        }
    }
}

#[tokio::test]
async fn everything_works_by_the_keyboard_alone() {
    if !is_installed() {
        return;
    }
    let page = Page::open(&["--nodes", "3"]).await;
    page.settles("#sum", 85.0, 115.0).await;

    // Once around.
    let mut reached = BTreeSet::new();
    for _ in 0..12 {
        page.browser.press(&[key::TAB]).await;
        reached.insert(page.focused().await);
    }
    for name in ["shared", "cut", "loss", "load-all", "add", "load-1", "Kill node-1", "load-3", "Kill node-3"] {
        assert!(reached.contains(name), "{name} is not among {reached:?}");
    }

    page.browser.run("document.activeElement.blur()", json!([])).await;
    page.tab_to("shared").await;
    page.browser.press(&[key::DOWN]).await;
    page.settles("#sum", 270.0, 320.0).await;
    page.browser.press(&[key::UP]).await;
    page.settles("#sum", 85.0, 115.0).await;

    page.tab_to("cut").await;
    page.browser.press(&[key::SPACE]).await;
    page.says("#cut", "that it heals", |text| text == "Heal the network").await;
    page.browser.press(&[key::SPACE]).await;
    page.says("#cut", "that it cuts", |text| text == "Cut the network in two").await;

    page.tab_to("load-all").await;
    page.browser.press(&[key::HOME, key::RIGHT, key::RIGHT]).await;
    page.says("#load-all-value", "10 a second", |text| text == "10/s").await;
    // Below the quota nobody is refused.
    page.settles("#asked", 26.0, 34.0).await;
    page.settles("#sum", 26.0, 34.0).await;
    page.browser.press_with(key::SHIFT, key::TAB).await;
    assert_eq!(page.focused().await, "loss");

    page.tab_to("Kill node-2").await;
    page.browser.press(&[key::SPACE]).await;
    page.says("#rows tr:nth-child(2) button", "that it restarts", |text| text == "Restart").await;
    // The focus stays where it is, on what is the other button now.
    assert_eq!(page.focused().await, "Restart node-2");
    page.browser.press(&[key::SPACE]).await;
    page.says("#rows tr:nth-child(2) button", "that it kills", |text| text == "Kill").await;
    page.has_no_complaints().await;
}
