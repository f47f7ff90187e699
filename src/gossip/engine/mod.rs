//! The engine: one node's part in the cluster.

mod frames;
mod life;
mod members;
mod news;
mod reconcile;
mod streams;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::{
    bucket::Timestamp,
    crdt::{ReplicaLog, RunId, ScopeId},
    table::{ScopeSpec, Table},
};

use super::{
    EngineConfig, GossipStats, Secrets,
    absence::Absence,
    membership::{Liveness, Membership},
    pauses::Pauses,
    push::{Peer, Push},
    seal::Seal,
    strangers::Strangers,
    sync::Exchange,
    wire::Identity,
};

use life::SweepRound;

/// One node's gossip: membership, push, anti-entropy, sweep.
///
/// It has no clock, no sockets and no randomness of its own. Its methods are of three sorts:
///
/// - **Inputs**, `handle_*`, [`accept_stream`](Self::accept_stream) and [`leave`](Self::leave): something happened at
///   `now`. `now` may repeat but should not go back; if it does, timers are late.
/// - **Outputs**, `poll_*`: drain all of them after any input, in any order. [`poll_timeout`](Self::poll_timeout) is
///   when [`handle_timeout`](Self::handle_timeout) wants to be called next; calling it earlier or more often does
///   nothing.
/// - **Getters**.
///
/// Between an input and the draining of the outputs it may hold as many datagrams as there are peers, times the
/// frames of one flush, up to a bound; nothing accumulates beyond that.
pub struct Engine {
    config: EngineConfig,
    table: Arc<Table>,
    log: ReplicaLog,
    membership: Membership,
    rng: Xoshiro256PlusPlus,
    /// Members held alive, without this node. Derived from `membership` whenever that changes.
    peers: BTreeMap<RunId, Peer>,
    /// Those that were peers a moment ago, and until when their last news is taken.
    departed: BTreeMap<RunId, Timestamp>,
    seal: Seal,
    /// Where frames are opened.
    scratch: Vec<u8>,
    strangers: Strangers,
    pauses: Pauses,
    absence: Absence,
    push: Push,
    exchanges: BTreeMap<StreamId, Exchange>,
    next_stream: u64,
    scopes: HashMap<ScopeId, Subject>,
    join: Join,
    /// Whether some member answers to our present identity.
    connected: bool,
    /// What discovery found last; announced to again while this node is not connected.
    found: Vec<SocketAddr>,
    deadlines: Deadlines,
    sweep: SweepRound,
    left: bool,
    transmits: VecDeque<Transmit>,
    commands: VecDeque<StreamCommand>,
    events: VecDeque<Event>,
    stats: GossipStats,
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Whom to.
    pub to: SocketAddr,
    /// At most [`MAX_DATAGRAM`](super::wire::MAX_DATAGRAM) bytes. The same for all whom a round of news goes to.
    pub payload: Bytes,
}

/// A stream, as engine and driver call it. It never crosses the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

/// What to do with streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamCommand {
    /// Connect, then say so with [`Engine::handle_stream_writable`], or [`Engine::handle_stream_closed`] if it fails.
    Open(StreamId, SocketAddr),
    /// Send this frame, then say so with [`Engine::handle_stream_writable`].
    Send(StreamId, Bytes),
    /// Send what is waiting and close. Nothing will be said of this stream any more.
    Close(StreamId),
    /// Cut it at once: the peer has nothing good in mind, or is too slow. Nothing will be said of it any more.
    Cut(StreamId),
}

/// Something an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The node has what the cluster knew, or there is no cluster to ask. Once.
    Ready,
    /// Discovery found so many addresses, and nobody answers there. The node is ready alone, and goes on announcing
    /// itself.
    NobodyAnswers(usize),
    /// A member came.
    MemberUp(MemberInfo),
    /// A member left or was declared down.
    MemberDown(MemberInfo),
    /// This node was declared down by mistake, and came back.
    Rejoined,
    /// [`Engine::leave`] is done: everything is said. Drain the outputs and stop.
    Left,
}

