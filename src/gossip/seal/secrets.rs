//! The secrets of a cluster, as its operators hand them over.

use std::{fmt, io, sync::Arc};

use zeroize::Zeroizing;

use super::text::{self, Secret};

/// Length of a secret in bytes.
pub const SECRET_LEN: usize = 32;
/// Most secrets that a node holds at a time.
pub const MAX_SECRETS: usize = 8;

/// The secrets of a cluster, 1 to 8 of them, 32 random bytes each: the first one seals, every one opens.
///
/// Several are there to change them without a pause: first all members learn the new one, then all use it, then all
/// forget the old one; see [`Limiter::set_secrets`](crate::Limiter::set_secrets). The bytes are overwritten when the
/// last clone is dropped, and never shown by [`Debug`](fmt::Debug).
///
/// ```
/// use peerlimit::Secrets;
///
/// # fn main() -> Result<(), peerlimit::SecretError> {
/// // openssl rand -hex 32
/// let old = Secrets::from_hex("8f1c4b1c6d5f8a0e5b1d3c7a9e2f4b6d8f1c4b1c6d5f8a0e5b1d3c7a9e2f4b6d")?;
/// // openssl rand -base64 32
/// let new = Secrets::from_base64("pOcEGKT2cIvP3IeuUG1Kn8Nd4yMUo2RB3ZCV5sVq0yQ=")?;
/// let both = new.also_open(&old)?;
/// assert_eq!((both.len(), format!("{both:?}").as_str()), (2, "Secrets(2, Required)"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Secrets {
    keys: Arc<Keys>,
    sealing: Sealing,
}

/// On the heap and behind a count, so that neither a move nor a clone leaves a copy behind.
struct Keys(Zeroizing<Vec<[u8; SECRET_LEN]>>);

/// How much of its traffic a node seals: the stages in which a live cluster goes from no secret to a secret.
///
/// At each of them every member understands the one before and the one after, so a stage may be rolled out node by
/// node, once the one before has reached all. A new cluster starts at the last. With serde they are `prepared`,
/// `preferred` and `required`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Sealing {
    /// First: sends in the clear, as members without a secret do, and opens what is sealed.
    Prepared,
    /// Second: seals, and still takes what is in the clear. Forged frames get in as long as this lasts.
    Preferred,
    /// Last: seals, and drops what is not sealed.
    #[default]
    Required,
}

/// Why something is no secret. It never says what was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// There is none.
    #[error("no secret given, must be 1 to {MAX_SECRETS}")]
    Empty,
    /// There are too many.
    #[error("more than {MAX_SECRETS} secrets given")]
    TooMany,
    /// One has another length than 32 bytes.
    #[error(
        "secret in line {line} is {length} characters long, must be {SECRET_LEN} bytes: 64 hexadecimal digits, or 44 \
         characters of base64"
    )]
    Length {
        /// Which line, from 1; 1 where a single secret was given.
        line: usize,
        /// How many characters it has.
        length: usize,
    },
    /// One has a character that does not belong there.
    #[error("secret in line {line} has a wrong character at column {column}")]
    Character {
        /// Which line, from 1; 1 where a single secret was given.
        line: usize,
        /// Which character of the secret, from 1.
        column: usize,
    },
    /// One is all zeros, as placeholders are.
    #[error("secret in line {line} is all zeros, must be random")]
    Zero {
        /// Which line, from 1, or the how manieth secret it is.
        line: usize,
    },
    /// One is there twice.
    #[error("secret in line {line} is there twice")]
    Twice {
        /// Which line the second one is in, from 1, or the how manieth secret it is.
        line: usize,
    },
    /// A file cannot be read, or is longer than 16 KiB.
    #[error("file of secrets cannot be read")]
    Read(#[source] io::Error),
}

impl Secrets {
    /// These secrets, the first of which seals.
    ///
    /// # Errors
    ///
    /// If there are none or more than 8, or one is all zeros or there twice.
    pub fn new(secrets: impl IntoIterator<Item = [u8; SECRET_LEN]>) -> Result<Self, SecretError> {
        Self::collect((1..).zip(secrets.into_iter().map(|secret| Ok(Secret::new(secret)))))
    }

    /// One secret of 64 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// If it is not that.
    pub fn from_hex(secret: &str) -> Result<Self, SecretError> {
        Self::collect([(1, text::hex(secret.trim(), 1))])
    }

    /// One secret in base64, in the usual or the URL-safe alphabet, with or without the `=` at its end.
    ///
    /// # Errors
    ///
    /// If it is not that.
    pub fn from_base64(secret: &str) -> Result<Self, SecretError> {
        Self::collect([(1, text::base64(secret.trim(), 1))])
    }

    /// Secrets one a line, each in hexadecimal or base64. Blank lines, and what follows a `#`, are skipped.
    ///
    /// # Errors
    ///
    /// Names the first line that is wrong.
    pub fn parse(lines: &str) -> Result<Self, SecretError> {
        let lines = (1..).zip(lines.lines().map(|line| line.split('#').next().unwrap_or_default().trim()));
        Self::collect(
            lines.filter(|(_, secret)| !secret.is_empty()).map(|(line, secret)| (line, text::any(secret, line))),
        )
    }

    /// These, and those of `others` to open with.
    ///
    /// # Errors
    ///
    /// If that makes more than 8.
    pub fn also_open(&self, others: &Self) -> Result<Self, SecretError> {
        let new = others.keys().filter(|other| !self.keys().any(|own| own == *other));
        let all = self.keys().chain(new).map(|secret| Ok(Secret::new(*secret)));
        Ok(Self::collect((1..).zip(all))?.at_stage(self.sealing))
    }

    fn collect(secrets: impl IntoIterator<Item = (usize, Result<Secret, SecretError>)>) -> Result<Self, SecretError> {
        // Never grows, which would leave a copy behind.
        let mut keys = Keys(Zeroizing::new(Vec::with_capacity(MAX_SECRETS)));
        for (line, secret) in secrets {
            keys.add(&*secret?, line)?;
        }
        if keys.0.is_empty() {
            return Err(SecretError::Empty);
        }
        Ok(Self { keys: Arc::new(keys), sealing: Sealing::default() })
    }

    /// The same secrets at another stage of a roll-out. Default: [`Sealing::Required`].
    #[must_use]
    pub fn at_stage(&self, sealing: Sealing) -> Self {
        Self { keys: Arc::clone(&self.keys), sealing }
    }

    /// The stage of the roll-out.
    pub fn sealing(&self) -> Sealing {
        self.sealing
    }

    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.keys.0.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8; SECRET_LEN]> {
        self.keys.0.iter()
    }
}

impl Keys {
    fn add(&mut self, secret: &[u8; SECRET_LEN], line: usize) -> Result<(), SecretError> {
        if *secret == [0; SECRET_LEN] {
            return Err(SecretError::Zero { line });
        }
        if self.0.contains(secret) {
            return Err(SecretError::Twice { line });
        }
        if self.0.len() >= MAX_SECRETS {
            return Err(SecretError::TooMany);
        }
        self.0.push(*secret);
        Ok(())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({}, {:?})", self.len(), self.sealing)
    }
}
