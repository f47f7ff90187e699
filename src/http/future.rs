//! The response, until it is there.

use std::{
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use smallvec::SmallVec;
use tower_service::Service;

use crate::{
    backend::{RateLimiter, at_once},
    bucket::Decision,
};

use super::{
    admission::{Admission, Entry, consumes, left_behind},
    body::{Bodies, Wrapped},
    by_response::{ByResponse, Settle},
    head::ResponseHead,
    headers::{self, Styles, Told, told},
    layer::Shared,
    limits::Limits,
    service::{Conclusion, conclude},
};

pin_project! {
    /// The response of a [`RateLimit`](super::RateLimit).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqBody, R, M = Wrapped>
    where
        S: Service<Request<ReqBody>>,
        R: Limits,
    {
        #[pin]
        state: State<S, ReqBody, R>,
        bodies: PhantomData<fn() -> M>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, ReqBody, R>
    where
        S: Service<Request<ReqBody>>,
        R: Limits,
    {
        /// A store is asked. Limiters that answer at once never come here, and have nothing of it in their futures: it is
        /// boxed, as all that few requests need.
        Deciding {
            #[pin]
            deciding: <R::Limiter as RateLimiter>::Deciding,
            waiting: Option<Box<Waiting<S, ReqBody, R>>>,
        },
        Running { #[pin] future: S::Future, passed: Passed<R::Limiter>, styles: Styles },
        /// A store is told what the response came to.
        Settling {
            #[pin]
            deciding: <R::Limiter as RateLimiter>::Deciding,
            settling: Option<Box<Settling<S::Response, S::Error, R::Limiter>>>,
        },
        Refused { response: Option<Response<Bytes>> },
    }
}

/// A request while a store is asked about it.
pub(super) struct Waiting<S, ReqBody, R: Limits> {
    /// Was polled ready, and is called at most once.
    pub(super) service: S,
    pub(super) request: Request<ReqBody>,
    pub(super) entries: Vec<Entry<'static, R::Limiter>>,
    pub(super) admission: Admission<<R::Limiter as RateLimiter>::Error>,
    pub(super) shared: Arc<Shared<R>>,
}

/// What is kept of a request that passed.
pub(super) enum Passed<L: Clone + 'static> {
    /// What its response tells.
    Told(SmallVec<[Told; 1]>),
    /// What its response says, and then tells.
    Settle(Box<(ByResponse, Vec<Entry<'static, L>>)>),
}

/// A result that waits until all limits are settled.
struct Settling<R, E, L: Clone + 'static> {
    result: Result<R, E>,
    styles: Styles,
    by_response: ByResponse,
    entries: Vec<Entry<'static, L>>,
    /// The entry that comes next.
    at: usize,
}

impl<S, ReqBody, R, M> ResponseFuture<S, ReqBody, R, M>
where
    S: Service<Request<ReqBody>>,
    R: Limits,
{
    fn new(state: State<S, ReqBody, R>) -> Self {
        Self { state, bodies: PhantomData }
    }

    pub(super) fn deciding(deciding: <R::Limiter as RateLimiter>::Deciding, waiting: Waiting<S, ReqBody, R>) -> Self {
        Self::new(State::Deciding { deciding, waiting: Some(Box::new(waiting)) })
    }

    pub(super) fn running(future: S::Future, passed: Passed<R::Limiter>, styles: Styles) -> Self {
        Self::new(State::Running { future, passed, styles })
    }

    pub(super) fn refused(response: Response<Bytes>) -> Self {
        Self::new(State::Refused { response: Some(response) })
    }
}

impl<S, ReqBody, ResBody, R, M> Future for ResponseFuture<S, ReqBody, R, M>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Limits,
    M: Bodies<ResBody>,
{
    type Output = Result<Response<M::Body>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        // Nearly all requests: apart, so that what the others need is not in their way.
        if let StateProj::Running { future, passed: Passed::Told(told), styles } = state.as_mut().project() {
            let mut result = ready!(future.poll(cx));
            if let Ok(response) = &mut result {
                // Where it is: a response is some hundred bytes to move.
                headers::write(response.headers_mut(), *styles, told);
            }
            return Poll::Ready(result.map(M::inner));
        }
        Self::poll_others(state, cx)
    }
}

impl<S, ReqBody, ResBody, R, M> ResponseFuture<S, ReqBody, R, M>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Limits,
    M: Bodies<ResBody>,
{
    #[cold]
    #[inline(never)]
    #[allow(clippy::expect_used, reason = "a future must not be polled after it is ready")]
    fn poll_others(
        mut state: Pin<&mut State<S, ReqBody, R>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<M::Body>, S::Error>> {
        const DONE: &str = "polled after it was ready";
        loop {
            let mut settling = match state.as_mut().project() {
                StateProj::Deciding { deciding, waiting } => {
                    let answer = ready!(deciding.poll(cx));
                    let mut waiting = waiting.take().expect(DONE);
                    waiting.admission.answer(&mut waiting.entries, answer);
                    state.set(waiting.go_on::<M>().state);
                    continue;
                }
                StateProj::Running { future, passed, styles } => {
                    let result = ready!(future.poll(cx));
                    match passed {
                        Passed::Told(told) => {
                            return Poll::Ready(result.map(|response| finish::<_, M>(response, *styles, told)));
                        }
                        Passed::Settle(settle) => {
                            let (by_response, entries) = (settle.0.clone(), mem::take(&mut settle.1));
                            Settling { result, styles: *styles, by_response, entries, at: 0 }
                        }
                    }
                }
                StateProj::Settling { deciding, settling } => {
                    let answer = ready!(deciding.poll(cx));
                    let mut settling = *settling.take().expect(DONE);
                    settling.answer(answer);
                    settling
                }
                StateProj::Refused { response } => {
                    return Poll::Ready(Ok(response.take().expect(DONE).map(M::own)));
                }
            };
            match settling.run() {
                Some(deciding) => state.set(State::Settling { deciding, settling: Some(Box::new(settling)) }),
                None => {
                    let Settling { result, styles, entries, .. } = settling;
                    return Poll::Ready(
                        result.map(|response| finish::<_, M>(response, styles, &told(&entries, styles))),
                    );
                }
            }
        }
    }
}

/// The response, with what is to be told of the limits.
fn finish<B, M: Bodies<B>>(mut response: Response<B>, styles: Styles, told: &[Told]) -> Response<M::Body> {
    headers::write(response.headers_mut(), styles, told);
    M::inner(response)
}

impl<S, ReqBody, R> Waiting<S, ReqBody, R>
where
    S: Service<Request<ReqBody>>,
    R: Limits,
{
    fn go_on<M>(mut self) -> ResponseFuture<S, ReqBody, R, M> {
        match self.admission.run(&mut self.entries) {
            Some(deciding) => ResponseFuture::deciding(deciding, self),
            None => {
                let (verdict, options) = (self.admission.verdict(), &self.shared.options);
                match conclude(&mut self.request, &mut self.entries, verdict, options) {
                    Conclusion::Pass(passed) => {
                        ResponseFuture::running(self.service.call(self.request), passed, options.styles)
                    }
                    Conclusion::Refuse(response) => ResponseFuture::refused(response),
                }
            }
        }
    }
}

impl<B, E, L: RateLimiter + Clone> Settling<Response<B>, E, L> {
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

    fn next(&mut self) -> Option<L::Deciding> {
        let head = self.result.as_ref().ok().map(ResponseHead::of);
        while let Some(Entry { limiter, key, cost, answer }) = self.entries.get(self.at) {
            // One without an answer passed undecided and was charged nothing.
            match answer.filter(consumes).map(|_| self.by_response.settle(head.as_ref(), *cost)) {
                Some(Settle::Charge(permits)) => return Some(limiter.charge(key.as_bytes(), permits)),
                Some(Settle::Refund(permits)) => return Some(limiter.refund(key.as_bytes(), permits)),
                Some(Settle::Nothing) | None => self.at += 1,
            }
        }
        None
    }

    fn answer(&mut self, answer: Result<Decision, L::Error>) {
        match answer {
            Ok(decision) => self.entries[self.at].answer = Some(left_behind(decision)),
            Err(error) => tracing::warn!(%error, "a request was not settled by its response"),
        }
        self.at += 1;
    }
}
