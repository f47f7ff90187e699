//! gRPC: a response that is over with its headers, "Trailers-Only" in its protocol.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::Refusal;
use crate::http::head::RequestHead;

const GRPC: &[u8] = b"application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// gRFC A6: after how many milliseconds to try again; not at all where it is negative.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Status codes of gRPC.
const UNKNOWN: u8 = 2;
const INVALID_ARGUMENT: u8 = 3;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const INTERNAL: u8 = 13;
const UNAVAILABLE: u8 = 14;
const UNAUTHENTICATED: u8 = 16;

/// The content type of a gRPC request: `application/grpc`, with what follows (`+proto`, `-web`).
pub(super) fn content_type<'a>(head: &RequestHead<'a>) -> Option<&'a HeaderValue> {
    let value = head.headers().get(CONTENT_TYPE)?;
    let (kind, rest) = value.as_bytes().split_at_checked(GRPC.len())?;
    let is_end = rest.first().is_none_or(|next| b"+-; ".contains(next));
    (kind.eq_ignore_ascii_case(GRPC) && is_end).then_some(value)
}

pub(super) fn response(refusal: &Refusal<'_>, content_type: HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    let (code, message) = (code(refusal), refusal.detail().to_string());
    headers.insert(STATUS, HeaderValue::from(u16::from(code)));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&message)) {
        headers.insert(MESSAGE, message);
    }
    if let Some(decision) = refusal.decision() {
        let pushback = decision.retry_after.map(|wait| wait.as_nanos().div_ceil(1_000_000));
        let pushback = pushback.map_or(-1, |millis| i64::try_from(millis).unwrap_or(i64::MAX));
        headers.insert(PUSHBACK, HeaderValue::from(pushback));
        let details = decision.retry_after.map(|wait| STANDARD_NO_PAD.encode(status_with_retry(code, &message, wait)));
        if let Some(Ok(details)) = details.map(HeaderValue::try_from) {
            headers.insert(DETAILS, details);
        }
    }
    response
}

fn code(refusal: &Refusal<'_>) -> u8 {
    match refusal {
        Refusal::Limited { .. } => RESOURCE_EXHAUSTED,
        Refusal::Unavailable { .. } => UNAVAILABLE,
        Refusal::NoKey { error } => match error.status() {
            StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
            StatusCode::FORBIDDEN => PERMISSION_DENIED,
            status if status.is_client_error() => INVALID_ARGUMENT,
            status if status.is_server_error() => INTERNAL,
            _ => UNKNOWN,
        },
    }
}

/// As `grpc-message` is encoded: all but visible ASCII characters, spaces, and without `%`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A `google.rpc.Status` with one detail, a `google.rpc.RetryInfo`.
///
/// The four messages are written by hand: their fields and their wire format do not change, and a generator would be a
/// dependency larger than this layer.
fn status_with_retry(code: u8, message: &str, wait: Duration) -> Vec<u8> {
    let mut delay = Vec::new();
    // google.protobuf.Duration { int64 seconds = 1; int32 nanos = 2; }
    number(&mut delay, 1, wait.as_secs());
    number(&mut delay, 2, wait.subsec_nanos().into());
    // google.rpc.RetryInfo { google.protobuf.Duration retry_delay = 1; }
    let mut retry = Vec::new();
    bytes(&mut retry, 1, &delay);
    // google.protobuf.Any { string type_url = 1; bytes value = 2; }
    let mut any = Vec::new();
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &retry);
    // google.rpc.Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
    let mut status = Vec::new();
    number(&mut status, 1, code.into());
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// A field of type varint. Zero is what a field is that is not there.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A field with a length.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
