//! Several limits of one limiter as middleware asks for them: one decision, and what to say of each.

use std::sync::Arc;

use crate::{backend::Ask, bucket::Decision};

use super::{Scope, all::check_all};

/// Decides on all at one instant, and answers each; `false` where they cannot be decided on together.
///
/// That is where they belong to several limiters. And where one only watches: whether it took permits, or let pass what it would
/// have refused, cannot be read from the one decision on all, and is needed to give back the right ones later.
pub(super) fn decide_together<L>(asks: &mut [Ask<'_, L>], scope: impl Fn(&L) -> &Scope) -> bool {
    let Some(first) = asks.first() else { return false };
    let shared = &scope(first.limiter).shared;
    let apart = |scope: &Scope| !Arc::ptr_eq(&scope.shared, shared) || scope.is_shadow();
    if asks.iter().any(|ask| apart(scope(ask.limiter))) {
        return false;
    }
    let all = check_all(shared, asks.iter().map(|ask| (scope(ask.limiter), ask.key, ask.cost)));
    // One at a time, right after: what others do in between shows in the figures, and in nothing that was decided.
    for ask in asks.iter_mut() {
        let now = |cost| scope(ask.limiter).peek_n(ask.key, cost);
        *ask.answer = Some(match all.allowed {
            true => Decision { allowed: true, retry_after: None, ..now(0) },
            false => now(ask.cost),
        });
    }
    if !all.allowed {
        // The one that refused says so, even if it would pass by now.
        let refuses = |ask: &Ask<'_, L>| ask.answer.is_some_and(|answer| !answer.allowed);
        let by = |ask: &&mut Ask<'_, L>| scope(ask.limiter).name() == all.policy;
        if let Some(ask) = asks.iter_mut().filter(by).min_by_key(|ask| !refuses(ask)) {
            *ask.answer = Some(all);
        }
    }
    true
}
