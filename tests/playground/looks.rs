//! How the page looks: on a phone and on a desk, in light and in dark.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{driver::is_installed, page::Page};

/// Everything that sticks out of the window, and charts on which nothing is drawn.
const FAULTS: &str = "
    const faults = [];
    const width = document.documentElement.clientWidth;
    const whole = document.documentElement.scrollWidth;
    if (whole > width) faults.push(`the page is ${whole} wide`);
    for (const element of document.querySelectorAll('body *')) {
        if (element.closest('.unseen, thead, template')) continue;
        const { left, right } = element.getBoundingClientRect();
        const name = `${element.tagName} ${element.id || element.className}`;
        if (right > width + 0.5 || left < -0.5) faults.push(`${name} from ${left} to ${right}`);
    }
    for (const canvas of document.querySelectorAll('canvas')) {
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
        const colors = new Set();
        for (let at = 0; at < data.length; at += 404) colors.add(data.slice(at, at + 4).join());
        if (colors.size < 3) faults.push(`${canvas.id} is empty`);
    }
    return faults;
";

/// Texts whose contrast with what is behind them is below 4.5 to 1 (WCAG 2.2, 1.4.3).
const FAINT: &str = "
    const probe = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgb = (...colors) => {
        for (const color of colors) { probe.fillStyle = color; probe.fillRect(0, 0, 1, 1); }
        return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const luminance = (color) => {
        const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = color.map((value) => linear(value / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => getComputedStyle(element).backgroundColor;
    const behind = (element) => (element ? [...behind(element.parentElement), ground(element)] : []);
    const faint = [];
    for (const element of document.querySelectorAll('body *')) {
        const isText = (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim();
        const speaks = [...element.childNodes].some(isText);
        if (!speaks || element.closest('.unseen, .news, noscript, template, [aria-disabled=true]')) continue;
        const under = behind(element);
        const [one, other] = [rgb(...under, getComputedStyle(element).color), rgb(...under)].map(luminance);
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < 4.5) faint.push(`${element.tagName} ${element.id || element.className}: ${contrast.toFixed(2)}`);
    }
    return faint;
";

impl Page {
    async fn prefer(&self, scheme: &str, motion: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    async fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 600 });
        self.browser.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Keeps a picture of the whole page, for people. Returns its width in pixels.
    async fn picture(&self, name: &str) -> u32 {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.browser.devtools("Page.captureScreenshot", params).await;
        let png = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("playground-{name}.png")), &png).unwrap();
        // Signature, length and name of the first chunk, then the width.
        u32::from_be_bytes(png[16..20].try_into().unwrap())
    }

    /// What a script lists, once screens have followed what was asked for.
    async fn list(&self, script: &str) -> Vec<Value> {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        self.browser.run(script, json!([])).await.as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn it_fits_phones_and_desks_in_light_and_dark() {
    if !is_installed() {
        return;
    }
    // As crowded as it gets.
    let page = Page::open(&["--nodes", "12"]).await;
    page.settles("#sum", 80.0, 120.0).await;
    page.browser.click("#rows tr:nth-child(2) button").await;
    page.browser.click("#cut").await;
    page.says("#cut", "that it heals", |text| text == "Heal the network").await;

    let mut grounds = Vec::new();
    for (scheme, motion) in [("light", "no-preference"), ("dark", "reduce")] {
        page.prefer(scheme, motion).await;
        for (width, height) in [(360, 740), (800, 1000), (1280, 900)] {
            page.resize(width, height).await;
            let faults = page.list(FAULTS).await;
            assert!(faults.is_empty(), "{scheme} at {width}: {faults:#?}");
            let pixels = page.picture(&format!("{scheme}-{width}")).await;
            assert!(
                pixels <= 2 * width,
                "{scheme} at {width}: the picture is {pixels} pixels wide, at two a pixel of the page"
            );
        }
        let faint = page.list(FAINT).await;
        assert!(faint.is_empty(), "{scheme}: {faint:#?}");
        grounds.push(page.browser.run("return getComputedStyle(document.body).backgroundColor", json!([])).await);
    }
    assert_ne!(grounds[0], grounds[1], "dark is not light");
    page.has_no_complaints().await;
}
