//! The connection that all limiters of one [`Redis`](super::Redis) share, and how it is made anew.
//!
//! It is made by a task of its own, so that no request that is given up takes it along, and only when a request wants it: a
//! service that asks nothing connects to nothing. Requests wait for it while it may be there in time, and fail at once where
//! it will not be.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use ::redis::{Cmd, Value};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Notify, time::timeout};

use crate::{
    bucket::Timestamp,
    net::{Clock, unguessable_u64},
};

use super::{
    RedisError,
    backoff::Backoff,
    error::{Cancelled, Cause, NotInTime, Silent},
    fault::Fault,
    script::Script,
    servers::{Connection, Servers, longest_silence},
};

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) reconnect_pause: Duration,
    pub(super) shared_calls: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_millis(50),
            response_timeout: Duration::from_millis(50),
            reconnect_pause: Duration::from_secs(1),
            shared_calls: true,
        }
    }
}

/// A request to the server.
pub(super) struct Request {
    pub(super) cmd: Cmd,
    /// The script that it calls.
    pub(super) script: Option<&'static Script>,
    /// Whether it may be sent again if nobody knows whether it arrived.
    pub(super) repeatable: bool,
}

pub(super) struct Link {
    servers: Servers,
    settings: Settings,
    clock: Clock,
    state: Mutex<State>,
    /// Whether the connection in use failed to do something. It spares the others the lock.
    in_doubt: AtomicBool,
    /// Whether a call may be about several keys. Who has not seen yet that it may not is told by the server.
    shares_calls: AtomicBool,
    /// Told when an attempt to connect ended, well or not.
    attempted: Notify,
}

struct State {
    phase: Phase,
    /// Counts connections, so that only the first complaint about one takes it down.
    generation: u64,
    /// Whose turn it is among several servers.
    turn: usize,
    backoff: Backoff,
    /// Why there is no connection, if there was an attempt at one.
    cause: Option<Cause>,
}

enum Phase {
    Down,
    Connecting,
    Up {
        connection: Connection,
        /// What the connection lives on.
        runtime: Handle,
        /// When it was first found not to answer, if it has not answered since.
        silent_since: Option<Timestamp>,
    },
}

/// A connection to use, or what to do for want of one.
enum Found {
    Connection(Connection, u64),
    Wait,
    Failed(RedisError),
}

impl Link {
    pub(super) fn new(servers: Servers, settings: Settings) -> Self {
        let shares_calls = settings.shared_calls && servers.are_one();
        let state = State { phase: Phase::Down, generation: 0, turn: 0, backoff: Backoff::default(), cause: None };
        Self {
            servers,
            settings,
            clock: Clock::system(),
            state: Mutex::new(state),
            in_doubt: AtomicBool::new(true),
            shares_calls: AtomicBool::new(shares_calls),
            attempted: Notify::new(),
        }
    }

    /// When a request that is asked now is given up: after the response timeout.
    pub(super) fn deadline(&self) -> Timestamp {
        self.clock.now().saturating_add(self.settings.response_timeout)
    }

