//! Which limits apply to a request: by which limiter, under which key, at what cost.

use std::{borrow::Cow, iter::once_with};

use smallvec::SmallVec;

use crate::backend::RateLimiter;

use super::{
    admission::Entry,
    head::RequestHead,
    key::{KeyError, KeyExtractor, KeyWriter},
};

/// The limits that apply to a request: one [`Limit`], or several by [`Limit::and`].
pub trait Limits {
    /// What decides on all of them.
    type Limiter: RateLimiter + Clone + 'static;

    /// Adds what applies to a request to `charges`, in the order in which it is to be asked. Nothing added is a request
    /// that passes free.
    ///
    /// # Errors
    ///
    /// A request has no key and may not pass without; nothing is asked then.
    fn collect<'a>(&'a self, head: &RequestHead<'_>, charges: &mut Charges<'a, Self::Limiter>) -> Result<(), KeyError>;
}

/// What a request is charged with; see [`Limits`].
#[derive(Debug)]
pub struct Charges<'a, L: Clone> {
    pub(super) entries: SmallVec<[Entry<'a, L>; 1]>,
}

impl<'a, L: Clone> Charges<'a, L> {
    pub(super) fn new() -> Self {
        Self { entries: SmallVec::new() }
    }

    /// Adds `cost` permits, at `limiter`, of the key that `write` writes. A limiter that is borrowed is cloned only
    /// where something has to be waited for.
    ///
    /// # Errors
    ///
    /// Those of `write`. Nothing was added then.
    pub fn add<E>(
        &mut self,
        limiter: Cow<'a, L>,
        cost: u64,
        write: impl FnOnce(&mut KeyWriter) -> Result<(), E>,
    ) -> Result<(), E> {
        // The entry is made and the key is written where they stay.
        self.entries.extend(once_with(|| Entry { limiter, key: KeyWriter::new(), cost, answer: None }));
        let written = self.entries.last_mut().map_or(Ok(()), |entry| write(&mut entry.key));
        if written.is_err() {
            self.entries.pop();
        }
        written
    }
}

/// Says which limiter decides on a request, and how many permits it costs.
///
/// Functions of a [`RequestHead`] that return an `Option<(limiter, cost)>` are resolvers; see [`Limit::resolve`].
pub trait Resolve {
    /// What decides.
    type Limiter: RateLimiter + Clone + 'static;

    /// The limiter and the cost in permits; `None` for a request that this limit does not concern.
    fn resolve(&self, head: &RequestHead<'_>) -> Option<(Cow<'_, Self::Limiter>, u64)>;
}

impl<F, L> Resolve for F
where
    F: Fn(&RequestHead<'_>) -> Option<(L, u64)>,
    L: RateLimiter + Clone + 'static,
{
    type Limiter = L;

    fn resolve(&self, head: &RequestHead<'_>) -> Option<(Cow<'_, L>, u64)> {
        self(head).map(|(limiter, cost)| (Cow::Owned(limiter), cost))
    }
}

/// The same limiter for each request, at one permit.
#[derive(Clone, Debug)]
pub struct Always<L>(L);

impl<L: RateLimiter + Clone + 'static> Resolve for Always<L> {
    type Limiter = L;

    fn resolve(&self, _head: &RequestHead<'_>) -> Option<(Cow<'_, L>, u64)> {
        Some((Cow::Borrowed(&self.0), 1))
    }
}

/// The limiter of `R`, at a cost by a function; see [`Limit::cost`].
#[derive(Clone, Debug)]
pub struct Costing<R, F> {
    resolve: R,
    cost: F,
}

impl<R, F> Resolve for Costing<R, F>
where
    R: Resolve,
    F: Fn(&RequestHead<'_>) -> u64,
{
    type Limiter = R::Limiter;

    fn resolve(&self, head: &RequestHead<'_>) -> Option<(Cow<'_, R::Limiter>, u64)> {
        let (limiter, _) = self.resolve.resolve(head)?;
        Some((limiter, (self.cost)(head)))
    }
}

/// What becomes of a request without a key. There is no bucket that such requests share by accident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// It is answered with an error: [`KeyError::status`] says which. The default, since any other answer lets whoever
    /// leaves out a header get around the limit.
    #[default]
    Refuse,
    /// This limit does not concern it.
    Exempt,
    /// All requests without a key share one bucket, which no key of any other request reaches.
    Share,
}

/// One limit: a limiter, and the key under which a request is counted there.
///
/// ```
/// use peerlimit::{Limiter, Quota, http::{Limit, RateLimitLayer, key}};
///
/// let limiter = Limiter::local(Quota::per_second(1000));
/// let users = limiter.scope("users", Quota::per_minute(60));
/// let addresses = limiter.scope("addresses", Quota::per_minute(600));
/// // Both have to allow a request; a search costs a user five permits.
/// let layer = RateLimitLayer::limits(
///     Limit::new(users, key::bearer_token())
///         .cost(|head| if head.uri().path() == "/search" { 5 } else { 1 })
///         .and(Limit::new(addresses, key::peer_addr())),
/// );
/// ```
#[derive(Clone, Debug)]
#[must_use = "a limit limits nothing until a layer has it"]
pub struct Limit<R, K> {
    resolve: R,
    key: K,
    missing: MissingKey,
}

