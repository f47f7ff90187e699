//! One decision about several keys.

use std::{sync::Arc, time::Duration};

use smallvec::SmallVec;

use crate::{
    bucket::{Decision, Timestamp},
    crdt::Digest,
    table::{Override, Request},
};

use super::{Scope, Shared};

/// One of the keys.
type Limit<'a> = (&'a Scope, &'a [u8], u64);

/// One that only watches.
type Watching<'a> = (&'a Scope, Digest, &'a [u8], u64);

/// Limits that need no memory of their own.
const FEW: usize = 4;

/// Decides on all of them at one instant, all or nothing.
///
/// What is exempt is left out, and what is blocked refuses all. A scope that only watches refuses nobody: it decides by itself
/// about what the others let pass.
pub(super) fn check_all<'a>(shared: &Arc<Shared>, limits: impl Iterator<Item = Limit<'a>>) -> Decision {
    let now = shared.clock.now();
    let mut requests: SmallVec<[Request; FEW]> = SmallVec::new();
    let mut limiting: SmallVec<[(&Scope, &[u8]); FEW]> = SmallVec::new();
    let mut watching: SmallVec<[Watching<'_>; FEW]> = SmallVec::new();
    let mut exempt = None;
    for (scope, key, cost) in limits {
        assert!(Arc::ptr_eq(&scope.shared, shared), "scope {:?} belongs to another limiter", scope.name());
        let digest = scope.spec.hasher().digest(key);
        match scope.override_of(digest) {
            Some(Override::Exempt) => exempt = Some(controlled(scope, digest, key, cost, now)),
            Some(Override::Blocked) => return controlled(scope, digest, key, cost, now),
            None if scope.is_shadow() => watching.push((scope, digest, key, cost)),
            None => {
                requests.push(Request { rule: scope.spec.rule(), digest, cost });
                limiting.push((scope, key));
            }
        }
    }
    let decision = shared.table.decide_all(&requests, now);
    if let Some(decision) = &decision {
        note(&limiting, &requests, decision);
    }
    if let Some(refused) = decision.filter(|decision| !decision.allowed) {
        return refused;
    }
    let mut shadowed = None;
    for (scope, digest, key, cost) in watching {
        let watched = controlled(scope, digest, key, cost, now);
        shadowed = shadowed.or(Some(watched).filter(|watched| watched.shadowed));
    }
    let nothing_limits = || Decision::allow(u64::MAX, u64::MAX, Duration::ZERO);
    // That somebody watches and would have refused is worth more than how much is left elsewhere.
    shadowed.or(decision).or(exempt).unwrap_or_else(nothing_limits)
}

/// A decision by one scope alone.
fn controlled(scope: &Scope, digest: Digest, key: &[u8], cost: u64, now: Timestamp) -> Decision {
    let decision = scope.controlled(digest, key, cost, now);
    scope.spec.tally().count(&decision);
    decision
}

/// Counts what was decided together: for all if it passed, else for the one that refused.
fn note(limiting: &[(&Scope, &[u8])], requests: &[Request], decision: &Decision) {
    for ((scope, key), request) in limiting.iter().zip(requests) {
        if decision.allowed || decision.policy == scope.name() {
            scope.spec.tally().count(decision);
            scope.spec.controls().note(request.digest, key, request.cost, decision);
        }
    }
}
