//! The engine: one node's part in the cluster.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use foca::OwnedNotification;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::{
    bucket::{Missing, Timestamp},
    crdt::{Applied, ReplicaLog, RunId, ScopeId},
    table::{Charge, ScopeSpec, SweepPosition, Table},
};

use super::{
    Drops, EngineConfig, GossipStats,
    membership::{Liveness, Membership},
    push::{Peer, Push},
    sync::{Exchange, STALL},
    wire::{DeltaFrame, Frame, FrameError, Identity, MAX_DATAGRAM, RecordBatch, SyncMessage, Tag, encode_frame},
};

/// One node's gossip: membership, push, anti-entropy, sweep.
///
/// It has no clock, no sockets and no randomness of its own. Its methods are of three sorts:
///
/// - **Inputs**, `handle_*`, [`accept_stream`](Self::accept_stream) and [`leave`](Self::leave): something happened at `now`. `now`
///   may repeat but should not go back; if it does, timers are late.
/// - **Outputs**, `poll_*`: drain all of them after any input, in any order. [`poll_timeout`](Self::poll_timeout) is when
///   [`handle_timeout`](Self::handle_timeout) wants to be called next; calling it earlier or more often does nothing.
/// - **Getters**.
///
/// Between an input and the draining of the outputs it may hold as many datagrams as there are peers, times the frames of one
/// flush; nothing accumulates beyond that.
pub struct Engine {
    config: EngineConfig,
    table: Arc<Table>,
    log: ReplicaLog,
    membership: Membership,
    rng: Xoshiro256PlusPlus,
    /// Members held alive, without this node. Derived from `membership` whenever that changes.
    peers: BTreeMap<RunId, Peer>,
    push: Push,
    exchanges: BTreeMap<StreamId, Exchange>,
    next_stream: u64,
    scopes: HashMap<ScopeId, Arc<ScopeSpec>>,
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
    /// At most [`MAX_DATAGRAM`] bytes.
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
}

/// Something an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The node has what the cluster knew, or there is no cluster to ask. Once.
    Ready,
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

/// How far the node has come into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// Discovery has not answered yet.
    Searching,
    /// Addresses were announced to at that time.
    Announced(Timestamp),
    /// Events say ready.
    Ready,
}

/// How far a round of the sweep has come.
#[derive(Debug, Default)]
struct SweepRound {
    at: SweepPosition,
    buckets_done: bool,
    cells_done: bool,
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
    /// How long a member may take to transfer its state before the node starts without.
    const TRANSFER_PATIENCE: Duration = Duration::from_secs(10);
    /// How often a node that nobody answers announces itself.
    const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(500);
    /// How soon a newcomer tries the next member when a transfer broke off.
    const RETRY: Duration = Duration::from_millis(100);
    /// Keys in use whose levels members compare even when they are in step.
    const HOT_KEYS: usize = 64;
    /// How soon members compare notes after one came or came back.
    const REUNION: Duration = Duration::from_millis(200);
    /// How long `leave` waits for a peer to take what was not said.
    const LEAVE_PATIENCE: Duration = Duration::from_millis(500);
    /// Addresses of one discovery round that are announced to.
    const MAX_FOUND: usize = 1024;
    /// Streams that peers may have open here.
    const MAX_ACCEPTED: usize = 16;
    /// Places that one step of the sweep looks at, and cells that it drops.
    const SWEEP_STEP: usize = 1024;

