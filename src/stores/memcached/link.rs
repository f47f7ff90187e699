//! The task that keeps the one connection to a server.
//!
//! All callers share it: their commands go out one after the other without waiting for answers, as many in one packet
//! as there are. It connects when somebody asks, and leaves a server alone for a while that fails; meanwhile callers
//! hear of it at once.

use std::{io, pin::pin, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::{
    bucket::Timestamp,
    net::{Clock, unguessable_u64},
};

use super::{
    backoff::Backoff,
    dial::Dial,
    error::MemcachedError,
    pipeline::{Limits, Pipeline, Request, Waiting},
    reply::{Garbage, parse},
};

pub(super) struct Link {
    limits: Arc<Limits>,
    connect_timeout: Duration,
    clock: Clock,
    queue: mpsc::Receiver<Request>,
    waiting: Waiting,
    dial: Dial,
    backoff: Backoff,
    down: Option<Down>,
}

/// That the server is left alone.
struct Down {
    until: Timestamp,
    source: Arc<io::Error>,
}

/// Why a connection is of no use any more.
enum Lost {
    Broken(io::Error),
    Silent,
    Garbled(Garbage),
}

/// That nobody is left who could ask.
struct Abandoned;

impl Link {
    /// Room that is made for answers at once.
    const READ: usize = 16 * 1024;
    /// Bytes that were sent and are still kept, at most, while more are added behind them.
    const SENT_KEPT: usize = 64 * 1024;

    pub(super) fn new(
        limits: &Arc<Limits>,
        connect_timeout: Duration,
        clock: Clock,
        queue: mpsc::Receiver<Request>,
    ) -> Self {
        Self {
            limits: Arc::clone(limits),
            connect_timeout,
            clock,
            queue,
            waiting: Waiting::new(limits),
            dial: Dial::new(&limits.server),
            backoff: Backoff::default(),
            down: None,
        }
    }

    /// Runs until nobody is left who could ask.
    pub(super) async fn run(mut self) {
        while let Some(request) = self.queue.recv().await {
            if let Some(down) = self.down.as_ref().filter(|down| self.clock.now() < down.until) {
                request.answer(Err(self.unreachable(&down.source)));
                continue;
            }
            self.waiting.push(request);
            let Ok(()) = self.up().await else { return };
        }
    }

    /// Connects and answers, until the connection is lost or cannot be made.
    async fn up(&mut self) -> Result<(), Abandoned> {
        match self.connect().await? {
            Ok(stream) => {
                tracing::debug!(server = %self.limits.server, "connected");
                self.serve(stream).await
            }
            Err(error) => {
                let source = self.leave_alone(error);
                let error = self.unreachable(&source);
                self.waiting.drain().for_each(|request| request.answer(Err(error.clone())));
                Ok(())
            }
        }
    }

    async fn connect(&mut self) -> Result<io::Result<TcpStream>, Abandoned> {
        let Self { dial, queue, waiting, clock, connect_timeout, .. } = self;
        let deadline = clock.now().saturating_add(*connect_timeout);
        let mut connecting = pin!(clock.before(deadline, dial.connect()));
        loop {
            let due = waiting.next_due();
            tokio::select! {
                connected = &mut connecting => {
                    return Ok(connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())));
                }
                request = queue.recv() => waiting.push(request.ok_or(Abandoned)?),
                () = clock.sleep_until(due.unwrap_or(Timestamp::MAX)), if due.is_some() => waiting.expire(clock.now()),
            }
        }
    }

    async fn serve(&mut self, stream: TcpStream) -> Result<(), Abandoned> {
        let mut pipeline = Pipeline::new(&self.limits);
        let lost = self.exchange(stream, &mut pipeline).await?;
        let (error, source) = match lost {
            Lost::Broken(source) => {
                let source = Arc::new(source);
                let server = Arc::clone(&self.limits.server);
                (MemcachedError::Disconnected { server, source: Arc::clone(&source) }, source)
            }
            Lost::Silent => (self.limits.timed_out(), Arc::new(io::ErrorKind::TimedOut.into())),
            Lost::Garbled(garbage) => {
                let server = Arc::clone(&self.limits.server);
                let error = MemcachedError::Garbled { server, what: garbage.text() };
                (error, Arc::new(io::Error::new(io::ErrorKind::InvalidData, garbage)))
            }
        };
        if pipeline.has_answered() {
            self.backoff.worked();
        }
        // Servers close connections that are not used, and restart; then the next one to ask may connect at once.
        if !(pipeline.has_answered() && pipeline.is_idle()) {
            self.leave_alone_for(source);
        }
        pipeline.fail(&error);
        Ok(())
    }

    /// Sends and receives until the connection is lost.
    async fn exchange(&mut self, mut stream: TcpStream, pipeline: &mut Pipeline) -> Result<Lost, Abandoned> {
        let Self { queue, waiting, clock, .. } = self;
        let (mut reader, mut writer) = stream.split();
        let (mut out, mut sent) = (Vec::new(), 0);
        let mut inbox = BytesMut::new();
        let now = clock.now();
        waiting.drain().for_each(|request| pipeline.send(request, now, &mut out));
        // It may go off early, as those it was set for may be answered by then.
        let mut timer = pin!(clock.sleep_until(Timestamp::MAX));
        let mut timer_at = Timestamp::MAX;
        loop {
            if let Some(due) = pipeline.next_due().filter(|due| *due < timer_at) {
                timer.set(clock.sleep_until(due));
                timer_at = due;
            }
            inbox.reserve(Self::READ);
            tokio::select! {
                request = queue.recv() => {
                    let now = clock.now();
                    pipeline.send(request.ok_or(Abandoned)?, now, &mut out);
                    while let Ok(request) = queue.try_recv() {
                        pipeline.send(request, now, &mut out);
                    }
                }
                written = writer.write(&out[sent..]), if sent < out.len() => match written {
                    Ok(0) => return Ok(Lost::Broken(io::ErrorKind::WriteZero.into())),
                    Ok(written) => {
                        sent += written;
                        if sent == out.len() || sent > Self::SENT_KEPT {
                            out.drain(..sent);
                            sent = 0;
                        }
                    }
                    Err(error) => return Ok(Lost::Broken(error)),
                },
                read = reader.read_buf(&mut inbox) => match read {
                    Ok(0) => return Ok(Lost::Broken(io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {
                        if let Err(garbage) = deliver(&mut inbox, pipeline) {
                            return Ok(Lost::Garbled(garbage));
                        }
                    }
                    Err(error) => return Ok(Lost::Broken(error)),
                },
                () = &mut timer, if timer_at < Timestamp::MAX => {
                    timer_at = Timestamp::MAX;
                    if pipeline.expire(clock.now()) {
                        return Ok(Lost::Silent);
                    }
                }
            }
        }
    }

    fn unreachable(&self, source: &Arc<io::Error>) -> MemcachedError {
        MemcachedError::Unreachable { server: Arc::clone(&self.limits.server), source: Arc::clone(source) }
    }

    fn leave_alone(&mut self, source: io::Error) -> Arc<io::Error> {
        let source = Arc::new(source);
        self.leave_alone_for(Arc::clone(&source));
        source
    }

    fn leave_alone_for(&mut self, source: Arc<io::Error>) {
        let wait = self.backoff.failed(unguessable_u64());
        tracing::debug!(server = %self.limits.server, %source, ?wait, "left alone for a while");
        self.down = Some(Down { until: self.clock.now().saturating_add(wait), source });
    }
}

/// Delivers all answers that are there.
fn deliver(inbox: &mut BytesMut, pipeline: &mut Pipeline) -> Result<(), Garbage> {
    while let Some((reply, used)) = parse(inbox)? {
        inbox.advance(used);
        pipeline.deliver(reply)?;
    }
    Ok(())
}
