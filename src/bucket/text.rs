//! Quotas as text.

use std::{fmt, str::FromStr, time::Duration};

use super::{Quota, QuotaError};

const SECOND: u64 = 1_000_000_000;

/// Units of time and their nanoseconds, the longest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 24 * 60 * 60 * SECOND),
    ("h", 60 * 60 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", SECOND / 1_000),
    ("us", SECOND / 1_000_000),
    ("ns", 1),
];

/// Why a text is no quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseQuotaError {
    /// It has another form.
    #[error("{text:?} is no quota; write COUNT/PERIOD, as in \"100/s\", \"5/10m\" or \"100/s burst 50\"")]
    Form {
        /// The text.
        text: String,
    },
    /// It says something that no quota can be.
    #[error("{text:?} is no quota")]
    Quota {
        /// The text.
        text: String,
        /// What is wrong with it.
        source: QuotaError,
    },
}

/// `COUNT/PERIOD`, and ` burst BURST` where that is not the count, and ` refuse all` where it
/// [refuses everything](Quota::refuse_all). A period is one of the units `d`, `h`, `m`, `s`, `ms`, `us`, `ns`, or a
/// number of them.
///
/// ```
/// use peerlimit::Quota;
///
/// let quota: Quota = "100/s burst 50".parse()?;
/// assert_eq!(quota, Quota::per_second(100).burst(50));
/// assert_eq!("5/10m".parse::<Quota>()?.to_string(), "5/10m");
/// assert!("100 per second".parse::<Quota>().is_err());
/// # Ok::<(), peerlimit::ParseQuotaError>(())
/// ```
impl FromStr for Quota {
    type Err = ParseQuotaError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || ParseQuotaError::Form { text: text.to_owned() };
        let invalid = |source| ParseQuotaError::Quota { text: text.to_owned(), source };
        let (rest, refuses_all) = match text.strip_suffix(" refuse all") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (rate, burst) = match rest.split_once(" burst ") {
            Some((rate, burst)) => (rate, Some(number(burst).ok_or_else(form)?)),
            None => (rest, None),
        };
        let (count, period) = rate.split_once('/').ok_or_else(form)?;
        let (count, period) = (number(count).ok_or_else(form)?, read_period(period).ok_or_else(form)?);
        let mut quota = Self::new(count, period).map_err(invalid)?;
        if let Some(burst) = burst {
            quota = quota.with_burst(burst).map_err(invalid)?;
        }
        Ok(if refuses_all { quota.refuse_all() } else { quota })
    }
}

/// The form that [`FromStr`] reads.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.count())?;
        write_period(self.period(), f)?;
        if self.burst_size() != self.count() {
            write!(f, " burst {}", self.burst_size())?;
        }
        if self.refuses_all() { f.write_str(" refuse all") } else { Ok(()) }
    }
}

/// Digits alone: no sign, and no white space.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn read_period(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let count = if count.is_empty() { 1 } else { number(count)? };
    // What does not fit is far beyond any quota, and of no other form.
    Some(Duration::from_nanos(count.saturating_mul(*nanos)))
}

/// In the longest unit of which it is a whole number.
fn write_period(period: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let nanos = period.as_nanos();
    let whole = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(u128::from(*unit)));
    let (name, unit) = whole.copied().unwrap_or(("ns", 1));
    match nanos / u128::from(unit) {
        1 => f.write_str(name),
        count => write!(f, "{count}{name}"),
    }
}