    /// Runs something that others than its caller wait for: where the connection lives, without which nothing comes of it anyway.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let runtime = match &self.state.lock().phase {
            Phase::Up { runtime, .. } => Some(runtime.clone()),
            Phase::Connecting | Phase::Down => None,
        };
        drop(runtime.unwrap_or_else(Handle::current).spawn(future));
    }

    /// Whether a call may be about several keys, which are all on one server then.
    pub(super) fn shares_calls(&self) -> bool {
        self.shares_calls.load(Relaxed)
    }

    /// It turned out that there are several servers.
    pub(super) fn share_no_calls(&self) {
        if self.shares_calls.swap(false, Relaxed) {
            tracing::info!("several Redis servers behind one address: calls are not shared any more");
        }
    }

    /// The answer to a request, before `deadline`.
    pub(super) async fn ask(self: &Arc<Self>, request: Request, deadline: Timestamp) -> Result<Value, RedisError> {
        let mut used = None;
        let asked = self.in_time(self.ask_patiently(request, deadline, &mut used), deadline).await;
        asked.unwrap_or_else(|timeout| {
            if let Some(generation) = used {
                self.unanswered(generation);
            }
            Err(timeout)
        })
    }

    /// What comes of something that is waited for, or that there was no time.
    pub(super) async fn in_time<F: IntoFuture>(&self, future: F, deadline: Timestamp) -> Result<F::Output, RedisError> {
        let left = deadline.saturating_since(self.clock.now());
        timeout(left, future).await.map_err(|_| self.timed_out())
    }

    /// Asks until there is an answer, or no hope of one before the timeout. Says by which connection it asked last.
    async fn ask_patiently(
        self: &Arc<Self>,
        mut request: Request,
        deadline: Timestamp,
        used: &mut Option<u64>,
    ) -> Result<Value, RedisError> {
        loop {
            let (mut connection, generation) = self.connection(deadline).await?;
            *used = Some(generation);
            let error = match connection.ask(&request.cmd).await {
                Ok(answer) => {
                    self.answered(generation);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            match (Fault::of(&error), request.script.take()) {
                (Fault::NoScript, Some(script)) => request.cmd = script.in_full(&request.cmd),
                (Fault::NotNow, script) => {
                    request.script = script;
                    self.lose(generation, Cause::new(error));
                }
                (Fault::Lost, _) if self.servers.heal_themselves() => {
                    self.unanswered(generation);
                    return Err(RedisError::Unavailable { cause: Cause::new(error) });
                }
                (Fault::Lost, script) => {
                    request.script = script;
                    let cause = Cause::new(error);
                    self.lose(generation, cause.clone());
                    if !request.repeatable {
                        return Err(RedisError::Unavailable { cause });
                    }
                }
                (Fault::Final | Fault::NoScript, _) => {
                    self.answered(generation);
                    return Err(RedisError::Server { cause: Cause::new(error) });
                }
            }
        }
    }

    /// A connection to ask by, waited for as long as it may come before `deadline`.
    async fn connection(self: &Arc<Self>, deadline: Timestamp) -> Result<(Connection, u64), RedisError> {
        loop {
            // Before it is looked: an attempt that ends in between is not missed.
            let attempted = self.attempted.notified();
            match self.find(deadline) {
                Found::Connection(connection, generation) => return Ok((connection, generation)),
                Found::Wait => attempted.await,
                Found::Failed(error) => return Err(error),
            }
        }
    }

    fn find(self: &Arc<Self>, deadline: Timestamp) -> Found {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Up { connection, .. } => Found::Connection(connection.clone(), state.generation),
            Phase::Connecting => Found::Wait,
            Phase::Down if state.backoff.retry_at() > deadline => {
                let cause = state.cause.clone().unwrap_or_else(|| Cause::new(Cancelled));
                Found::Failed(RedisError::Unavailable { cause })
            }
            Phase::Down => {
                state.phase = Phase::Connecting;
                let attempt = Attempt { link: Arc::clone(self), ended: false };
                let (at, turn) = (state.backoff.retry_at(), state.turn);
                drop(state);
                tokio::spawn(attempt.run(at, turn));
                Found::Wait
            }
        }
    }

    /// A connection answered, with whatever.
    fn answered(&self, generation: u64) {
        // Pairs with the releases where doubts arise. One that is overlooked is met by the next answer.
        if !self.in_doubt.load(Acquire) {
            return;
        }
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        if let Phase::Up { silent_since, .. } = &mut state.phase {
            *silent_since = None;
            state.backoff.worked();
            self.in_doubt.store(false, Release);
        }
    }

    /// A connection did not answer in time. If it has been silent for long, it is given up.
    fn unanswered(&self, generation: u64) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        let Phase::Up { silent_since, .. } = &mut state.phase else { return };
        let silence = now.saturating_since(*silent_since.get_or_insert(now));
        self.in_doubt.store(true, Release);
        if silence >= longest_silence(self.settings.response_timeout) {
            self.fail(&mut state, Cause::new(Silent(silence)));
        }
    }

    /// Why a request was not answered in time: for want of a connection, if it is known why there is none.
    fn timed_out(&self) -> RedisError {
        match &self.state.lock().cause {
            Some(cause) => RedisError::Unavailable { cause: cause.clone() },
            None => RedisError::Timeout { after: self.settings.response_timeout },
        }
    }

    /// A connection is of no use any more.
    fn lose(&self, generation: u64, cause: Cause) {
        let mut state = self.state.lock();
        // Others may have said so before.
        if state.generation == generation && matches!(state.phase, Phase::Up { .. }) {
            self.fail(&mut state, cause);
        }
    }

    /// There is no connection, for that cause; the next server is tried when the time has come.
    fn fail(&self, state: &mut State, cause: Cause) {
        tracing::debug!(%cause, "no connection to Redis");
        state.phase = Phase::Down;
        state.cause = Some(cause);
        state.turn = state.turn.wrapping_add(1);
        state.backoff.failed(self.clock.now(), self.settings.reconnect_pause, unguessable_u64());
    }

    fn attempt_ended(&self, outcome: Result<Connection, Cause>) {
        let mut state = self.state.lock();
        match outcome {
            Ok(connection) => {
                state.generation += 1;
                state.phase = Phase::Up { connection, runtime: Handle::current(), silent_since: None };
                state.cause = None;
                self.in_doubt.store(true, Release);
            }
            Err(cause) => self.fail(&mut state, cause),
        }
        drop(state);
        self.attempted.notify_waiters();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let phase = match state.phase {
            Phase::Down => "down",
            Phase::Connecting => "connecting",
            Phase::Up { .. } => "up",
        };
        f.debug_struct("Link").field("phase", &phase).field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An attempt to connect. If it is dropped before its end, as with a runtime that is shut down, it has failed.
struct Attempt {
    link: Arc<Link>,
    ended: bool,
}

impl Attempt {
    async fn run(mut self, at: Timestamp, turn: usize) {
        let link = Arc::clone(&self.link);
        link.clock.sleep_until(at).await;
        let within = link.settings.connect_timeout * link.servers.steps();
        let outcome = match timeout(within, link.servers.connect(turn)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(Cause::new(error)),
            Err(_) => Err(Cause::new(NotInTime(within))),
        };
        self.ended = true;
        link.attempt_ended(outcome);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.ended {
            self.link.attempt_ended(Err(Cause::new(Cancelled)));
        }
    }
}
