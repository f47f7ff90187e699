//! The engine and its members: SWIM, announcements, who is told.

use std::{net::SocketAddr, time::Duration};

use foca::OwnedNotification;
use rand::{RngExt, seq::SliceRandom};

use crate::bucket::Timestamp;

use super::{
    super::{
        lag::Lag,
        membership::Liveness,
        push::Peer,
        wire::{Identity, Tag, read_swim_header},
    },
    Engine, Event, Join, Transmit, info,
};

impl Engine {
    pub(super) fn handle_swim(&mut self, now: Timestamp, body: &[u8]) {
        if !self.may_speak(now, body) {
            self.stats.drops.strangers += 1;
            return;
        }
        if let Err(error) = self.membership.handle_data(now, body) {
            self.stats.drops.swim += 1;
            tracing::trace!(%error, "SWIM message refused");
        }
        self.after_membership(now);
    }

    /// Whether a SWIM message may be looked at: announcements, which are answered at length, and what does not come from
    /// a member are bounded.
    fn may_speak(&mut self, now: Timestamp, body: &[u8]) -> bool {
        // What does not decode is foca's to refuse: nothing is answered to it.
        let Some(header) = read_swim_header(body) else { return true };
        let is_peer = self.peers.get(&header.src.run).is_some_and(|peer| peer.addr == header.src.addr);
        (is_peer && header.message != foca::Message::Announce) || self.strangers.may_speak(header.src.addr, now)
    }

    /// Announces this node to those found who are no members, to members held down, and as long as nobody answers to
    /// our present identity, to all members.
    pub(super) fn announce(&mut self, now: Timestamp) {
        let is_peer = |addr: &SocketAddr| self.peers.values().any(|peer| peer.addr == *addr);
        let known = self.found.iter().copied().chain(self.membership.down());
        let mut wanted: Vec<SocketAddr> = known.filter(|addr| !self.connected || !is_peer(addr)).collect();
        if !self.connected {
            wanted.extend(self.peers.values().map(|peer| peer.addr));
        }
        wanted.sort_unstable();
        wanted.dedup();
        // A few are enough to be heard of by all, and a thousand replicas that start together do not answer a million
        // announcements.
        let (chosen, _) = wanted.partial_shuffle(&mut self.rng, Self::ANNOUNCES);
        for addr in chosen {
            if let Err(error) = self.membership.announce(now, *addr) {
                tracing::debug!(%error, %addr, "cannot announce");
            }
        }
        self.after_membership(now);
        let again = !self.connected && !wanted.is_empty();
        self.deadlines.announce = if again { now.saturating_add(Self::ANNOUNCE_INTERVAL) } else { Timestamp::MAX };
    }

    pub(super) fn after_membership(&mut self, now: Timestamp) {
        for notification in self.membership.take_notifications() {
            match notification {
                OwnedNotification::MemberUp(id) => self.member_came(&id, now),
                OwnedNotification::MemberDown(id) => self.member_went(&id, now),
                // A restart at the same address is two members to everybody but foca. If the former was down, foca
                // says separately that the new one is up.
                OwnedNotification::Rename(before, after)
                    if before.run != after.run && self.peers.contains_key(&before.run) =>
                {
                    self.member_went(&before, now);
                    self.member_came(&after, now);
                }
                OwnedNotification::Rejoin(_) => {
                    self.events.push_back(Event::Rejoined);
                    // What is sent to the former identity does not reach us, so everybody has to hear of the new one
                    // at once.
                    self.connected = false;
                    self.deadlines.announce = now;
                }
                OwnedNotification::Active => self.connected = true,
                OwnedNotification::Idle => {
                    self.connected = false;
                    self.deadlines.announce = now.saturating_add(Self::ANNOUNCE_INTERVAL);
                }
                _ => {}
            }
        }
        self.drain_swim(now);
    }

    /// Somebody came, or came back. A newcomer asks at once; the others within a moment that does not make them all
    /// ask at once.
    pub(super) fn compare_notes_soon(&mut self, now: Timestamp) {
        let within = if self.join == Join::Ready { Self::REUNION.mul_f64(self.rng.random()) } else { Duration::ZERO };
        self.deadlines.anti_entropy = self.deadlines.anti_entropy.min(now.saturating_add(within));
    }

    pub(super) fn drain_swim(&mut self, now: Timestamp) {
        for (to, body) in self.membership.take_sends() {
            if !self.peers.values().any(|peer| peer.addr == to) && !self.strangers.may_be_told(now) {
                self.stats.drops.untold += 1;
                continue;
            }
            if let Some(payload) = self.seal.datagram(Tag::Swim, &body) {
                self.transmit(Transmit { to, payload });
            }
        }
    }

    fn member_came(&mut self, id: &Identity, now: Timestamp) {
        // Whoever takes the run of another, at another address, does not take its place.
        if id.run == self.config.run || self.peers.contains_key(&id.run) {
            return;
        }
        self.peers.insert(id.run, Peer { addr: id.addr, is_elder: self.is_elder(id), lag: Lag::default() });
        self.departed.remove(&id.run);
        self.seal.set_member(id.run, true);
        self.absence.came(id.run, id.addr);
        self.events.push_back(Event::MemberUp(info(id, Liveness::Alive)));
        self.peers_changed();
        self.compare_notes_soon(now);
    }

    /// By wall clocks, which may differ: whoever is taken for a newcomer wrongly costs a moment, see
    /// [`Engine::ELDERS_COME`].
    fn is_elder(&self, id: &Identity) -> bool {
        id.started.saturating_add(Self::ELDER_BY) <= self.config.started
    }

    fn member_went(&mut self, id: &Identity, now: Timestamp) {
        if self.peers.get(&id.run).is_none_or(|peer| peer.addr != id.addr) {
            return;
        }
        self.peers.remove(&id.run);
        self.departed.retain(|_, until| *until > now);
        self.departed.insert(id.run, now.saturating_add(Self::LAST_WORDS));
        self.seal.set_member(id.run, false);
        self.absence.gone(id.run, id.addr, now);
        self.events.push_back(Event::MemberDown(info(id, Liveness::Alive)));
        self.peers_changed();
    }

    /// Tells everybody whom it concerns how many peers there are, and what share of the quotas that allows.
    pub(super) fn peers_changed(&mut self) {
        self.membership.resize();
        let scopes = self.table.scopes();
        scopes.set_peers(self.peers.len());
        self.push.set_peers(self.peers.len());
        let seen = u32::try_from(self.peers.len()).unwrap_or(u32::MAX).saturating_add(1);
        let missed = u32::try_from(self.absence.missed()).unwrap_or(u32::MAX);
        scopes.set_share(seen, seen.saturating_add(missed));
        tracing::debug!(members = seen, missed, "members changed");
    }
}
