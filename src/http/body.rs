//! The body of a response that passed through, or of a refusal.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Which bodies responses have; see [`Wrapped`] and [`Kept`].
pub trait Bodies<B>: sealed::Sealed {
    /// The body of a response.
    type Body;

    /// A response of the service inside.
    fn inner(response: Response<B>) -> Response<Self::Body>;

    /// The body of a refusal.
    fn own(data: Bytes) -> Self::Body;
}

/// Responses have a [`ResponseBody`], whatever bodies the service's own have.
#[derive(Clone, Copy, Debug)]
pub struct Wrapped(());

/// Responses keep the type of the service's bodies; see
/// [`RateLimitLayer::keep_body`](super::RateLimitLayer::keep_body).
#[derive(Clone, Copy, Debug)]
pub struct Kept(());

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Wrapped {}
    impl Sealed for super::Kept {}
}

impl<B> Bodies<B> for Wrapped {
    type Body = ResponseBody<B>;

    fn inner(response: Response<B>) -> Response<ResponseBody<B>> {
        response.map(|body| ResponseBody { kind: Kind::Inner { body } })
    }

    fn own(data: Bytes) -> ResponseBody<B> {
        ResponseBody::own(data)
    }
}

impl<B: From<Bytes>> Bodies<B> for Kept {
    type Body = B;

    fn inner(response: Response<B>) -> Response<B> {
        response
    }

    fn own(data: Bytes) -> B {
        B::from(data)
    }
}

pin_project! {
    /// The body of a response of [`RateLimit`](super::RateLimit): that of the service inside, or a refusal's few bytes.
    ///
    /// A type of its own, and not a bound on the service's body, because the bodies that matter cannot be made of
    /// bytes: hyper's `Incoming` not at all, those of axum and tonic only by boxing. It adds one comparison to each
    /// frame.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Own { data: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    /// No frame at all where `data` is empty: a gRPC response is over with its headers then.
    fn own(data: Bytes) -> Self {
        Self { kind: Kind::Own { data: Some(data).filter(|data| !data.is_empty()) } }
    }
}

/// An empty body: what middleware outside, such as tower-http's CORS layer, makes responses of its own with.
impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::own(Bytes::new())
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().kind.project() {
            KindProj::Inner { body } => body.poll_frame(cx),
            KindProj::Own { data } => Poll::Ready(data.take().map(|data| Ok(Frame::data(data.into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Own { data } => data.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            // At most some hundred bytes.
            Kind::Own { data } => SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64)),
        }
    }
}

impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.kind {
            Kind::Inner { .. } => "inner",
            Kind::Own { .. } => "refusal",
        };
        f.debug_tuple("ResponseBody").field(&kind).finish()
    }
}
