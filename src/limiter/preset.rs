//! Settings that go together.

use crate::gossip::Pace;

/// The settings of a kind of network, for [`Builder::preset`](super::Builder::preset).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Preset {
    /// One data centre or several zones of a region: round trips of some milliseconds at most. What is set where nothing
    /// is said.
    #[default]
    Lan,
    /// Several regions: round trips up to half a second, and some loss. Failures are noticed later, and limits are as
    /// exact as the distance allows.
    Wan,
}

impl Preset {
    pub(super) const fn pace(self) -> Pace {
        match self {
            Self::Lan => Pace::LAN,
            Self::Wan => Pace::WAN,
        }
    }
}
