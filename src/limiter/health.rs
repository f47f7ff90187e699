//! Whether the cluster agrees.

use std::{fmt, time::Duration};

use crate::{bucket::Timestamp, gossip::PeerInfo};

use super::{Limiter, Member, MemberState};

/// How well a node knows what the cluster knows: for a readiness probe, and for people.
///
/// Printed, it is one line for the node and one for each peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether [`Limiter::ready`] has resolved.
    pub ready: bool,
    /// The members that this node holds alive, without itself.
    pub peers: Vec<PeerHealth>,
}

/// What is known of one peer's news.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerHealth {
    /// Who.
    pub member: Member,
    /// How long ago this node last knew that it had all of its news; `None` if it never did yet. Milliseconds while the
    /// peer admits; without load some times as many seconds as there are members, since each compares notes with one
    /// member a second.
    pub news_age: Option<Duration>,
    /// The greatest age that its news had when it was merged here, in the last 30 to 60 seconds; zero where there was
    /// none. A few milliseconds for keys near their limit, the sync interval for others, more after a cut.
    pub merge_lag: Duration,
}

impl Health {
    /// Whether the node is ready and had all news of all peers within that time. `false` if of one it never had.
    ///
    /// ```
    /// use peerlimit::{Limiter, Quota};
    /// use std::time::Duration;
    ///
    /// let limiter = Limiter::local(Quota::per_second(100));
    /// assert!(limiter.health().agrees_within(Duration::from_secs(10)));
    /// ```
    #[must_use]
    pub fn agrees_within(&self, time: Duration) -> bool {
        self.ready && self.peers.iter().all(|peer| peer.news_age.is_some_and(|age| age <= time))
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = if self.ready { "ready" } else { "not ready" };
        write!(f, "{ready}, {} peers", self.peers.len())?;
        for PeerHealth { member, news_age, merge_lag } in &self.peers {
            let state = match member.state {
                MemberState::Alive => "alive",
                MemberState::Suspect => "suspect",
            };
            write!(f, "\n{} {} {state}, ", member.addr, member.name)?;
            match news_age {
                Some(age) => write!(f, "all news as of {age:.1?} ago")?,
                None => f.write_str("never had all its news")?,
            }
            write!(f, ", merge lag {merge_lag:.1?}")?;
        }
        Ok(())
    }
}

impl Limiter {
    /// Whether this node is ready, who its peers are, and how old its knowledge of each is. At most half a second old
    /// itself.
    ///
    /// A local limiter is ready and has no peers.
    #[must_use]
    pub fn health(&self) -> Health {
        let now = self.shared.clock.now();
        let peers = self.shared.node.as_ref().map(|node| node.peers()).unwrap_or_default();
        Health { ready: self.is_ready(), peers: peers.into_iter().map(|peer| peer_health(peer, now)).collect() }
    }
}

fn peer_health(peer: PeerInfo, now: Timestamp) -> PeerHealth {
    PeerHealth {
        news_age: peer.in_step.map(|at| now.saturating_since(at)),
        merge_lag: peer.lag,
        member: Member::from(peer.member),
    }
}

#[cfg(test)]
mod tests {
    use crate::Quota;

    use super::*;

    fn peer(name: &str, news_age: Option<Duration>) -> PeerHealth {
        let addr = ([10, 0, 0, 2], 7946).into();
        let member = Member { name: name.into(), addr, state: MemberState::Alive, is_self: false };
        PeerHealth { member, news_age, merge_lag: Duration::from_micros(5_250) }
    }

    #[test]
    fn one_peer_without_news_is_no_agreement() {
        let mut health = Health { ready: true, peers: vec![peer("a", Some(Duration::from_secs(2)))] };
        assert!(health.agrees_within(Duration::from_secs(2)));
        assert!(!health.agrees_within(Duration::from_secs(1)));
        health.peers.push(peer("b", None));
        assert!(!health.agrees_within(Duration::MAX));
        health.peers.clear();
        assert!(health.agrees_within(Duration::ZERO));
        health.ready = false;
        assert!(!health.agrees_within(Duration::MAX));
    }

    #[test]
    fn people_can_read_it() {
        let peers = vec![peer("pod-a", Some(Duration::from_millis(12))), peer("pod-b", None)];
        let text = Health { ready: true, peers }.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "ready, 2 peers",
                "10.0.0.2:7946 pod-a alive, all news as of 12.0ms ago, merge lag 5.2ms",
                "10.0.0.2:7946 pod-b alive, never had all its news, merge lag 5.2ms",
            ]
        );
    }

    #[test]
    fn a_local_limiter_agrees_with_itself() {
        let health = Limiter::local(Quota::per_second(1)).health();
        assert!(health.agrees_within(Duration::ZERO) && health.peers.is_empty());
    }
}
