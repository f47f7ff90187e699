//! Decisions on several buckets at once: all are charged, or none is.

use smallvec::SmallVec;

use crate::{
    bucket::{Decision, Tat, Timestamp},
    crdt::Digest,
};

use super::{Rule, Table};

/// One of several requests that are decided together.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// By what.
    pub rule: Rule,
    /// Which bucket. The same one may be there several times.
    pub digest: Digest,
    /// Permits that it has to have.
    pub cost: u64,
}

/// What the buckets would be if all requests so far passed.
struct Outlook {
    digest: Digest,
    rule: Rule,
    tat: Tat,
    cost: u64,
}

/// Requests that need no memory of their own.
const FEW: usize = 4;

impl Table {
    /// Decides on all requests at one instant. Where one is refused, no bucket is changed.
    ///
    /// Returns the answer of the tightest: of the one that has to wait longest if any is refused, else of the one with the
    /// fewest permits left; `None` if there are no requests. All groups concerned are locked meanwhile.
    pub fn decide_all(&self, requests: &[Request], now: Timestamp) -> Option<Decision> {
        let chains = self.index.lock_all(requests.iter().map(|request| request.digest));
        let mut outlooks: SmallVec<[Outlook; FEW]> = SmallVec::new();
        let (mut refused, mut tightest): (Option<Decision>, Option<Decision>) = (None, None);
        for Request { rule, digest, cost } in requests {
            let at = outlooks.iter().position(|outlook| outlook.digest == *digest).unwrap_or_else(|| {
                let known = chains.of(*digest).and_then(|chain| chain.find(*digest));
                let rule = known.map_or(*rule, |slot| self.measured(&slot, rule, now));
                let tat = known.map_or(Tat::FULL, |slot| slot.tat());
                outlooks.push(Outlook { digest: *digest, rule, tat, cost: 0 });
                outlooks.len() - 1
            });
            let outlook = &mut outlooks[at];
            match outlook.rule.gcra.admit(outlook.tat, now, *cost) {
                Some(after) => {
                    (outlook.tat, outlook.cost) = (after, outlook.cost.saturating_add(*cost));
                    let decision = outlook.rule.allowed(after, now);
                    if tightest.is_none_or(|so_far| decision.remaining < so_far.remaining) {
                        tightest = Some(decision);
                    }
                }
                None => {
                    let decision = outlook.rule.refused(outlook.tat, now, *cost);
                    // What never passes waits longest.
                    let wait = |decision: &Decision| (decision.retry_after.is_none(), decision.retry_after);
                    if refused.is_none_or(|so_far| wait(&decision) > wait(&so_far)) {
                        refused = Some(decision);
                    }
                }
            }
        }
        if refused.is_some() {
            return refused;
        }

        let (mut is_new, mut is_urgent) = (false, false);
        for outlook in outlooks.iter().filter(|outlook| outlook.cost != 0) {
            let Some(chain) = chains.of(outlook.digest) else { continue };
            let known = chain.find(outlook.digest);
            is_new |= known.is_none();
            let slot = known.or_else(|| self.insert(chain, outlook.rule.measure, outlook.digest, now));
            let Some(slot) = slot else { continue };
            slot.set_tat(outlook.tat);
            if self.publishes() {
                let wants = slot.add_unsent(outlook.cost, &outlook.rule, now);
                self.set_marks(chain.number(), wants);
                is_urgent |= wants.push;
            }
        }
        // Whoever is woken may want the locks.
        drop(chains);
        if is_urgent {
            self.raise_urgent();
        }
        if is_new {
            self.grow();
        }
        tightest
    }
}