/// A member as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its label.
    pub name: String,
    /// Where it is reached.
    pub addr: SocketAddr,
    /// Which run it is.
    pub run: RunId,
    /// Whether it answers.
    pub liveness: Liveness,
}

/// A member, and how well its news arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Who.
    pub member: MemberInfo,
    /// When this node last knew that it had all its news, if it ever did.
    pub in_step: Option<Timestamp>,
    /// The greatest age that its news had of late when it was merged: in the last 30 to 60 seconds.
    pub lag: Duration,
}

/// How far the node has come into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// Discovery has not answered since that time.
    Searching(Timestamp),
    /// Addresses were announced to at that time.
    Announced(Timestamp),
    /// Events say ready.
    Ready,
}

#[derive(Debug)]
struct Deadlines {
    flush: Timestamp,
    anti_entropy: Timestamp,
    sweep: Timestamp,
    announce: Timestamp,
    left: Timestamp,
}

impl Engine {
    /// How long announced addresses may stay silent before a node takes itself to be the first of its cluster.
    const ALONE_AFTER: Duration = Duration::from_secs(2);
    /// How long discovery may fail, or a member take to transfer its state, before the node starts without.
    const TRANSFER_PATIENCE: Duration = Duration::from_secs(10);
    /// How often a node that nobody answers announces itself.
    const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(500);
    /// By how many milliseconds a member has to have started before this node to be taken for one that knows what the
    /// cluster knows: longer than a join takes, so that of several that start together none asks another, and is ready
    /// without what was spent.
    const ELDER_BY: u64 = 5_000;
    /// How long after its announcement a newcomer waits to hear of such a member, before it takes the cluster to be as
    /// new as itself.
    const ELDERS_COME: Duration = Duration::from_millis(500);
    /// How soon a newcomer tries the next member when a transfer broke off.
    const RETRY: Duration = Duration::from_millis(100);
    /// Keys in use whose levels members compare even when they are in step.
    const HOT_KEYS: usize = 64;
    /// How long news is taken of a run that is no member any more: datagrams overtake each other, and the good-bye may come
    /// before the last admissions that were told before it.
    const LAST_WORDS: Duration = Duration::from_secs(1);
    /// How soon members compare notes after one came or came back.
    const REUNION: Duration = Duration::from_millis(200);
    /// How long `leave` waits for a peer to take what was not said.
    const LEAVE_PATIENCE: Duration = Duration::from_millis(500);
    /// Announcements of one round.
    const ANNOUNCES: usize = 32;
    /// Addresses of one discovery round that are announced to.
    const MAX_FOUND: usize = 1024;
    /// Streams that peers may have open here, those included that nobody has proven to be a member on.
    const MAX_ACCEPTED: usize = 16;
    /// Datagrams that wait to be sent: a whole flush to a large cluster, and no more.
    const MAX_TRANSMITS: usize = 1 << 16;
    /// Places that one step of the sweep looks at, and cells that it drops.
    const SWEEP_STEP: usize = 1024;

