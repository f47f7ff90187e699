//! Costs that are known only when the response is there.

use std::{fmt, sync::Arc};

use http::{HeaderName, StatusCode};

use super::head::ResponseHead;

/// When permits are consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// Before the service is called; a difference is settled afterwards.
    Before,
    /// Afterwards; before, it is only looked whether they are there.
    After,
}

type Cost = dyn Fn(Option<&ResponseHead<'_>>, u64) -> u64 + Send + Sync;

/// Charges a request by its response.
///
/// The response waits for what is charged or given back, so its headers count it: no time with a
/// [`Limiter`](crate::Limiter), a round trip with a store. A request whose client goes away before the response is
/// there is not settled.
///
/// A failure of the service itself, one without a response, counts as a failure. What a gRPC service says in its
/// trailers is not seen: only responses without a message carry `grpc-status` in their headers.
#[derive(Clone)]
#[must_use = "it changes nothing until a layer has it"]
pub struct ByResponse {
    timing: Timing,
    cost: Arc<Cost>,
}

impl ByResponse {
    /// Charges only responses of which `counts` says so; before, it is looked whether the permits are there.
    ///
    /// Requests that are under way at the same time do not see each other, so as many may pass as the client sends at
    /// once. What they cost is charged in full, if need be into debt.
    pub fn count_if(counts: impl Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        let cost = move |head: Option<&ResponseHead<'_>>, cost| if head.is_none_or(&counts) { cost } else { 0 };
        Self { timing: Timing::After, cost: Arc::new(cost) }
    }

    /// [`count_if`](Self::count_if) the status is 400 or above: a limit on attempts that fail, as for a login.
    pub fn count_failures() -> Self {
        Self::count_if(|head| is_failure(head.status()))
    }

    /// Charges all requests, and gives the permits of those back of whose response `refunds` says so.
    pub fn refund_if(refunds: impl Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        let cost = move |head: Option<&ResponseHead<'_>>, cost| if head.is_none_or(&refunds) { 0 } else { cost };
        Self { timing: Timing::Before, cost: Arc::new(cost) }
    }

    /// [`refund_if`](Self::refund_if) the status is 500 or above: clients do not pay for errors of ours.
    pub fn refund_server_errors() -> Self {
        Self::refund_if(|head| head.status().is_server_error())
    }

    /// The response says in a header field what the request cost, in permits; the difference to what was consumed
    /// before is charged or given back. A response without the field, or with no number there, costs what was consumed.
    ///
    /// The field stays in the response.
    pub fn cost_in(header: HeaderName) -> Self {
        Self::cost_of(move |head, cost| {
            let value = head.headers().get(&header).and_then(|value| value.to_str().ok());
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(cost)
        })
    }

    /// A function of the response, and of the permits that were consumed before, says what the request cost in all.
    ///
    /// The difference is charged, if need be into debt, or given back. The service's own errors cost what was consumed.
    pub fn cost_of(cost: impl Fn(&ResponseHead<'_>, u64) -> u64 + Send + Sync + 'static) -> Self {
        let cost = move |head: Option<&ResponseHead<'_>>, consumed| head.map_or(consumed, |head| cost(head, consumed));
        Self { timing: Timing::Before, cost: Arc::new(cost) }
    }

    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    /// What to do about a request that asked for `cost` permits and was answered with `head`.
    pub(super) fn settle(&self, head: Option<&ResponseHead<'_>>, cost: u64) -> Settle {
        let consumed = if self.timing == Timing::Before { cost } else { 0 };
        let total = (self.cost)(head, cost);
        match total.checked_sub(consumed) {
            Some(0) => Settle::Nothing,
            Some(more) => Settle::Charge(more),
            None => Settle::Refund(consumed - total),
        }
    }
}

/// A difference between what a request consumed and what it cost, in permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settle {
    Nothing,
    Charge(u64),
    Refund(u64),
}

fn is_failure(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

impl fmt::Debug for ByResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByResponse").field("timing", &self.timing).finish_non_exhaustive()
    }
}
