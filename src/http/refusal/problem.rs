//! Problem details, RFC 9457.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, WWW_AUTHENTICATE},
};

use super::Refusal;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const QUOTA_EXCEEDED_TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";
/// The problem is what the status says: RFC 9457, section 4.2.1.
const BLANK: &str = "about:blank";

pub(super) fn response(refusal: &Refusal<'_>) -> Response<Bytes> {
    let status = refusal.status();
    let mut response = Response::new(Bytes::from(body(refusal, status)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    if status == StatusCode::UNAUTHORIZED {
        // RFC 9110, section 15.5.2: a 401 says how to authenticate.
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn body(refusal: &Refusal<'_>, status: StatusCode) -> String {
    let (kind, title) = match refusal {
        Refusal::Limited { .. } => (QUOTA_EXCEEDED, QUOTA_EXCEEDED_TITLE),
        _ => (BLANK, status.canonical_reason().unwrap_or("Refused")),
    };
    let mut json = format!(r#"{{"type":"{kind}","title":"{title}","status":{},"detail":"#, status.as_u16());
    push_string(&mut json, &refusal.detail().to_string());
    if let Some(policy) = refusal.policy() {
        json.push_str(r#","violated-policies":["#);
        push_string(&mut json, &policy);
        json.push(']');
    }
    json.push('}');
    json
}

/// A string with its quotes: RFC 8259, section 7.
fn push_string(json: &mut String, text: &str) {
    json.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => json.extend(['\\', char]),
            '\0'..='\x1f' => {
                let _infallible = write!(json, "\\u{:04x}", u32::from(char));
            }
            _ => json.push(char),
        }
    }
    json.push('"');
}
