//! What goes wrong, and whose fault it is.

use std::{error::Error, time::Duration};

/// Which of the two limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// The one that decides while it is well.
    Primary,
    /// The one that decides meanwhile.
    Fallback,
}

impl Side {
    /// Its name in metrics and logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Fallback => "fallback",
        }
    }
}

/// How one of the two limiters failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure<E: Error + 'static> {
    /// It said so.
    #[error("{0}")]
    Error(#[source] E),
    /// It did not answer in time. What it was asked for may or may not have been done.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

/// Neither limiter decided, and [`WhenBothFail::Error`](super::WhenBothFail::Error) is set. Nothing is known to have been consumed.
///
/// With a [`Limiter`](crate::Limiter) or a [`Scope`](crate::Scope) as the fallback it does not occur: they answer at once and
/// cannot fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HybridError<P: Error + 'static, F: Error + 'static> {
    /// The primary is left alone for a while, and the fallback failed.
    #[error("the primary is left alone as it failed before, and the fallback failed: {fallback}")]
    Fallback {
        /// How the fallback failed.
        #[source]
        fallback: Failure<F>,
    },
    /// The primary failed, and then the fallback did.
    #[error("the primary failed: {primary}; the fallback failed: {fallback}")]
    Both {
        /// How the primary failed.
        #[source]
        primary: Failure<P>,
        /// How the fallback failed.
        fallback: Failure<F>,
    },
}

/// Why a hybrid cannot be. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HybridSettingsError {
    /// A time is zero, or longer than what any timer can wait.
    #[error("{name} is {value:?}, must be at least 1 ms and at most 1 h")]
    Time {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: Duration,
    },
    /// A number is zero.
    #[error("{name} is 0, must be at least 1")]
    Zero {
        /// The setting.
        name: &'static str,
    },
    /// The longest cool-off is below the shortest.
    #[error("max_cool_off is {max:?}, must be at least the cool_off, {cool_off:?}")]
    CoolOff {
        /// The longest.
        max: Duration,
        /// The shortest.
        cool_off: Duration,
    },
}
