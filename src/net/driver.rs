//! Drives one engine.
//!
//! One task, in a fixed order: drain what the engine wants done, publish what users may see, wait for the next input.
//! Each turn does a bounded amount of work. The clock, not the sleeper, decides what is due.

use std::{io, mem, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
    time::sleep,
};

use crate::{
    bucket::Timestamp,
    gossip::{Drops, Engine, Event, Secrets, StreamCommand, Transmit, wire::MAX_DATAGRAM},
    table::Table,
};

use super::{
    Clock, Sockets,
    node::Shared,
    streams::{StreamEvent, Streams},
};

/// Datagrams that one turn takes.
const DATAGRAMS_PER_TURN: usize = 64;
/// How long accepting pauses where the system has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long the last streams may take after the engine has left.
const LAST_STREAMS: Duration = Duration::from_millis(500);
/// The longest sleep. Also how old a published member list may be.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// Reports what was dropped, at most so often.
const DROP_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Tells operators of dropped frames, without letting whoever sends them fill the log.
#[derive(Debug, Default)]
struct DropLog {
    reported: Drops,
    next: Timestamp,
}

impl DropLog {
    fn look(&mut self, drops: Drops, now: Timestamp) {
        if drops != self.reported && now >= self.next {
            tracing::warn!(since_start = ?drops, new = drops.total() - self.reported.total(), "frames dropped");
            self.reported = drops;
            self.next = now.saturating_add(DROP_LOG_INTERVAL);
        }
    }
}

/// What a [`Node`](super::Node) asks of its driver.
#[derive(Debug)]
pub(super) enum Command {
    /// Leave, then stop.
    Close,
    /// Seal with these from now on, then say so.
    SetSecrets(Secrets, oneshot::Sender<()>),
}

pub(super) struct Driver {
    pub(super) engine: Engine,
    pub(super) table: Arc<Table>,
    pub(super) sockets: Sockets,
    pub(super) clock: Clock,
    pub(super) shared: Arc<Shared>,
    pub(super) urgent: Arc<Notify>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) found: mpsc::Receiver<Vec<SocketAddr>>,
    pub(super) finder: AbortHandle,
}

/// However the driver ends, the table learns that nobody drives it.
struct Detach(Arc<Table>);