impl<L: RateLimiter + Clone + 'static, K: KeyExtractor> Limit<Always<L>, K> {
    /// Each request costs one permit of its key at `limiter`.
    pub fn new(limiter: L, key: K) -> Self {
        Self::resolve(Always(limiter), key)
    }
}

impl<R: Resolve, K: KeyExtractor> Limit<R, K> {
    /// A function of the request says which limiter decides and what the request costs. `None` is a request that passes
    /// free.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota, http::{Limit, RateLimitLayer, RequestHead, key}};
    ///
    /// let limiter = Limiter::local(Quota::per_second(1000));
    /// let free = limiter.scope("free", Quota::per_minute(60));
    /// let paid = limiter.scope("paid", Quota::per_minute(6000));
    /// let tiers = move |head: &RequestHead<'_>| {
    ///     if head.uri().path() == "/health" {
    ///         return None;
    ///     }
    ///     // Left there by whatever authenticates; a header would be the client's word.
    ///     let paying = head.extensions().get::<Paying>().is_some();
    ///     Some((if paying { paid.clone() } else { free.clone() }, 1))
    /// };
    /// #[derive(Clone)]
    /// struct Paying;
    /// let layer = RateLimitLayer::limits(Limit::resolve(tiers, key::bearer_token()));
    /// ```
    pub fn resolve(resolve: R, key: K) -> Self {
        Self { resolve, key, missing: MissingKey::default() }
    }

    /// What becomes of a request without a key; [`MissingKey::Refuse`] by default.
    pub fn missing_key(self, missing: MissingKey) -> Self {
        Self { missing, ..self }
    }

    /// A request costs as many permits as `cost` says. 0 consumes nothing, and passes unless the key is in debt.
    pub fn cost<F: Fn(&RequestHead<'_>) -> u64>(self, cost: F) -> Limit<Costing<R, F>, K> {
        Limit { resolve: Costing { resolve: self.resolve, cost }, key: self.key, missing: self.missing }
    }

    /// Both this limit and `other` have to allow a request, or none of them is charged.
    ///
    /// Scopes of one [`Limiter`](crate::Limiter) are decided on at one instant, as by
    /// [`check_all`](crate::Limiter::check_all). Stores, scopes of several limiters, and scopes that
    /// [only watch](crate::Scope::set_shadow) are asked in order, and a refusal gives the permits of those before back. So
    /// a request that the second refuses is missing from the first for a moment, in which another may be refused for it;
    /// put the limit that refuses most first.
    pub fn and<O: Limits<Limiter = R::Limiter>>(self, other: O) -> And<Self, O> {
        And(self, other)
    }
}

/// What a key begins with where its limit has a bucket for requests without one.
const KEYED: &[u8] = &[1];
const UNKEYED: &[u8] = &[0];

impl<R: Resolve, K: KeyExtractor> Limits for Limit<R, K> {
    type Limiter = R::Limiter;

    fn collect<'a>(&'a self, head: &RequestHead<'_>, charges: &mut Charges<'a, R::Limiter>) -> Result<(), KeyError> {
        let Some((limiter, cost)) = self.resolve.resolve(head) else { return Ok(()) };
        let share = self.missing == MissingKey::Share;
        let added = charges.add(limiter, cost, |key| {
            if share {
                key.write(KEYED);
            }
            match self.key.extract(head, key) {
                Err(_) if share => {
                    *key = KeyWriter::new();
                    key.write(UNKEYED);
                    Ok(())
                }
                extracted => extracted,
            }
        });
        if self.missing == MissingKey::Exempt { Ok(()) } else { added }
    }
}

/// Several limits on one request; see [`Limit::and`].
#[derive(Clone, Debug)]
#[must_use = "a limit limits nothing until a layer has it"]
pub struct And<A, B>(A, B);

impl<A: Limits, B: Limits<Limiter = A::Limiter>> And<A, B> {
    /// As [`Limit::and`].
    pub fn and<O: Limits<Limiter = A::Limiter>>(self, other: O) -> And<Self, O> {
        And(self, other)
    }
}

impl<A: Limits, B: Limits<Limiter = A::Limiter>> Limits for And<A, B> {
    type Limiter = A::Limiter;

    fn collect<'a>(&'a self, head: &RequestHead<'_>, charges: &mut Charges<'a, A::Limiter>) -> Result<(), KeyError> {
        self.0.collect(head, charges)?;
        self.1.collect(head, charges)
    }
}