    /// A node that has heard of nobody yet.
    pub fn new(mut config: EngineConfig, table: Arc<Table>, now: Timestamp) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        let identity = Identity {
            addr: config.advertise,
            run: config.run,
            started: config.started,
            renewals: 0,
            name: config.name.clone(),
        };
        let foca_rng = Xoshiro256PlusPlus::from_rng(&mut rng);
        // Nodes of one roll-out start together; their rounds should not.
        let mut spread = |interval: Duration| now.saturating_add(interval.mul_f64(rng.random_range(0.5..1.0)));
        let key_ttl = config.sweeping.map_or(Duration::MAX, |sweeping| sweeping.key_ttl);
        let deadlines = Deadlines {
            flush: spread(config.sync_interval),
            anti_entropy: spread(config.anti_entropy_interval),
            sweep: config.sweeping.map_or(Timestamp::MAX, |sweeping| spread(sweeping.interval)),
            announce: Timestamp::MAX,
            left: Timestamp::MAX,
        };
        Self {
            log: ReplicaLog::new(config.run, config.limits, key_ttl),
            membership: Membership::new(identity, config.swim, foca_rng),
            absence: Absence::new(config.on_partition),
            push: Push::new(config.push_gap, config.datagram_budget),
            // Taken out: what stayed here would outlive its use.
            seal: Seal::new(config.cluster, config.run, config.secrets.take().as_ref()),
            scratch: Vec::new(),
            strangers: Strangers::new(),
            pauses: Pauses::new(config.sync_interval, now),
            config,
            table,
            rng,
            peers: BTreeMap::new(),
            departed: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            next_stream: 0,
            scopes: HashMap::new(),
            join: Join::Searching(now),
            connected: false,
            found: Vec::new(),
            deadlines,
            sweep: SweepRound::default(),
            left: false,
            transmits: VecDeque::new(),
            commands: VecDeque::new(),
            events: VecDeque::new(),
            stats: GossipStats::default(),
        }
    }

    // --- inputs ---

    /// A round of discovery ended with these addresses. Those that are no members are announced to; nobody is ever
    /// removed.
    pub fn handle_found(&mut self, now: Timestamp, addrs: &[SocketAddr]) {
        let own = self.membership.identity().addr;
        let found: Vec<_> = addrs.iter().copied().filter(|addr| *addr != own).take(Self::MAX_FOUND).collect();
        // An answer without addresses is more likely a fault than news: go on with the last good one.
        if !found.is_empty() {
            self.found = found;
        }
        if matches!(self.join, Join::Searching(_)) {
            if self.found.is_empty() {
                self.become_ready();
            } else {
                self.join = Join::Announced(now);
            }
        }
        self.announce(now);
    }

    /// Seals with other secrets from now on, and opens with them.
    pub fn set_secrets(&mut self, secrets: &Secrets) {
        self.seal.set_secrets(secrets);
    }

    /// Keys became urgent. Harmless if none did.
    pub fn handle_urgent(&mut self, now: Timestamp) {
        if self.left {
            return;
        }
        let frames = self.push.urgent(&self.table, &mut self.log, &mut self.seal, now);
        if !frames.is_empty() {
            self.stats.pushes += 1;
        }
        self.send_to_peers(frames);
    }

    /// Time has passed. Does what was due, and nothing if nothing was.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.left {
            return;
        }
        self.notice_pause(now);
        if self.membership.next_timeout().is_some_and(|deadline| deadline <= now) {
            // foca reports what it recovered from by itself.
            if let Err(error) = self.membership.handle_timeout(now) {
                tracing::debug!(%error, "membership timer");
            }
            self.after_membership(now);
        }
        self.handle_urgent(now);
        let echoes = self.push.echo(now);
        self.send_to_peers(echoes);
        if self.deadlines.flush <= now {
            self.deadlines.flush = now.saturating_add(self.config.sync_interval);
            self.push.begin_flush(now);
        }
        let frames = self.push.flush_step(&self.table, &mut self.log, &mut self.seal, now);
        self.send_to_peers(frames);
        if self.deadlines.anti_entropy <= now {
            self.start_exchange(now);
        }
        if self.deadlines.announce <= now {
            self.announce(now);
        }
        if self.deadlines.sweep <= now {
            self.sweep(now);
        }
        self.drop_stalled(now);
        if self.absence.give_up(now) {
            self.peers_changed();
        }
        self.check_ready(now);
        if self.deadlines.left <= now {
            self.finish_leaving(now);
        }
    }

    /// Tells the peers everything that was not said yet, and then good-bye. [`Event::Left`] says when it is done.
    pub fn leave(&mut self, now: Timestamp) {
        if self.left || self.deadlines.left != Timestamp::MAX {
            return;
        }
        self.flush_all(now);
        self.say_leaving();
        self.deadlines.left = now;
        if !self.peers.is_empty() {
            // Datagrams may be lost. One peer gets it over a stream, and the others from that one. An exchange under
            // way began before the flush.
            let open: Vec<StreamId> =
                self.exchanges.iter().filter(|(_, exchange)| exchange.opened_here()).map(|(id, _)| *id).collect();
            for id in open {
                self.break_off(now, id);
            }
            self.deadlines.left = now.saturating_add(Self::LEAVE_PATIENCE);
            self.start_exchange(now);
        }
    }

    // --- outputs ---

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next thing to do with a stream.
    pub fn poll_stream(&mut self) -> Option<StreamCommand> {
        self.commands.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Engine::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Timestamp {
        if self.left {
            return Timestamp::MAX;
        }
        let Deadlines { flush, anti_entropy, sweep, announce, left } = self.deadlines;
        let swim = self.membership.next_timeout().unwrap_or(Timestamp::MAX);
        let push = self.push.next_timeout(&self.table);
        let stalled = self.exchanges.values().map(Exchange::deadline).min();
        let ready = match self.join {
            Join::Announced(at) if self.peers.is_empty() => at.saturating_add(Self::ALONE_AFTER),
            Join::Announced(at) => at.saturating_add(Self::TRANSFER_PATIENCE),
            Join::Searching(at) => at.saturating_add(Self::TRANSFER_PATIENCE),
            Join::Ready => Timestamp::MAX,
        };
        let given_up = self.absence.next_timeout();
        [flush, anti_entropy, sweep, announce, left, swim, push, ready, given_up, stalled.unwrap_or(Timestamp::MAX)]
            .into_iter()
            .fold(Timestamp::MAX, Timestamp::min)
    }

    // --- getters ---

    /// Members held alive, without this node, ordered by run.
    pub fn members(&self) -> Vec<MemberInfo> {
        let mut members: Vec<_> = self.membership.members().map(|(id, liveness)| info(id, liveness)).collect();
        members.sort_by_key(|member| member.run);
        members
    }

    /// The same members, and what is known of their news.
    pub fn peers(&self, now: Timestamp) -> Vec<PeerInfo> {
        let news = |member: MemberInfo| {
            let lag = self.peers.get(&member.run).map_or(Duration::ZERO, |peer| peer.lag.greatest(now));
            PeerInfo { in_step: self.log.in_step(member.run), lag, member }
        };
        self.members().into_iter().map(news).collect()
    }

    /// This node.
    pub fn identity(&self) -> MemberInfo {
        info(self.membership.identity(), Liveness::Alive)
    }

    /// Counters, and sizes as they are now.
    pub fn stats(&self) -> GossipStats {
        GossipStats {
            cells: self.log.cells() as u64,
            runs: self.log.runs() as u64,
            peers: self.peers.len() as u64,
            published: self.push.published(),
            ..self.stats
        }
    }

    /// The cells.
    pub fn log(&self) -> &ReplicaLog {
        &self.log
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("identity", self.membership.identity()).finish_non_exhaustive()
    }
}

/// What a cell's scope says of it.
#[derive(Clone)]
struct Subject {
    /// The scope of the bucket that it concerns.
    spec: Arc<ScopeSpec>,
    /// Whether it counts refunds.
    is_refund: bool,
}

/// What peers call `id`, if this node has that scope. Scopes are never removed, so what was found stays good.
fn find_subject(cache: &mut HashMap<ScopeId, Subject>, table: &Table, id: ScopeId) -> Option<Subject> {
    if let Some(subject) = cache.get(&id) {
        return Some(subject.clone());
    }
    let find = |id, is_refund| table.scopes().find(id).map(|spec| Subject { spec, is_refund });
    let subject = find(id, false).or_else(|| find(id.of_refunds(), true))?;
    cache.insert(id, subject.clone());
    Some(subject)
}

fn info(id: &Identity, liveness: Liveness) -> MemberInfo {
    MemberInfo { name: id.name.as_str().to_owned(), addr: id.addr, run: id.run, liveness }
}
