//! What the page says follows what is done.

use super::{driver::is_installed, page::Page};

/// Permits per second, of the quota that the playground has where nothing is said.
const QUOTA: f64 = 100.0;

#[tokio::test]
async fn the_sum_is_the_quota_and_follows_cuts_and_rules() {
    if !is_installed() {
        return;
    }
    let page = Page::open(&[]).await;
    page.settles("#sum", 0.85 * QUOTA, 1.15 * QUOTA).await;
    assert!(page.text("#story").await.starts_with("5 nodes admit together what one bucket would"));
    assert_eq!(page.text("#rows tr:nth-child(5) .sees .count").await, "5");

    page.browser.click("#cut").await;
    page.settles("#sum", 1.7 * QUOTA, 2.2 * QUOTA).await;
    page.says("#cut", "that it heals", |text| text == "Heal the network").await;
    // Each half counts its own.
    page.says("#rows tr:nth-child(1) .sees .count", "3", |text| text == "3").await;
    page.says("#rows tr:nth-child(5) .sees .count", "2", |text| text == "2").await;
    page.says("#verdict .ratio", "twice", |text| text.starts_with('2') || text.starts_with("1.9")).await;

    page.browser.click("#cut").await;
    page.settles("#sum", 0.85 * QUOTA, 1.15 * QUOTA).await;
    page.says("#rows tr:nth-child(5) .sees .count", "5", |text| text == "5").await;

    page.browser.click("label:has(input[value=alone])").await;
    page.settles("#sum", 4.5 * QUOTA, 5.3 * QUOTA).await;
    page.says("#story", "that each is for itself", |text| text.contains("up to 5 × the quota")).await;
    page.browser.click("label:has(input[value=shared])").await;
    page.settles("#sum", 0.85 * QUOTA, 1.15 * QUOTA).await;
    page.has_no_complaints().await;
}

#[tokio::test]
async fn the_page_follows_nodes_that_are_killed_restarted_and_added() {
    if !is_installed() {
        return;
    }
    let page = Page::open(&["--nodes", "3"]).await;
    page.says("#rows tr:nth-child(1) .sees .count", "3", |text| text == "3").await;

    page.browser.click("#rows tr:nth-child(3) button").await;
    page.says("#rows tr:nth-child(3) .level", "that it is down", |text| text.trim() == "down").await;
    page.says("#news", "that it was killed", |text| text.contains("ode-3 killed")).await;
    page.says("#rows tr:nth-child(1) .sees .count", "2", |text| text == "2").await;
    // The others take what it took.
    page.settles("#sum", 0.85 * QUOTA, 1.15 * QUOTA).await;

    page.browser.click("#rows tr:nth-child(3) button").await;
    page.says("#rows tr:nth-child(1) .sees .count", "3", |text| text == "3").await;
    page.browser.click("#add").await;
    page.says("#rows tr:nth-child(4) .sees .count", "4", |text| text == "4").await;
    page.says("#rows tr:nth-child(1) .sees .count", "4", |text| text == "4").await;
    page.settles("#asked", 560.0, 640.0).await;
    page.settles("#sum", 0.85 * QUOTA, 1.15 * QUOTA).await;
    page.has_no_complaints().await;
}

#[tokio::test]
async fn half_of_all_datagrams_may_be_lost() {
    if !is_installed() {
        return;
    }
    let page = Page::open(&["--nodes", "3"]).await;
    page.settles("#sum", 0.85 * QUOTA, 1.15 * QUOTA).await;
    let script =
        "const slider = document.querySelector('#loss'); slider.value = 10; slider.dispatchEvent(new Event('input'));";
    page.browser.run(script, serde_json::json!([])).await;
    page.says("#loss-value", "half", |text| text == "50 %").await;
    page.says("#datagrams-now", "that some are lost", |text| !text.contains(" 0 do not")).await;
    page.settles("#sum", 0.85 * QUOTA, 1.3 * QUOTA).await;
    page.has_no_complaints().await;
}
