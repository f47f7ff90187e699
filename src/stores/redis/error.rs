//! Why there is no store, and why there is no decision.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use ::redis::{ErrorKind, ServerErrorKind, Value};

/// Why a [`Redis`](super::Redis) cannot be built, or a prefix not be used. Nothing was left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A time is outside its bounds.
    #[error("{field} is {value:?}, must be from {least:?} to {most:?}")]
    Duration {
        /// The builder method that set it.
        field: &'static str,
        /// What it was set to.
        value: Duration,
        /// The shortest that makes sense.
        least: Duration,
        /// The longest that makes sense.
        most: Duration,
    },
    /// A prefix is empty, too long, or has characters that keys must not have.
    #[error("prefix is {prefix:?}, must be 1 to {most} characters of graphic ASCII without braces")]
    Prefix {
        /// What it was set to.
        prefix: String,
        /// Most characters.
        most: usize,
    },
    /// The address of a server cannot be used. It is not shown, as it may have a password.
    #[error("url {index} of a Redis server: {reason}")]
    Url {
        /// Its place among those given, from 0.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The addresses do not make a cluster: there are none, or they contradict each other.
    #[error("urls of a Redis cluster: {reason}")]
    Cluster {
        /// What is wrong with them.
        reason: String,
    },
}

/// Why a Redis server made no decision. Unless it says otherwise, nothing was consumed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// There was no answer in time. The permits may be consumed nevertheless: the request may have arrived.
    #[error("Redis did not answer within {after:?}")]
    Timeout {
        /// The response timeout.
        after: Duration,
    },
    /// There is no connection, and none to be had in time. Where it was lost during the request, that may have arrived.
    #[error("no connection to Redis: {cause}")]
    Unavailable {
        /// What became of the last one.
        #[source]
        cause: Cause,
    },
    /// The server answered with an error.
    #[error("Redis answered with an error: {cause}")]
    Server {
        /// What it said.
        #[source]
        cause: Cause,
    },
    /// The server answered with something that is no decision.
    #[error("Redis answered with what is no decision: {answer}")]
    Answer {
        /// What it said.
        answer: String,
    },
}

impl RedisError {
    pub(super) fn no_decision(answer: &Value) -> Self {
        Self::Answer { answer: format!("{answer:?}") }
    }
}

/// What the client of Redis says of an error.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    pub(super) fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// Whether it is that keys of one request are not on one server.
    pub(super) fn crosses_slots(&self) -> bool {
        let error = self.0.downcast_ref::<::redis::RedisError>();
        error.is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot))
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// The connection was not made in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {0:?}")]
pub(super) struct NotInTime(pub(super) Duration);

/// Nothing came over the connection, though it was asked for something.
#[derive(Debug, thiserror::Error)]
#[error("silent for {0:?}")]
pub(super) struct Silent(pub(super) Duration);

/// The task that connected ended before it had a connection: its runtime was shut down.
#[derive(Debug, thiserror::Error)]
#[error("the attempt to connect was cancelled")]
pub(super) struct Cancelled;
