//! What an error of the client means for the connection.

use ::redis::{ErrorKind, RedisError, ServerErrorKind};

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server does not know the script, and did nothing.
    NoScript,
    /// The server did nothing, and will not as long as it is what it is: a replica, or busy with loading. Another connection
    /// may lead to another one.
    NotNow,
    /// The connection is gone, or nobody knows what its next bytes mean. The request may have arrived.
    Lost,
    /// It is the answer.
    Final,
}

impl Fault {
    pub(super) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => Self::NoScript,
            ErrorKind::Server(
                ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown,
            ) => Self::NotNow,
            // Up to Redis 6 what stops a script is told in the words of an error of the script.
            ErrorKind::Server(_) | ErrorKind::Extension
                if error.detail().is_some_and(|detail| detail.contains("-READONLY ")) =>
            {
                Self::NotNow
            }
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => Self::Lost,
            _ if error.is_unrecoverable_error() => Self::Lost,
            _ => Self::Final,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_answer(line: &str) -> Fault {
        let answer = ::redis::parse_redis_value(format!("{line}\r\n").as_bytes());
        Fault::of(&answer.unwrap().extract_error().unwrap_err())
    }

    #[test]
    fn answers_that_say_that_another_server_should_be_asked_are_told_apart() {
        assert_eq!(of_answer("-NOSCRIPT No matching script. Please use EVAL."), Fault::NoScript);
        assert_eq!(of_answer("-READONLY You can't write against a read only replica."), Fault::NotNow);
        let old =
            "-ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -READONLY You can't write";
        assert_eq!(of_answer(old), Fault::NotNow);
        assert_eq!(of_answer("-LOADING Redis is loading the dataset in memory"), Fault::NotNow);
        assert_eq!(of_answer("-WRONGTYPE Operation against a key"), Fault::Final);
        assert_eq!(of_answer("-OOM command not allowed when used memory > 'maxmemory'."), Fault::Final);
        assert_eq!(of_answer("-ERR anything else"), Fault::Final);
    }

    #[test]
    fn a_connection_that_is_gone_is_lost() {
        for kind in [std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::TimedOut, std::io::ErrorKind::Other] {
            assert_eq!(Fault::of(&std::io::Error::from(kind).into()), Fault::Lost);
        }
    }
}
