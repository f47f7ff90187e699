//! What the page may ask for, and why it may be refused.

use serde::Deserialize;

/// Nodes at most, those that are down included.
pub(crate) const MOST_NODES: usize = 12;
/// Requests per second to one node, at most.
pub(crate) const MOST_LOAD: u32 = 2000;

/// A request of the page. Nodes are counted from 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    /// Requests per second to one node, or to each.
    Load { node: Option<usize>, rate: u32 },
    /// The share of datagrams that is lost.
    Loss { percent: u8 },
    /// Cuts the network in two, or heals it.
    Cut { on: bool },
    /// Whether every node decides alone.
    Alone { on: bool },
    /// Ends a node without good-bye.
    Kill { node: usize },
    /// Starts a node that was killed.
    Restart { node: usize },
    /// Adds a node.
    Add {},
}

/// Why a command was not carried out. Nothing was changed, but a node that could not be started stays, and is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("rate is {0}, must be at most {MOST_LOAD}")]
    Rate(u32),
    #[error("percent is {0}, must be at most 100")]
    Percent(u8),
    #[error("node is {0}, must be from 1 to {1}")]
    Node(usize, usize),
    #[error("node {0} is down")]
    IsDown(usize),
    #[error("node {0} is up")]
    IsUp(usize),
    #[error("there are {MOST_NODES} nodes, which is the most")]
    TooMany,
    #[error("the node could not be started; the terminal says why")]
    CannotStart,
}

impl Command {
    /// Checks all numbers against what there is.
    pub(crate) fn check(self, nodes: usize) -> Result<(), Refused> {
        match self {
            Self::Load { rate, .. } if rate > MOST_LOAD => Err(Refused::Rate(rate)),
            Self::Load { node: Some(node), .. } | Self::Kill { node } | Self::Restart { node }
                if !(1..=nodes).contains(&node) =>
            {
                Err(Refused::Node(node, nodes))
            }
            Self::Loss { percent } if percent > 100 => Err(Refused::Percent(percent)),
            Self::Add {} if nodes >= MOST_NODES => Err(Refused::TooMany),
            _ => Ok(()),
        }
    }
}
