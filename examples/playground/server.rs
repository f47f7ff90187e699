//! Serves the page, tells it how things are, and takes its commands.
//!
//! Any page that a browser has open can send requests to loopback. So the name that was asked for has to be one of
//! loopback, which a name that was rebound is not; and a command has to be declared as JSON, which a browser lets no
//! foreign page do.

use std::convert::Infallible;

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{Next, from_fn},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::{get, post},
};
use serde_json::json;
use tokio_stream::{Stream, StreamExt, wrappers::WatchStream};

use crate::{command::Command, show::Remote};

/// Longest body of a command.
const MOST_BODY: usize = 1024;
/// The page may use its own files, and nothing of anybody else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files of the page: path, type, text.
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("page/charts.js")),
    ("/frame.js", "text/javascript; charset=utf-8", include_str!("page/frame.js")),
    ("/history.js", "text/javascript; charset=utf-8", include_str!("page/history.js")),
    ("/slider.js", "text/javascript; charset=utf-8", include_str!("page/slider.js")),
];

pub(crate) fn router(remote: Remote) -> Router {
    let mut router = Router::new();
    for (path, kind, text) in FILES {
        let headers = [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        router = router.route(path, get(move || async move { (headers, text) }));
    }
    router
        .route("/states", get(states))
        .route("/command", post(command).layer(DefaultBodyLimit::max(MOST_BODY)))
        .layer(from_fn(only_loopback))
        .with_state(remote)
}

async fn only_loopback(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Uri>().ok());
    match host.as_ref().and_then(Uri::host) {
        Some("127.0.0.1" | "localhost") => next.run(request).await,
        _ => (StatusCode::MISDIRECTED_REQUEST, "ask for 127.0.0.1 or localhost\n").into_response(),
    }
}

async fn states(State(remote): State<Remote>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (history, latest) = remote.states();
    let past = tokio_stream::iter(history).map(|state| Event::default().event("past").data(state));
    let new = WatchStream::from_changes(latest).map(|state| Event::default().data(state));
    Sse::new(past.chain(new).map(Ok))
}

async fn command(State(remote): State<Remote>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a command is application/json");
    }
    let command: Command = match serde_json::from_slice(&body) {
        Ok(command) => command,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match remote.ask(command).await {
        Some(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Some(Err(refused)) => refusal(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "the playground is closing"),
    }
}

fn refusal(status: StatusCode, reason: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (status, headers, json!({ "error": reason }).to_string()).into_response()
}
