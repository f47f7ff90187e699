//! Limits in front of a [`tower_service::Service`]: middleware for axum, hyper, tonic, and for clients.
//!
//! Needs the feature `tower`.
//!
//! ```
//! use axum::{Router, extract::ConnectInfo, routing::get};
//! use peerlimit::{Limiter, Quota, http::{RateLimitLayer, key}};
//! use std::net::SocketAddr;
//!
//! # fn app() -> Router {
//! let limiter = Limiter::local(Quota::per_second(100).burst(50));
//! let by_address = key::peer_addr_from(|ConnectInfo(addr): &ConnectInfo<SocketAddr>| addr.ip());
//! Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(limiter, by_address))
//! # }
//! ```
//!
//! # Guide
//!
//! - **What is counted.** A [`Limiter`](crate::Limiter), a [`Scope`](crate::Scope) or another
//!   [`RateLimiter`](crate::RateLimiter) counts, not the layer: all clones, routes, and layers with one limiter share
//!   its buckets. Give each kind of limit a scope of its own, or equal keys of two layers meet.
//! - **Keys.** See [`key`]. A request without one is refused unless [`MissingKey`] says otherwise, with a status that
//!   names whose fault it is: 500 if the server does not leave addresses with its requests, 400 for a missing header,
//!   401 for a missing token.
//! - **Behind proxies** no header is believed unless you say whose: [`key::ClientAddr::behind`].
//! - **Several limits** on one request: [`Limit::and`], all or nothing, and at one instant where they are scopes of one
//!   limiter. Layers may be stacked too; then a request that the inner one refuses has been charged by the outer one.
//! - **Tiers and costs.** [`Limit::resolve`] chooses the limiter by the request, [`Limit::cost`] the cost, and
//!   [`ByResponse`] charges what the response says.
//! - **Refusals** are [problem details](Refusal::response) or a gRPC status; [`RateLimitLayer::refuse_with`] builds
//!   others.
//! - **Headers** speak of the limits on each response: [`HeaderStyle`].
//!
//! # Order of layers
//!
//! A layer sees only requests that those outside of it let pass, and adds its headers only to responses that come
//! through it. A refusal of an outer layer says nothing of an inner one, which was not asked; the response of an inner
//! one gets the headers of both.
//!
//! - **CORS** belongs outside: then refusals carry the CORS headers, without which a page cannot read them, and
//!   preflight requests are answered before they come here. A preflight that does come here passes free unless it is
//!   [counted](RateLimitLayer::count_preflight). For pages to read the limits, the CORS layer has to expose the fields.
//! - **Authentication** belongs outside of limits by user or token, and inside of limits by address, which protect it.
//! - **Compression, tracing, timeouts** do not matter.
//!
//! ```
//! use axum::{Router, http::HeaderName, routing::get};
//! use peerlimit::{Limiter, Quota, http::{RateLimitLayer, key}};
//! use tower_http::cors::{Any, CorsLayer};
//!
//! # fn app(limiter: Limiter) -> Router {
//! let cors = CorsLayer::new().allow_origin(Any).expose_headers([
//!     HeaderName::from_static("ratelimit-policy"),
//!     HeaderName::from_static("ratelimit"),
//!     HeaderName::from_static("retry-after"),
//! ]);
//! // With `Router::layer` what comes last is outside.
//! Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(limiter, key::peer_addr()))
//!     .layer(cors)
//! # }
//! ```
//!
//! # gRPC
//!
//! ```
//! use peerlimit::{Limiter, Quota, http::{RateLimitLayer, key}};
//! use tonic::transport::{Server, server::TcpConnectInfo};
//!
//! # fn server(limiter: Limiter) {
//! let by_address = key::peer_addr_from(|info: &TcpConnectInfo| info.remote_addr().map(|addr| addr.ip()));
//! let server = Server::builder().layer(RateLimitLayer::new(limiter, by_address));
//! # }
//! ```
//!
//! # Contracts
//!
//! - The service that was polled ready is the one that is called. With a limiter that answers at once, as all of this
//!   crate do, it is called in place and never cloned; one that has to be waited for is called in the future, and a
//!   clone takes its place.
//! - A request that passes allocates what its header fields need, and nothing else: nothing at all if they are
//!   [hidden](RateLimitLayer::headers) and the key has at most 64 bytes.
//! - A future that is dropped while a store is asked may have consumed permits.

mod admission;
mod body;
mod by_response;
mod future;
mod head;
mod headers;
pub mod key;
mod layer;
mod limits;
mod options;
mod refusal;
mod service;

pub use body::{Bodies, Kept, ResponseBody, Wrapped};
pub use by_response::ByResponse;
pub use future::ResponseFuture;
pub use head::{RequestHead, ResponseHead};
pub use headers::HeaderStyle;
pub use layer::RateLimitLayer;
pub use limits::{Always, And, Charges, Costing, Limit, Limits, MissingKey, Resolve};
pub use options::OnError;
pub use refusal::Refusal;
pub use service::RateLimit;
