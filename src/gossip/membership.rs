//! Membership by foca (SWIM, Das et al. 2002, with suspicion and infection-style dissemination).
//!
//! foca is used for membership alone. Its custom broadcasts scan their whole backlog on each addition, so cells
//! travel in frames of our own.

use std::{
    net::SocketAddr,
    num::{NonZeroU8, NonZeroU32, NonZeroUsize},
    time::Duration,
};

use foca::{Foca, NoCustomBroadcast, OwnedNotification, PeriodicParams, Timer};
use rand::rngs::Xoshiro256PlusPlus;

use crate::bucket::Timestamp;

use super::{
    SwimConfig,
    timers::Timers,
    wire::{Identity, MAX_SWIM, SwimCodec},
};

/// How SWIM sees a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Liveness {
    /// It answers.
    Alive,
    /// It did not answer a probe, and may still contradict.
    Suspect,
}

/// SWIM with its timers and what it wants sent.
pub(super) struct Membership {
    foca: Foca<Identity, SwimCodec, Xoshiro256PlusPlus, NoCustomBroadcast>,
    io: Io,
    swim: SwimConfig,
    /// For how many members foca is configured.
    sized_for: u32,
}

/// foca's runtime: collects, then is drained.
#[derive(Default)]
struct Io {
    now: Timestamp,
    timers: Timers,
    sends: Vec<(SocketAddr, Vec<u8>)>,
    notifications: Vec<OwnedNotification<Identity>>,
}

impl foca::Runtime<Identity> for Io {
    fn notify(&mut self, notification: foca::Notification<'_, Identity>) {
        self.notifications.push(notification.to_owned());
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        self.sends.push((to.addr, data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.timers.push(self.now.saturating_add(after), event);
    }
}

impl Membership {
    pub(super) fn new(identity: Identity, swim: SwimConfig, rng: Xoshiro256PlusPlus) -> Self {
        let sized_for = 1;
        let foca = Foca::new(identity, foca_config(&swim, sized_for), rng, SwimCodec::default());
        Self { foca, io: Io::default(), swim, sized_for }
    }

    pub(super) fn identity(&self) -> &Identity {
        self.foca.identity()
    }

    /// Members held alive, without this node, in no particular order.
    pub(super) fn members(&self) -> impl Iterator<Item = (&Identity, Liveness)> {
        self.foca.iter_members().map(|member| {
            let liveness = match member.state() {
                foca::State::Suspect => Liveness::Suspect,
                // `iter_members` yields active members only.
                foca::State::Alive | foca::State::Down => Liveness::Alive,
            };
            (member.id(), liveness)
        })
    }

    /// Addresses of members held down.
    pub(super) fn down(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.foca
            .iter_membership_state()
            .filter(|member| member.state() == foca::State::Down)
            .map(|member| member.id().addr)
    }

    pub(super) fn handle_data(&mut self, now: Timestamp, data: &[u8]) -> Result<(), foca::Error> {
        self.io.now = now;
        self.foca.handle_data(data, &mut self.io)
    }

    pub(super) fn announce(&mut self, now: Timestamp, addr: SocketAddr) -> Result<(), foca::Error> {
        self.io.now = now;
        self.foca.announce(Identity::unknown(addr), &mut self.io)
    }

    /// Spreads what is new about members now, instead of with the next probes.
    pub(super) fn gossip(&mut self, now: Timestamp) -> Result<(), foca::Error> {
        self.io.now = now;
        self.foca.gossip(&mut self.io)
    }

    pub(super) fn leave(&mut self, now: Timestamp) -> Result<(), foca::Error> {
        self.io.now = now;
        self.foca.leave_cluster(&mut self.io)
    }

    /// Hands over the timers that are due. Returns the last error; each of them concerns its own timer only.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) -> Result<(), foca::Error> {
        self.io.now = now;
        let due: Vec<_> = self.io.timers.take_due(now).collect();
        let mut result = Ok(());
        for timer in due {
            if self.is_refuted(&timer) {
                continue;
            }
            if let Err(error) = self.foca.handle_timer(timer, &mut self.io) {
                result = Err(error);
            }
        }
        result
    }

    /// Whether a timer is about a suspicion that the member has contradicted. foca 2.0.0 then still tells the member
    /// that it is down, upon which that takes a new identity, and is deaf to everybody who knows the old one.
    fn is_refuted(&self, timer: &Timer<Identity>) -> bool {
        let Timer::ChangeSuspectToDown { member_id, incarnation, .. } = timer else { return false };
        !self.foca.iter_members().any(|member| {
            member.id() == member_id && member.incarnation() == *incarnation && member.state() == foca::State::Suspect
        })
    }

    pub(super) fn next_timeout(&self) -> Option<Timestamp> {
        self.io.timers.next_deadline()
    }

    pub(super) fn take_sends(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut self.io.sends)
    }

    pub(super) fn take_notifications(&mut self) -> Vec<OwnedNotification<Identity>> {
        std::mem::take(&mut self.io.notifications)
    }

    /// Lets updates travel as often as a cluster of this size needs. Sizes are rounded up to powers of two, so that a
    /// roll-out does not reconfigure at every step.
    pub(super) fn resize(&mut self) {
        let members = u32::try_from(self.foca.num_members()).unwrap_or(u32::MAX).saturating_add(1);
        let wanted = members.checked_next_power_of_two().unwrap_or(members);
        if wanted == self.sized_for {
            return;
        }
        self.sized_for = wanted;
        // Only the number of transmissions differs from the configuration in force, and that may change at any time.
        let result = self.foca.set_config(foca_config(&self.swim, wanted));
        debug_assert!(result.is_ok(), "foca refused a changed number of transmissions: {result:?}");
    }
}

/// Transmissions of an update by each member that hears of it. foca's figure for small clusters, 2 to 5, leaves one
/// suspicion in some hundreds unheard by the suspect where a tenth of the datagrams is lost, and a member that cannot
/// contradict is declared down.
const MIN_TRANSMISSIONS: NonZeroU8 = NonZeroU8::MIN.saturating_add(11);

fn foca_config(swim: &SwimConfig, members: u32) -> foca::Config {
    let sized = foca::Config::new_lan(NonZeroU32::new(members).unwrap_or(NonZeroU32::MIN));
    let one = NonZeroUsize::MIN;
    foca::Config {
        probe_period: swim.probe_interval,
        probe_rtt: swim.probe_timeout,
        suspect_to_down_after: swim.suspicion_timeout,
        remove_down_after: Some(swim.forget_after),
        max_transmissions: sized.max_transmissions.max(MIN_TRANSMISSIONS),
        max_packet_size: NonZeroUsize::new(MAX_SWIM).unwrap_or(one),
        notify_down_members: true,
        periodic_announce: Some(PeriodicParams { frequency: Duration::from_secs(30), num_members: one }),
        periodic_announce_to_down_members: Some(PeriodicParams {
            frequency: swim.reconnect_interval,
            num_members: one.saturating_add(2),
        }),
        periodic_gossip: Some(PeriodicParams {
            frequency: swim.probe_interval / 5,
            num_members: one.saturating_add(2),
        }),
        ..sized
    }
}
