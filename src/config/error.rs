//! What is wrong with settings.

use std::{io, path::PathBuf};

use crate::{gossip::SecretError, limiter::StartError};

/// Why there is no limiter of some settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A text is not in its format, or a file cannot be read.
    #[error("settings cannot be read: {reason}")]
    Source {
        /// What is wrong, and where.
        reason: String,
    },
    /// A field is not known, missing, or has a value of another kind.
    #[error("{path}: {reason}")]
    Field {
        /// The field, as in `evict_idle.key_ttl`.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value is outside its bounds, or the limiter cannot start. The source names the field.
    #[error(transparent)]
    Bounds(StartError),
    /// The file of secrets is not good.
    #[error("secret.file: {}", file.display())]
    Secret {
        /// Which.
        file: PathBuf,
        /// What is wrong with it. It never says what was read.
        source: SecretError,
    },
    /// The file of the digest secret cannot be read.
    #[error("digest_secret_file: {}", file.display())]
    DigestSecret {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}
