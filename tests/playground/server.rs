//! The server behind the page: its bounds, and its end. No browser is needed.

use axum::http::StatusCode;
use serde_json::json;

use super::{http::Http, process::Playground};

#[tokio::test]
async fn what_is_out_of_bounds_is_refused_by_name_and_bound() {
    let playground = Playground::start(&["--nodes", "11"]).await;
    let http = Http::new(&playground.addr);
    for (command, said) in [
        (json!({ "do": "load", "node": null, "rate": 2001 }), "rate is 2001, must be at most 2000"),
        (json!({ "do": "load", "node": 12, "rate": 1 }), "node is 12, must be from 1 to 11"),
        (json!({ "do": "loss", "percent": 101 }), "percent is 101, must be at most 100"),
        (json!({ "do": "kill", "node": 0 }), "node is 0, must be from 1 to 11"),
        (json!({ "do": "restart", "node": 1 }), "node 1 is up"),
    ] {
        let (status, answer) = http.json("POST", "/command", &command).await;
        assert_eq!((status, answer), (StatusCode::UNPROCESSABLE_ENTITY, json!({ "error": said })), "{command}");
    }
    for command in [json!({ "do": "dance" }), json!({ "do": "cut" }), json!({ "do": "add", "more": 1 }), json!([])] {
        let (status, answer) = http.json("POST", "/command", &command).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{command}: {answer}");
        assert!(answer["error"].is_string(), "{command}: {answer}");
    }
    let long = json!({ "do": "a".repeat(2000) });
    assert_eq!(http.json("POST", "/command", &long).await.0, StatusCode::PAYLOAD_TOO_LARGE);

    // The twelfth is the last.
    assert_eq!(http.json("POST", "/command", &json!({ "do": "add" })).await.0, StatusCode::NO_CONTENT);
    let (status, answer) = http.json("POST", "/command", &json!({ "do": "add" })).await;
    let said = json!({ "error": "there are 12 nodes, which is the most" });
    assert_eq!((status, answer), (StatusCode::UNPROCESSABLE_ENTITY, said));
    assert_eq!(http.json("POST", "/command", &json!({ "do": "kill", "node": 12 })).await.0, StatusCode::NO_CONTENT);
    let (_, answer) = http.json("POST", "/command", &json!({ "do": "kill", "node": 12 })).await;
    assert_eq!(answer, json!({ "error": "node 12 is down" }));
}

#[tokio::test]
async fn pages_of_others_can_ask_for_nothing() {
    let playground = Playground::start(&["--nodes", "1"]).await;
    let http = Http::new(&playground.addr);
    let cut = || json!({ "do": "cut", "on": true }).to_string();
    // What a browser sends for a foreign page without asking first.
    let (status, _) = http.send("POST", "/command", &[("content-type", "text/plain")], cut()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    // What it asks first.
    let (status, _) =
        http.send("OPTIONS", "/command", &[("access-control-request-method", "POST")], String::new()).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    // A foreign name that leads to loopback.
    let foreign = [("host", "rebound.example"), ("content-type", "application/json")];
    assert_eq!(http.send("POST", "/command", &foreign, cut()).await.0, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(http.send("GET", "/", &foreign, String::new()).await.0, StatusCode::MISDIRECTED_REQUEST);
    let own = [("host", "localhost:1")];
    assert_eq!(http.send("GET", "/", &own, String::new()).await.0, StatusCode::OK);
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_closes_the_nodes_and_ends_it_well() {
    for signal in ["INT", "TERM"] {
        let mut playground = Playground::start(&["--nodes", "3"]).await;
        let http = Http::new(&playground.addr);
        assert_eq!(http.send("GET", "/", &[], String::new()).await.0, StatusCode::OK);
        // While a page is open.
        let open = tokio::net::TcpStream::connect(&playground.addr).await.unwrap();
        open.writable().await.unwrap();
        open.try_write(b"GET /states HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        open.readable().await.unwrap();
        playground.signal(signal);
        let status = playground.wait().await;
        assert!(status.success(), "{signal}: {status}");
    }
}