impl Drop for Detach {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// What a turn waits for.
enum Input {
    Command(Option<Command>),
    Urgent,
    Readable(io::Result<()>),
    Writable(io::Result<()>),
    Accepted(io::Result<tokio::net::TcpStream>),
    Stream(Option<StreamEvent>),
    Found(Option<Vec<SocketAddr>>),
    Time,
}

impl Driver {
    /// Runs until the node is closed or dropped.
    pub(super) async fn run(mut self) {
        let _detach = Detach(Arc::clone(&self.table));
        let (mut streams, mut events) = Streams::new();
        // A datagram for which the socket had no room.
        let mut blocked: Option<Transmit> = None;
        let mut accept_from = Timestamp::ZERO;
        let mut published = Timestamp::ZERO;
        let mut drop_log = DropLog::default();
        let mut discovering = true;
        let mut crowded = false;
        let mut buffer = vec![0; MAX_DATAGRAM + 1];

        let left = loop {
            self.transmit(&mut blocked);
            while let Some(command) = self.engine.poll_stream() {
                match command {
                    StreamCommand::Open(id, to) => streams.connect(id, to),
                    StreamCommand::Send(id, frame) => streams.send(id, frame),
                    StreamCommand::Close(id) => streams.close(id),
                    StreamCommand::Cut(id) => streams.cut(id),
                }
            }
            streams.reap();
            let now = self.clock.now();
            if self.publish_events() {
                break true;
            }
            if now.saturating_since(published) >= LONGEST_SLEEP {
                published = now;
                self.shared.publish_peers(&self.engine, self.clock.now());
                drop_log.look(self.engine.stats().drops, now);
            }
            self.shared.publish_stats(&self.engine);
            if mem::take(&mut crowded) {
                // A socket that stays readable never makes this task wait, and with one thread nobody else would run.
                tokio::task::yield_now().await;
            }

            let due = self.engine.poll_timeout().saturating_since(now).min(LONGEST_SLEEP);
            let accepting = accept_from <= now;
            let input = tokio::select! {
                command = self.commands.recv() => Input::Command(command),
                () = self.urgent.notified() => Input::Urgent,
                result = self.sockets.udp.readable() => Input::Readable(result),
                result = self.sockets.udp.writable(), if blocked.is_some() => Input::Writable(result),
                result = self.sockets.tcp.accept(), if accepting => Input::Accepted(result.map(|(stream, _)| stream)),
                event = events.recv() => Input::Stream(event),
                found = self.found.recv(), if discovering => Input::Found(found),
                () = sleep(due) => Input::Time,
            };

            let now = self.clock.now();
            match input {
                // The last handle is gone: nobody waits for a good-bye.
                Input::Command(None) => break false,
                Input::Command(Some(Command::Close)) => self.engine.leave(now),
                Input::Command(Some(Command::SetSecrets(secrets, done))) => {
                    self.engine.set_secrets(&secrets);
                    tracing::info!(?secrets, "seals with other secrets");
                    // Nobody has to wait for it.
                    let _nobody_waits = done.send(());
                }
                Input::Urgent => self.engine.handle_urgent(now),
                Input::Readable(Ok(())) => crowded = self.receive(&mut buffer),
                Input::Writable(Ok(())) => {}
                Input::Readable(Err(error)) | Input::Writable(Err(error)) => {
                    tracing::debug!(%error, "UDP socket");
                    tokio::task::yield_now().await;
                }
                Input::Accepted(Ok(stream)) => {
                    if streams.is_full() {
                        self.engine.refuse_stream();
                    } else if let Some(id) = self.engine.accept_stream(now) {
                        streams.accepted(id, stream);
                    }
                }
                Input::Accepted(Err(error)) => {
                    tracing::debug!(%error, "cannot accept");
                    accept_from = now.saturating_add(ACCEPT_PAUSE);
                }
                Input::Stream(Some(StreamEvent::Writable(id))) => self.engine.handle_stream_writable(now, id),
                Input::Stream(Some(StreamEvent::Frame(id, frame))) => self.engine.handle_stream_frame(now, id, &frame),
                Input::Stream(Some(StreamEvent::Closed(id))) => self.engine.handle_stream_closed(now, id),
                Input::Found(Some(addrs)) => {
                    let local = self.sockets.local_addr();
                    let reachable: Vec<_> =
                        addrs.into_iter().filter(|addr| Sockets::reachable(local, *addr).is_some()).collect();
                    self.engine.handle_found(now, &reachable);
                }
                Input::Found(None) => discovering = false,
                // `streams` holds a sender, so there is always one.
                Input::Stream(None) | Input::Time => {}
            }
            let now = self.clock.now();
            if self.engine.poll_timeout() <= now {
                self.engine.handle_timeout(now);
            }
        };

        self.finder.abort();
        // What the engine said last. A peer that takes no datagrams now will miss the node soon enough.
        self.transmit(&mut blocked);
        if left && tokio::time::timeout(LAST_STREAMS, streams.finish()).await.is_err() {
            tracing::debug!("streams cut at close");
        }
        self.shared.publish_stats(&self.engine);
    }

    /// Sends until there is nothing left or the socket has no room.
    fn transmit(&mut self, blocked: &mut Option<Transmit>) {
        let local = self.sockets.local_addr();
        while let Some(transmit) = blocked.take().or_else(|| self.engine.poll_transmit()) {
            let Some(to) = Sockets::reachable(local, transmit.to) else { continue };
            match self.sockets.udp.try_send_to(&transmit.payload, to) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *blocked = Some(transmit);
                    return;
                }
                // Whatever it is, it concerns this datagram: an unreachable host, a full buffer, a closed port heard
                // of late.
                Err(error) => {
                    self.shared.count_send_error();
                    tracing::debug!(%error, %to, "cannot send");
                }
            }
        }
    }

    /// Takes some datagrams. Returns whether there may be more.
    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        for _ in 0..DATAGRAMS_PER_TURN {
            match self.sockets.udp.try_recv_from(buffer) {
                Ok((length, _)) => {
                    let now = self.clock.now();
                    self.engine.handle_datagram(now, &buffer[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // An error of an earlier datagram that we sent.
                Err(error) => tracing::debug!(%error, "cannot receive"),
            }
        }
        true
    }

    /// Returns whether the engine has left.
    fn publish_events(&mut self) -> bool {
        let mut members_changed = false;
        let mut left = false;
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Ready => self.shared.set_ready(),
                Event::MemberUp(member) => {
                    tracing::info!(name = member.name, addr = %member.addr, run = %member.run, "member up");
                    members_changed = true;
                }
                Event::MemberDown(member) => {
                    tracing::info!(name = member.name, addr = %member.addr, run = %member.run, "member down");
                    members_changed = true;
                }
                Event::NobodyAnswers(addresses) => {
                    tracing::warn!(addresses, "nobody answers where peers should be; limits alone and goes on trying");
                }
                Event::Rejoined => tracing::warn!("was declared down by the cluster, and rejoined"),
                Event::Left => left = true,
            }
        }
        if members_changed {
            self.shared.publish_peers(&self.engine, self.clock.now());
        }
        left
    }
}