    /// A node that has heard of nobody yet.
    pub fn new(config: EngineConfig, table: Arc<Table>, now: Timestamp) -> Self {
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
            push: Push::new(config.cluster, config.push_gap, config.datagram_budget),
            config,
            table,
            rng,
            peers: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            next_stream: 0,
            scopes: HashMap::new(),
            join: Join::Searching,
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

    /// A datagram arrived. Whatever is wrong with it is counted.
    pub fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8]) {
        self.stats.frames_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        if bytes.len() > MAX_DATAGRAM {
            self.stats.drops.bad_length += 1;
            return;
        }
        let frame = match Frame::decode(bytes, self.config.cluster) {
            Ok(frame) => frame,
            Err(error) => return count_drop(&mut self.stats.drops, error),
        };
        match frame.tag {
            Tag::Swim => self.handle_swim(now, frame.body),
            Tag::Deltas => match DeltaFrame::decode(frame.body) {
                Ok(deltas) => self.handle_deltas(now, frame.sender, &deltas),
                Err(error) => count_drop(&mut self.stats.drops, error),
            },
            Tag::Sync => self.stats.drops.unknown_tag += 1,
        }
    }

    /// A round of discovery ended with these addresses. Those that are no members are announced to; nobody is ever removed.
    pub fn handle_found(&mut self, now: Timestamp, addrs: &[SocketAddr]) {
        let own = self.membership.identity().addr;
        let found: Vec<_> = addrs.iter().copied().filter(|addr| *addr != own).take(Self::MAX_FOUND).collect();
        // An answer without addresses is more likely a fault than news: go on with the last good one.
        if !found.is_empty() {
            self.found = found;
        }
        if self.join == Join::Searching {
            if self.found.is_empty() {
                self.become_ready();
            } else {
                self.join = Join::Announced(now);
            }
        }
        self.announce(now);
    }

    /// Keys became urgent. Harmless if none did.
    pub fn handle_urgent(&mut self, now: Timestamp) {
        if self.left {
            return;
        }
        let frames = self.push.urgent(&self.table, &mut self.log, now);
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
            self.push.begin_flush();
        }
        let frames = self.push.flush_step(&self.table, &mut self.log, now);
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
        self.check_ready(now);
        if self.deadlines.left <= now {
            self.finish_leaving(now);
        }
    }

    /// A peer opened a stream. `None` if there are too many: close it.
    pub fn accept_stream(&mut self, now: Timestamp) -> Option<StreamId> {
        let accepted = self.exchanges.values().filter(|exchange| !exchange.opened_here()).count();
        if accepted >= Self::MAX_ACCEPTED || self.left {
            self.stats.drops.streams_refused += 1;
            return None;
        }
        Some(self.add_exchange(false, now))
    }

    /// A stream is connected, or has sent what it was given, and can take another frame.
    pub fn handle_stream_writable(&mut self, now: Timestamp, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let (table, scopes) = (&self.table, &mut self.scopes);
        let level = |scope, digest| {
            let spec = find_scope(scopes, table, scope)?;
            Some(table.missing(spec.gcra(), digest, now))
        };
        if let Some(message) = exchange.next_piece(&self.log, now, level) {
            self.send_sync(id, &message);
        }
        self.end_if_over(now, id);
    }

    /// A frame arrived on a stream, without its length.
    pub fn handle_stream_frame(&mut self, now: Timestamp, id: StreamId, bytes: &[u8]) {
        if !self.exchanges.contains_key(&id) {
            return;
        }
        self.stats.frames_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        let message = Frame::decode(bytes, self.config.cluster).and_then(|frame| {
            let message = (frame.tag == Tag::Sync).then(|| SyncMessage::decode(frame.body));
            Ok((frame.sender, message.transpose()?))
        });
        match message {
            Ok((_, None)) => self.stats.drops.unknown_tag += 1,
            Ok((sender, Some(message))) if self.peers.contains_key(&sender) => {
                self.handle_sync(now, id, sender, message)
            }
            Ok(_) => {
                self.stats.drops.not_a_member += 1;
                self.break_off(now, id);
            }
            Err(error) => {
                count_drop(&mut self.stats.drops, error);
                // A newer build's message is skipped; anything else leaves no common ground.
                if !matches!(error, FrameError::UnknownTag(_)) {
                    self.break_off(now, id);
                }
            }
        }
    }

    /// A stream could not be opened, or was closed by the peer.
    pub fn handle_stream_closed(&mut self, now: Timestamp, id: StreamId) {
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.exchange_ended(now, exchange.opened_here(), exchange.is_over());
        }
    }

    /// Tells the peers everything that was not said yet, and then good-bye. [`Event::Left`] says when it is done.
    pub fn leave(&mut self, now: Timestamp) {
        if self.left || self.deadlines.left != Timestamp::MAX {
            return;
        }
        self.flush_all(now);
        self.deadlines.left = now;
        if !self.peers.is_empty() {
            // Datagrams may be lost. One peer gets it over a stream, and the others from that one. An exchange under way began
            // before the flush.
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
        let stalled = self.exchanges.values().map(|exchange| exchange.active.saturating_add(STALL)).min();
        let ready = match self.join {
            Join::Announced(at) if self.peers.is_empty() => at.saturating_add(Self::ALONE_AFTER),
            Join::Announced(at) => at.saturating_add(Self::TRANSFER_PATIENCE),
            Join::Searching | Join::Ready => Timestamp::MAX,
        };
        [flush, anti_entropy, sweep, announce, left, swim, push, ready, stalled.unwrap_or(Timestamp::MAX)]
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

    /// This node.
    pub fn identity(&self) -> MemberInfo {
        info(self.membership.identity(), Liveness::Alive)
    }

    /// Counters, and sizes as they are now.
    pub fn stats(&self) -> GossipStats {
        GossipStats {
            cells: self.log.cells() as u64,
            runs: self.log.versions().count() as u64,
            peers: self.peers.len() as u64,
            published: self.push.published(),
            ..self.stats
        }
    }

    /// The cells.
    pub fn log(&self) -> &ReplicaLog {
        &self.log
    }

    // --- membership ---

    fn handle_swim(&mut self, now: Timestamp, body: &[u8]) {
        if let Err(error) = self.membership.handle_data(now, body) {
            self.stats.drops.swim += 1;
            tracing::trace!(%error, "SWIM message refused");
        }
        self.after_membership(now);
    }

    /// Announces this node to those found who are no members, to members held down, and as long as nobody answers to our present
    /// identity, to all members.
    fn announce(&mut self, now: Timestamp) {
        let is_peer = |addr: &SocketAddr| self.peers.values().any(|peer| peer.addr == *addr);
        let known = self.found.iter().copied().chain(self.membership.down());
        let mut wanted: Vec<SocketAddr> = known.filter(|addr| !self.connected || !is_peer(addr)).collect();
        if !self.connected {
            wanted.extend(self.peers.values().map(|peer| peer.addr));
        }
        wanted.sort_unstable();
        wanted.dedup();
        for addr in &wanted {
            if let Err(error) = self.membership.announce(now, *addr) {
                tracing::debug!(%error, %addr, "cannot announce");
            }
        }
        self.after_membership(now);
        let again = !self.connected && !wanted.is_empty();
        self.deadlines.announce = if again { now.saturating_add(Self::ANNOUNCE_INTERVAL) } else { Timestamp::MAX };
    }

    fn after_membership(&mut self, now: Timestamp) {
        let notifications = self.membership.take_notifications();
        if !notifications.is_empty() {
            self.refresh_peers();
        }
        for notification in notifications {
            match notification {
                OwnedNotification::MemberUp(id) => {
                    self.events.push_back(Event::MemberUp(info(&id, Liveness::Alive)));
                    self.compare_notes_soon(now);
                }
                OwnedNotification::MemberDown(id) => {
                    self.events.push_back(Event::MemberDown(info(&id, Liveness::Alive)))
                }
                // A restart at the same address is two members to everybody but foca.
                OwnedNotification::Rename(before, after) if before.run != after.run => {
                    self.events.push_back(Event::MemberDown(info(&before, Liveness::Alive)));
                    self.events.push_back(Event::MemberUp(info(&after, Liveness::Alive)));
                }
                OwnedNotification::Rejoin(_) => {
                    self.events.push_back(Event::Rejoined);
                    // What is sent to the former identity does not reach us, so everybody has to hear of the new one at once.
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
        self.drain_swim();
    }

    /// Somebody came, or came back. A newcomer asks at once; the others within a moment that does not make them all ask at once.
    fn compare_notes_soon(&mut self, now: Timestamp) {
        let within = if self.join == Join::Ready { Self::REUNION.mul_f64(self.rng.random()) } else { Duration::ZERO };
        self.deadlines.anti_entropy = self.deadlines.anti_entropy.min(now.saturating_add(within));
    }

    fn drain_swim(&mut self) {
        let (cluster, run) = (self.config.cluster, self.config.run);
        let frames: Vec<_> = self
            .membership
            .take_sends()
            .map(|(to, body)| Transmit { to, payload: encode_frame(cluster, run, Tag::Swim, &body) })
            .collect();
        for transmit in frames {
            self.transmit(transmit);
        }
    }

    fn refresh_peers(&mut self) {
        self.membership.resize();
        let own = self.config.run;
        let peers = self.membership.members().filter(|(id, _)| id.run != own);
        self.peers = peers.map(|(id, _)| (id.run, Peer { addr: id.addr })).collect();
        self.table.scopes().set_peers(self.peers.len());
        self.push.set_peers(self.peers.len());
    }

    // --- push ---

    /// Says everything at once, whatever the pace: there is no later.
    fn flush_all(&mut self, now: Timestamp) {
        let frames = self.push.flush_all(&self.table, &mut self.log, now);
        self.send_to_peers(frames);
    }

    fn send_to_peers(&mut self, frames: Vec<Bytes>) {
        let addrs: Vec<SocketAddr> = self.peers.values().map(|peer| peer.addr).collect();
        for payload in frames {
            for to in &addrs {
                self.transmit(Transmit { to: *to, payload: payload.clone() });
            }
        }
    }

    fn transmit(&mut self, transmit: Transmit) {
        debug_assert!(transmit.payload.len() <= MAX_DATAGRAM, "datagram of {} bytes", transmit.payload.len());
        self.stats.frames_out += 1;
        self.stats.bytes_out += transmit.payload.len() as u64;
        self.transmits.push_back(transmit);
    }

    fn handle_deltas(&mut self, now: Timestamp, sender: RunId, frame: &DeltaFrame) {
        if !self.peers.contains_key(&sender) {
            self.stats.drops.not_a_member += 1;
            return;
        }
        for delta in &frame.deltas {
            let news = match self.log.apply_delta(sender, delta, now) {
                Applied::News(news) | Applied::NoBaseline(news) => news,
                Applied::Refused => {
                    self.stats.drops.cells_refused += 1;
                    continue;
                }
            };
            if let Some(spec) = find_scope(&mut self.scopes, &self.table, delta.scope) {
                let permits = news.charge(spec.gcra().refill_time());
                if permits > 0 {
                    self.stats.merges += 1;
                    let charge = Charge::news(permits);
                    self.table.charge(spec.index(), spec.gcra(), delta.digest, charge, now);
                }
            }
        }
        if !self.log.cover(sender, frame.from, frame.to, now) {
            self.stats.gaps += 1;
        }
    }

    // --- anti-entropy ---

    fn start_exchange(&mut self, now: Timestamp) {
        let jitter = self.rng.random_range(0.75..1.25);
        self.deadlines.anti_entropy = now.saturating_add(self.config.anti_entropy_interval.mul_f64(jitter));
        if self.exchanges.values().any(Exchange::opened_here) || self.peers.is_empty() {
            return;
        }
        let chosen = self.rng.random_range(0..self.peers.len());
        let Some(addr) = self.peers.values().nth(chosen).map(|peer| peer.addr) else { return };
        let id = self.add_exchange(true, now);
        self.commands.push_back(StreamCommand::Open(id, addr));
        self.send_sync(id, &Exchange::open(&self.log));
    }

    fn add_exchange(&mut self, opened_here: bool, now: Timestamp) -> StreamId {
        self.next_stream += 1;
        let id = StreamId(self.next_stream);
        self.exchanges.insert(id, Exchange::new(opened_here, now));
        id
    }

    fn handle_sync(&mut self, now: Timestamp, id: StreamId, sender: RunId, message: SyncMessage) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let began = matches!(message, SyncMessage::Versions(_));
        let hot = match message {
            SyncMessage::Summary(_) | SyncMessage::Versions(_) => {
                let since = now.saturating_sub(self.config.anti_entropy_interval * 2);
                self.log.hot_keys(since, Self::HOT_KEYS)
            }
            _ => Vec::new(),
        };
        let Ok((step, answer)) = exchange.handle(sender, message, &self.log, hot, now) else {
            self.stats.drops.malformed += 1;
            self.break_off(now, id);
            return;
        };
        if let Some((batch, as_of)) = &step.records {
            self.merge_records(now, batch, *as_of);
        }
        // A run that we know nothing of and that is no member has no cells left anywhere: it must not come back.
        for covered in step.covered {
            if self.peers.contains_key(&covered.run) || self.log.has_cells_of(covered.run) {
                self.log.fill(covered.run, covered.from, covered.to);
            }
        }
        for held in step.theirs {
            if self.peers.contains_key(&held.run) || self.log.has_cells_of(held.run) {
                let at = now.saturating_sub(Duration::from_secs(held.age_secs.into()));
                self.log.note_in_step(held.run, held.version, at);
            }
        }
        match answer {
            Some(answer) => self.send_sync(id, &answer),
            None if began => self.handle_stream_writable(now, id),
            None => {}
        }
        self.end_if_over(now, id);
    }

    fn merge_records(&mut self, now: Timestamp, batch: &RecordBatch, as_of: Timestamp) {
        for record in batch.records() {
            let spec = find_scope(&mut self.scopes, &self.table, record.scope);
            // Where a baseline was missing, or too old to tell anything, only the level counts. It never over-charges, so it is
            // taken in any case.
            let mut charge = Charge { permits: 0, missing: record.missing.unwrap_or_default(), as_of };
            for cell in &record.cells {
                // What the sender keeps only because it has not swept yet must not start a new life here.
                if self.is_expired(cell.age_secs) && record.missing.unwrap_or_default() == Missing::default() {
                    continue;
                }
                match self.log.apply_record(record, cell, now) {
                    Applied::News(news) => {
                        let permits = spec.as_ref().map_or(0, |spec| news.charge(spec.gcra().refill_time()));
                        charge.permits = charge.permits.saturating_add(permits);
                    }
                    Applied::NoBaseline(_) => {}
                    Applied::Refused if cell.run == self.config.run => {}
                    Applied::Refused => self.stats.drops.cells_refused += 1,
                }
            }
            if let Some(spec) = spec
                && charge.says_anything()
            {
                self.stats.merges += 1;
                self.table.charge(spec.index(), spec.gcra(), record.digest, charge, now);
            }
        }
    }

    fn is_expired(&self, age_secs: u32) -> bool {
        self.config.sweeping.is_some_and(|sweeping| Duration::from_secs(age_secs.into()) >= sweeping.key_ttl)
    }

    fn send_sync(&mut self, id: StreamId, message: &SyncMessage) {
        let frame = encode_frame(self.config.cluster, self.config.run, Tag::Sync, &message.encode());
        self.stats.frames_out += 1;
        self.stats.bytes_out += frame.len() as u64;
        self.commands.push_back(StreamCommand::Send(id, frame));
    }

    fn end_if_over(&mut self, now: Timestamp, id: StreamId) {
        let Some(exchange) = self.exchanges.get(&id).filter(|exchange| exchange.is_over()) else { return };
        let opened_here = exchange.opened_here();
        self.exchanges.remove(&id);
        self.commands.push_back(StreamCommand::Close(id));
        self.exchange_ended(now, opened_here, true);
    }

    fn break_off(&mut self, now: Timestamp, id: StreamId) {
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.commands.push_back(StreamCommand::Close(id));
            self.exchange_ended(now, exchange.opened_here(), false);
        }
    }

    fn drop_stalled(&mut self, now: Timestamp) {
        let stalled = self.exchanges.iter().filter(|(_, exchange)| exchange.active.saturating_add(STALL) <= now);
        let stalled: Vec<StreamId> = stalled.map(|(id, _)| *id).collect();
        for id in stalled {
            self.break_off(now, id);
        }
    }

    fn exchange_ended(&mut self, now: Timestamp, opened_here: bool, well: bool) {
        if well {
            self.stats.syncs += 1;
        } else {
            self.stats.syncs_failed += 1;
        }
        if !opened_here {
            return;
        }
        if well {
            self.become_ready();
        } else if self.join != Join::Ready {
            self.deadlines.anti_entropy = now.saturating_add(Self::RETRY);
        }
        if self.deadlines.left != Timestamp::MAX {
            self.deadlines.left = now;
        }
    }

    // --- life ---

    fn check_ready(&mut self, now: Timestamp) {
        if let Join::Announced(at) = self.join {
            let patience = if self.peers.is_empty() { Self::ALONE_AFTER } else { Self::TRANSFER_PATIENCE };
            if now.saturating_since(at) >= patience {
                self.become_ready();
            }
        }
    }

    fn become_ready(&mut self) {
        if self.join != Join::Ready {
            self.join = Join::Ready;
            self.events.push_back(Event::Ready);
        }
    }

    fn sweep(&mut self, now: Timestamp) {
        let Some(sweeping) = self.config.sweeping else {
            self.deadlines.sweep = Timestamp::MAX;
            return;
        };
        if !self.sweep.buckets_done {
            self.sweep.at = self.table.sweep(self.sweep.at, Self::SWEEP_STEP, sweeping.key_ttl, now);
            self.sweep.buckets_done = self.sweep.at.is_start();
        }
        if !self.sweep.cells_done {
            let table = &self.table;
            let swept = self.log.sweep(now, Self::SWEEP_STEP, |digest| !table.is_full(digest, now));
            self.stats.cells_evicted += swept.dropped as u64;
            self.sweep.cells_done = !swept.more;
        }
        let round_over = self.sweep.buckets_done && self.sweep.cells_done;
        if round_over {
            self.sweep = SweepRound::default();
            let peers = &self.peers;
            self.log.forget_runs(|run| peers.contains_key(&run));
        }
        // Small steps, so that neither decisions nor peers wait for a sweep.
        let pause = if round_over { sweeping.interval } else { Duration::from_millis(1) };
        self.deadlines.sweep = now.saturating_add(pause);
    }

    fn finish_leaving(&mut self, now: Timestamp) {
        // Whatever was admitted while a peer took the rest.
        self.flush_all(now);
        if let Err(error) = self.membership.leave(now) {
            tracing::debug!(%error, "cannot say good-bye");
        }
        // foca picks a few members at random each time; a small cluster hears it whole.
        for _ in 0..2 {
            if let Err(error) = self.membership.gossip(now) {
                tracing::debug!(%error, "cannot say good-bye");
            }
        }
        self.drain_swim();
        self.left = true;
        self.events.push_back(Event::Left);
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("identity", self.membership.identity()).finish_non_exhaustive()
    }
}

/// The scope that peers call `id`, if this node has it. Scopes are never removed, so what was found stays good.
fn find_scope(cache: &mut HashMap<ScopeId, Arc<ScopeSpec>>, table: &Table, id: ScopeId) -> Option<Arc<ScopeSpec>> {
    if let Some(spec) = cache.get(&id) {
        return Some(Arc::clone(spec));
    }
    let spec = table.scopes().find(id)?;
    cache.insert(id, Arc::clone(&spec));
    Some(spec)
}

fn info(id: &Identity, liveness: Liveness) -> MemberInfo {
    MemberInfo { name: id.name.as_str().to_owned(), addr: id.addr, run: id.run, liveness }
}

fn count_drop(drops: &mut Drops, error: FrameError) {
    let counter = match error {
        FrameError::TooShort => &mut drops.bad_length,
        FrameError::Version(_) => &mut drops.version,
        FrameError::ForeignCluster => &mut drops.foreign_cluster,
        FrameError::UnknownTag(_) => &mut drops.unknown_tag,
        FrameError::Malformed => &mut drops.malformed,
    };
    *counter += 1;
}
