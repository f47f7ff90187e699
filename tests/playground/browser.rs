//! A headless Chromium, driven over the W3C protocol for that.

use serde_json::{Value, json};

use super::{driver::Driver, http::Http};

/// By this an element is named in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys that have no character, as the protocol writes them.
pub(crate) mod key {
    pub(crate) const TAB: &str = "\u{e004}";
    pub(crate) const SHIFT: &str = "\u{e008}";
    pub(crate) const RIGHT: &str = "\u{e014}";
    pub(crate) const DOWN: &str = "\u{e015}";
    pub(crate) const UP: &str = "\u{e013}";
    pub(crate) const HOME: &str = "\u{e011}";
    pub(crate) const SPACE: &str = " ";
}

/// One window of one browser.
#[derive(Debug)]
pub(crate) struct Browser {
    http: Http,
    session: String,
    _driver: Driver,
}

impl Browser {
    pub(crate) async fn open() -> Self {
        let driver = Driver::start();
        let http = Http::new(&driver.addr);
        // There is no sandbox for root, which tests in containers often are; the one page opened is ours.
        // Charts that glide are for those who look, and take a whole processor here.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--window-size=1280,900",
            "--force-prefers-reduced-motion",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let (status, answer) = http.json("POST", "/session", &wanted).await;
        assert!(status.is_success(), "no session: {answer}");
        let session = answer["value"]["sessionId"].as_str().unwrap().to_owned();
        Self { http, session, _driver: driver }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        let (status, mut answer) = self.http.json(method, &path, &body).await;
        assert!(status.is_success(), "{method} {path} {body}: {answer}");
        answer["value"].take()
    }

    pub(crate) async fn go(&self, url: &str) {
        self.ask("POST", "/url", json!({ "url": url })).await;
    }

    /// What a function body returns in the page.
    pub(crate) async fn run(&self, script: &str, args: Value) -> Value {
        self.ask("POST", "/execute/sync", json!({ "script": script, "args": args })).await
    }

    async fn find(&self, selector: &str) -> String {
        let found = self.ask("POST", "/element", json!({ "using": "css selector", "value": selector })).await;
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Clicks as a pointer does: it fails where something else lies over the element.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.ask("POST", &format!("/element/{element}/click"), json!({})).await;
    }

    /// Presses keys one after the other, wherever the focus is.
    pub(crate) async fn press(&self, keys: &[&str]) {
        let strokes = keys.iter().flat_map(|key| [("keyDown", key), ("keyUp", key)]);
        self.key_actions(strokes.map(|(kind, key)| json!({ "type": kind, "value": key })).collect()).await;
    }

    /// Presses `key` while `held` is held.
    pub(crate) async fn press_with(&self, held: &str, key: &str) {
        let strokes = [("keyDown", held), ("keyDown", key), ("keyUp", key), ("keyUp", held)];
        self.key_actions(strokes.map(|(kind, key)| json!({ "type": kind, "value": key })).into()).await;
    }

    async fn key_actions(&self, actions: Vec<Value>) {
        let source = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.ask("POST", "/actions", json!({ "actions": [source] })).await;
    }

    /// A command of the browser's own protocol.
    pub(crate) async fn devtools(&self, command: &str, params: Value) -> Value {
        self.ask("POST", "/goog/cdp/execute", json!({ "cmd": command, "params": params })).await
    }

    /// What the browser complained of since the last time.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", json!({ "type": "browser" })).await;
        let lines = log.as_array().unwrap().iter();
        let bad = lines.filter(|line| matches!(line["level"].as_str(), Some("WARNING" | "SEVERE")));
        bad.map(|line| line["message"].to_string()).collect()
    }
}
