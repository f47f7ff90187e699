use std::time::Duration;

use http::{Request, header::CONTENT_TYPE};
use tonic_types::StatusExt as _;

use super::*;

fn refused(retry_after: Option<Duration>) -> Refusal<'static> {
    Refusal::limited(Some(Decision::refuse(10, 0, Duration::from_secs(60), retry_after).by("users")))
}

fn answer(refusal: &Refusal<'_>, content_type: Option<&str>) -> Response<Bytes> {
    let mut request = Request::post("/");
    if let Some(content_type) = content_type {
        request = request.header(CONTENT_TYPE, content_type);
    }
    let mut response = refusal.response(&RequestHead::of(&request.body(()).expect("a request")));
    refusal.retry_after(response.headers_mut());
    response
}

fn json(response: &Response<Bytes>) -> serde_json::Value {
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    serde_json::from_slice(response.body()).expect("JSON")
}

#[test]
fn retry_after_is_rounded_up_to_whole_seconds() {
    for (millis, seconds) in [(1, "1"), (999, "1"), (1_000, "1"), (1_001, "2"), (59_000, "59")] {
        let response = answer(&refused(Some(Duration::from_millis(millis))), None);
        assert_eq!(response.headers()[RETRY_AFTER], seconds, "{millis} ms");
    }
    let nanosecond = answer(&refused(Some(Duration::from_nanos(1))), None);
    assert_eq!(nanosecond.headers()[RETRY_AFTER], "1");
    let never = answer(&refused(None), None);
    assert!(!never.headers().contains_key(RETRY_AFTER), "waiting does not help");
}

#[test]
fn a_used_up_limit_is_a_problem_that_names_its_policy() {
    let response = answer(&refused(Some(Duration::from_millis(1_500))), Some("application/json"));
    assert_eq!(response.status(), 429);
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "detail": "Try again in 2 s.",
        "violated-policies": ["users"],
    });
    assert_eq!(json(&response), expected);
}

#[test]
fn a_name_with_quotes_does_not_break_the_problem() {
    let decision = Decision::refuse(1, 0, Duration::ZERO, None).by("a\"b\\\n");
    let problem = json(&answer(&Refusal::limited(Some(decision)), None));
    assert_eq!(problem["violated-policies"][0], "a\"b\\_");
}

#[test]
fn a_missing_key_says_whose_fault_it_is() {
    let wiring = answer(&Refusal::no_key(&KeyError::NoPeerAddr), None);
    assert_eq!(wiring.status(), 500);
    assert_eq!(json(&wiring)["detail"], "The server cannot tell its clients apart.");
    let token = answer(&Refusal::no_key(&KeyError::NoToken), None);
    assert_eq!((token.status().as_u16(), &token.headers()["www-authenticate"]), (401, &"Bearer".parse().unwrap()));
    let header = answer(&Refusal::no_key(&KeyError::NoHeader("x-api-key".parse().unwrap())), None);
    assert_eq!(header.status(), 400);
    assert_eq!(json(&header)["detail"], "This request cannot be counted: the header field `x-api-key` is missing.");
}

/// What a gRPC client makes of a refusal.
fn status(response: &Response<Bytes>) -> tonic::Status {
    assert_eq!(response.status(), 200);
    assert!(response.body().is_empty());
    tonic::Status::from_header_map(response.headers()).expect("a gRPC status")
}

#[test]
fn a_grpc_client_decodes_how_long_to_wait() {
    let response = answer(&refused(Some(Duration::new(1, 500_000_001))), Some("application/grpc+proto"));
    assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc+proto");
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1501");
    let status = status(&response);
    assert_eq!((status.code(), status.message()), (tonic::Code::ResourceExhausted, "Try again in 2 s."));
    let details = status.check_error_details().expect("details decode");
    let delay = details.retry_info().and_then(|info| info.retry_delay);
    assert_eq!(delay, Some(Duration::new(1, 500_000_001)));
}

#[test]
fn a_grpc_client_is_told_not_to_try_again_where_waiting_does_not_help() {
    let response = answer(&refused(None), Some("application/grpc"));
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
    assert_eq!(status(&response).code(), tonic::Code::ResourceExhausted);
}

#[test]
fn other_refusals_have_their_own_grpc_status() {
    let other = |status| KeyError::Other { status, reason: "a 100 % reason\n" };
    for (error, code) in [
        (KeyError::NoPeerAddr, tonic::Code::Internal),
        (KeyError::NoToken, tonic::Code::Unauthenticated),
        (KeyError::NoHeader("x".parse().unwrap()), tonic::Code::InvalidArgument),
        (other(StatusCode::FORBIDDEN), tonic::Code::PermissionDenied),
    ] {
        let status = status(&answer(&Refusal::no_key(&error), Some("application/grpc")));
        assert_eq!(status.code(), code, "{error}");
        if let KeyError::Other { reason, .. } = &error {
            assert!(status.message().contains(reason), "{status:?}");
        }
    }
    let down = std::io::Error::other("connection refused by 10.0.0.1");
    let status = status(&answer(&Refusal::unavailable(&down), Some("application/grpc")));
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(!status.message().contains("10.0.0.1"));
}

#[test]
fn only_grpc_is_grpc() {
    for (content_type, is_grpc) in [
        ("application/grpc", true),
        ("application/grpc+json", true),
        ("Application/GRPC;charset=x", true),
        ("application/grpc-web+proto", true),
        ("application/grpcurl", false),
        ("application/json", false),
        ("application/grp", false),
    ] {
        let response = answer(&refused(None), Some(content_type));
        assert_eq!(response.status() == 200, is_grpc, "{content_type}");
    }
}

#[test]
fn all_durations_survive_the_encoding() {
    for wait in [Duration::from_nanos(1), Duration::from_secs(300), Duration::new(315_360_000, 999_999_999)] {
        let status = status(&answer(&refused(Some(wait)), Some("application/grpc")));
        let details = status.check_error_details().expect("details decode");
        assert_eq!(details.retry_info().and_then(|info| info.retry_delay), Some(wait));
    }
}
