//! Why a round of discovery could not be made.

use std::error::Error;

/// Why a [`Discoverer`](crate::Discoverer) could not make a round.
///
/// A name that merely does not resolve is not among the reasons: it gives no addresses yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// A setting cannot be used. The caller's mistake, and it lasts: nobody was asked, and no round will succeed.
    #[error("{setting} {value:?}: {problem}")]
    #[non_exhaustive]
    Invalid {
        /// Which setting it is.
        setting: &'static str,
        /// What it was set to.
        value: String,
        /// What is wrong with the value, and which values would do.
        problem: &'static str,
    },

    /// This round failed; the next one may succeed. Addresses found earlier stay in use.
    #[error("peers could not be looked up")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl DiscoverError {
    /// Wraps whatever kept a round from being made; [`source`](Error::source) gives it back.
    ///
    /// Takes any error type, and text where there is none.
    ///
    /// ```
    /// use std::error::Error as _;
    ///
    /// use peerlimit::DiscoverError;
    ///
    /// let error = DiscoverError::new("the catalog answered with an empty page");
    /// assert_eq!(error.to_string(), "peers could not be looked up");
    /// assert_eq!(
    ///     error.source().map(ToString::to_string).as_deref(),
    ///     Some("the catalog answered with an empty page"),
    /// );
    /// ```
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(source.into())
    }

    pub(super) fn invalid(setting: &'static str, value: impl Into<String>, problem: &'static str) -> Self {
        Self::Invalid { setting, value: value.into(), problem }
    }
}
