//! Real servers on real sockets: what clones of a layer share.

use std::net::SocketAddr;

use axum::{Router, extract::ConnectInfo, routing::get};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use peerlimit::{
    Limiter, Quota,
    http::{Limits, RateLimitLayer, key},
};
use tokio::{net::TcpListener, task::JoinSet};
use tonic::transport::{Endpoint, Server, server::TcpConnectInfo};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const CONNECTIONS: usize = 50;
const REQUESTS: usize = 20;
const LIMIT: u64 = 100;

/// One that gives nothing back while a test runs.
fn limiter() -> Limiter {
    Limiter::local(Quota::per_day(LIMIT))
}

fn layer() -> RateLimitLayer<impl Limits<Limiter = Limiter>> {
    RateLimitLayer::new(limiter(), key::peer_addr_from(|ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip()))
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("bound");
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    addr
}

/// How many of [`CONNECTIONS`] times [`REQUESTS`] requests passed. Each connection has a client of its own.
async fn passed(addr: SocketAddr, paths: &'static [&'static str]) -> u64 {
    let mut connections = JoinSet::new();
    for connection in 0..CONNECTIONS {
        connections.spawn(async move {
            let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build_http();
            let mut passed = 0;
            for number in 0..REQUESTS {
                let path = paths[(connection + number) % paths.len()];
                let request = Request::get(format!("http://{addr}{path}")).body(Empty::<Bytes>::new()).unwrap();
                match client.request(request).await.expect("a response").status() {
                    StatusCode::OK => passed += 1,
                    status => assert_eq!(status, StatusCode::TOO_MANY_REQUESTS),
                }
            }
            passed
        });
    }
    connections.join_all().await.into_iter().sum()
}

async fn hello() -> &'static str {
    "hello"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_share_one_limit_through_layer() {
    let router = Router::new().route("/a", get(hello)).route("/b", get(hello)).layer(layer());
    assert_eq!(passed(serve(router).await, &["/a", "/b"]).await, LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_share_one_limit_through_route_layer() {
    let router = Router::new().route("/a", get(hello)).route("/b", get(hello)).route_layer(layer());
    assert_eq!(passed(serve(router).await, &["/a", "/b"]).await, LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_share_one_limit_through_nested_routers() {
    let layer = layer();
    let inner = Router::new().route("/a", get(hello)).layer(layer.clone());
    let deeper = Router::new().nest("/deeper", Router::new().route("/b", get(hello)).route_layer(layer.clone()));
    let router = Router::new()
        .nest("/one", inner)
        .nest("/two", deeper)
        .merge(Router::new().route("/c", get(hello)).layer(layer.clone()))
        .route("/d", get(hello).layer(layer));
    assert_eq!(passed(serve(router).await, &["/one/a", "/two/deeper/b", "/c", "/d"]).await, LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_share_one_limit_through_tonic() {
    let by_address = key::peer_addr_from(|info: &TcpConnectInfo| info.remote_addr().map(|addr| addr.ip()));
    let layer = RateLimitLayer::new(limiter(), by_address);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).expect("a port");
    let addr = incoming.local_addr().expect("bound");
    tokio::spawn(Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming));
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        connections.spawn(async move {
            let channel = Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.expect("connects");
            let mut client = HealthClient::new(channel);
            let mut passed = 0;
            for _ in 0..REQUESTS {
                match client.check(HealthCheckRequest { service: String::new() }).await {
                    Ok(response) => {
                        assert!(response.metadata().contains_key("ratelimit"));
                        passed += 1;
                    }
                    Err(status) => {
                        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
                        assert!(status.metadata().contains_key("grpc-retry-pushback-ms"), "{status:?}");
                        let details =
                            tonic_types::StatusExt::get_details_retry_info(&status).expect("how long to wait");
                        assert!(details.retry_delay.is_some_and(|delay| !delay.is_zero()));
                    }
                }
            }
            passed
        });
    }
    assert_eq!(connections.join_all().await.into_iter().sum::<u64>(), LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_keep_their_type_share_the_limit_too() {
    let layer = layer().keep_body();
    let router = Router::new().route("/a", get(hello)).route_layer(layer.clone()).route("/b", get(hello).layer(layer));
    assert_eq!(passed(serve(router).await, &["/a", "/b"]).await, LIMIT);
}

#[tokio::test]
async fn behind_a_proxy_clients_are_told_apart_and_a_spoofed_header_gets_nobody_a_bucket() {
    let proxies = key::TrustedProxies::networks(["127.0.0.0/8"]).expect("a network");
    let by_client = key::peer_addr_from(|ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip())
        .behind(proxies, key::ForwardedHeader::Forwarded);
    let layer = RateLimitLayer::new(Limiter::local(Quota::per_day(2)), by_client);
    let addr = serve(Router::new().route("/", get(hello)).layer(layer)).await;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut statuses = Vec::new();
    for (spoofed, from) in [("1.1.1.1", 1), ("\"[::1", 1), ("2.2.2.2;by=\"", 1), ("1.1.1.1", 2), ("_x", 1)] {
        let request = Request::get(format!("http://{addr}/"))
            .header("x-forwarded-for", spoofed)
            .header("forwarded", format!("for={spoofed}, for=192.0.2.{from}"))
            .body(Empty::<Bytes>::new());
        statuses.push(client.request(request.unwrap()).await.expect("a response").status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 200, 429]);
}

#[tokio::test]
async fn without_connect_info_the_server_says_that_it_cannot_tell_clients_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("bound");
    let router = Router::new().route("/", get(hello)).layer(layer());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::get(format!("http://{addr}/")).body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(client.request(request).await.expect("a response").status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_client_limits_itself() {
    let addr = serve(Router::new().route("/", get(hello))).await;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let by_host = key::from_fn(|head, key| {
        key.write(head.uri().authority().map_or("", |authority| authority.as_str()));
        Ok(())
    });
    let limited = tower::Layer::layer(&RateLimitLayer::new(Limiter::local(Quota::per_day(1)), by_host), client);
    for status in [200, 429] {
        let request = Request::get(format!("http://{addr}/")).body(Empty::<Bytes>::new()).unwrap();
        let response = tower::ServiceExt::oneshot(limited.clone(), request).await.expect("a response");
        assert_eq!(response.status(), status);
        let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
        assert!(!body.is_empty());
    }
}
