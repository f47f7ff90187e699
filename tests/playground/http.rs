//! The least of an HTTP client.

use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

/// Sends requests to one address.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client<HttpConnector, Full<axum::body::Bytes>>,
    base: String,
}

impl Http {
    pub(crate) fn new(addr: &str) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), base: format!("http://{addr}") }
    }

    /// The status, and the body as text.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.client.request(request.body(Full::from(body)).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Sends JSON; the answer may be no JSON, and is null then.
    pub(crate) async fn json(&self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.send(method, path, &[("content-type", "application/json")], body).await;
        (status, serde_json::from_str(&text).unwrap_or_default())
    }
}
