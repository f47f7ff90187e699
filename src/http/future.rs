//! The response, until it is there.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use smallvec::SmallVec;
use tower_service::Service;

use crate::{backend::RateLimiter, bucket::Decision};

use super::{
    admission::{Admission, Entry, Step, at_once, left_behind},
    body::ResponseBody,
    by_response::{ByResponse, Settle},
    head::ResponseHead,
    headers::{self, Styles},
    options::Options,
    service::conclude,
};

pin_project! {
    /// The response of a [`RateLimit`](super::RateLimit).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqBody, L>
    where
        S: Service<Request<ReqBody>>,
        L: RateLimiter,
    {
        #[pin]
        state: State<S, ReqBody, L>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, ReqBody, L>
    where
        S: Service<Request<ReqBody>>,
        L: RateLimiter,
    {
        /// A store is asked. Limiters that answer at once never come here.
        Deciding { #[pin] deciding: L::Deciding, waiting: Option<Waiting<S, ReqBody, L>> },
        Running { #[pin] future: S::Future, passed: Option<Passed<L>> },
        /// A store is told what the response came to.
        Settling { #[pin] deciding: L::Deciding, settling: Option<Settling<S::Response, S::Error, L>> },
        Refused { response: Option<Response<Bytes>> },
    }
}

/// A request while a store is asked about it.
pub(super) struct Waiting<S, ReqBody, L: RateLimiter> {
    /// Was polled ready, and is called at most once.
    pub(super) service: S,
    pub(super) request: Request<ReqBody>,
    pub(super) admission: Admission<L>,
    pub(super) options: Arc<Options>,
}

/// What is kept of a request that passed.
pub(super) struct Passed<L> {
    pub(super) entries: SmallVec<[Entry<L>; 1]>,
    pub(super) styles: Styles,
    pub(super) by_response: Option<ByResponse>,
}

/// A result that waits until all limits are settled.
struct Settling<R, E, L> {
    result: Result<R, E>,
    passed: Passed<L>,
    /// The entry that comes next.
    at: usize,
}

impl<S, ReqBody, L> ResponseFuture<S, ReqBody, L>
where
    S: Service<Request<ReqBody>>,
    L: RateLimiter,
{
    pub(super) fn deciding(deciding: L::Deciding, waiting: Waiting<S, ReqBody, L>) -> Self {
        Self { state: State::Deciding { deciding, waiting: Some(waiting) } }
    }

    pub(super) fn running(future: S::Future, passed: Passed<L>) -> Self {
        Self { state: State::Running { future, passed: Some(passed) } }
    }

    pub(super) fn refused(response: Response<Bytes>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }
}

impl<S, ReqBody, ResBody, L> Future for ResponseFuture<S, ReqBody, L>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    L: RateLimiter,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    #[allow(clippy::expect_used, reason = "a future must not be polled after it is ready")]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const DONE: &str = "polled after it was ready";
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Deciding { deciding, waiting } => {
                    let answer = ready!(deciding.poll(cx));
                    let mut waiting = waiting.take().expect(DONE);
                    waiting.admission.answer(answer);
                    state.set(waiting.go_on().state);
                }
                StateProj::Running { future, passed } => {
                    let result = ready!(future.poll(cx));
                    let mut settling = Settling { result, passed: passed.take().expect(DONE), at: 0 };
                    match settling.run() {
                        None => return Poll::Ready(settling.finish()),
                        Some(deciding) => state.set(State::Settling { deciding, settling: Some(settling) }),
                    }
                }
                StateProj::Settling { deciding, settling } => {
                    let answer = ready!(deciding.poll(cx));
                    let mut settling = settling.take().expect(DONE);
                    settling.answer(answer);
                    match settling.run() {
                        None => return Poll::Ready(settling.finish()),
                        Some(deciding) => state.set(State::Settling { deciding, settling: Some(settling) }),
                    }
                }
                StateProj::Refused { response } => {
                    return Poll::Ready(Ok(response.take().expect(DONE).map(ResponseBody::own)));
                }
            }
        }
    }
}

impl<S, ReqBody, L> Waiting<S, ReqBody, L>
where
    S: Service<Request<ReqBody>>,
    L: RateLimiter,
{
    fn go_on(mut self) -> ResponseFuture<S, ReqBody, L> {
        match self.admission.run() {
            Step::Ask(deciding) => ResponseFuture::deciding(deciding, self),
            Step::Done(verdict) => {
                conclude(&mut self.service, self.request, self.admission.entries, verdict, &self.options)
            }
        }
    }
}

impl<ResBody, E, L: RateLimiter> Settling<Response<ResBody>, E, L> {
    /// Settles one limit after the other for as long as answers are there at once, and returns what to wait for.
    fn run(&mut self) -> Option<L::Deciding> {
        while let Some(deciding) = self.next() {
            match at_once::<L>(deciding) {
                Ok(answer) => self.answer(answer),
                Err(deciding) => return Some(deciding),
            }
        }
        None
    }

    /// The response, with what the limits have come to.
    fn finish(self) -> Result<Response<ResponseBody<ResBody>>, E> {
        let Self { result, passed, .. } = self;
        result.map(|mut response| {
            headers::write(response.headers_mut(), passed.styles, &passed.entries);
            response.map(ResponseBody::inner)
        })
    }

    fn next(&mut self) -> Option<L::Deciding> {
        let by_response = self.passed.by_response.as_ref()?;
        let head = self.result.as_ref().ok().map(ResponseHead::of);
        while let Some(Entry { limiter, key, cost, answer }) = self.passed.entries.get(self.at) {
            // One without an answer passed undecided and was charged nothing.
            match answer.and_then(|_| Some(by_response.settle(head.as_ref(), *cost))) {
                Some(Settle::Charge(permits)) => return Some(limiter.charge(key.as_bytes(), permits)),
                Some(Settle::Refund(permits)) => return Some(limiter.refund(key.as_bytes(), permits)),
                Some(Settle::Nothing) | None => self.at += 1,
            }
        }
        None
    }

    fn answer(&mut self, answer: Result<Decision, L::Error>) {
        match answer {
            Ok(decision) => self.passed.entries[self.at].answer = Some(left_behind(decision)),
            Err(error) => tracing::warn!(%error, "a request was not settled by its response"),
        }
        self.at += 1;
    }
}
