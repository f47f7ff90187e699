//! Counters as users see them.

use crate::{gossip::Drops, net::NodeStats, table::TableStats};

/// Counters of one node since its start, and sizes as they are now. They need not agree with each other to the unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Buckets held now.
    pub keys: u64,
    /// G-Counter cells held now, of all runs.
    pub cells: u64,
    /// Runs known now, this one and those that are gone but not forgotten included.
    pub runs: u64,
    /// Members held alive now, this one included; 0 for a local limiter.
    pub members: u64,
    /// Datagrams and stream frames received.
    pub frames_in: u64,
    /// Datagrams and stream frames sent.
    pub frames_out: u64,
    /// Bytes of received frames, without the headers of UDP, TCP and IP.
    pub bytes_in: u64,
    /// Bytes of sent frames, likewise.
    pub bytes_out: u64,
    /// Datagrams that the system refused to send.
    pub send_errors: u64,
    /// Cells merged that brought news.
    pub merges: u64,
    /// Datagrams that showed an earlier one to be lost or late.
    pub gaps: u64,
    /// Permits told to peers.
    pub published: u64,
    /// Rounds of eager pushes.
    pub pushes: u64,
    /// Anti-entropy exchanges that ended well.
    pub syncs: u64,
    /// Anti-entropy exchanges that broke off.
    pub syncs_failed: u64,
    /// Sealed datagrams that had come before: what is said twice on purpose, or recorded and played again. Of no effect.
    pub duplicates: u64,
    /// Frames and cells dropped, by cause.
    pub drops: Drops,
    /// Permits that the cluster admitted beyond what one bucket would have, as far as this node saw it: news of peers
    /// took its buckets that far below empty. An estimate, of all members together; what was
    /// [charged afterwards](crate::Limiter::charge) elsewhere counts too.
    pub excess: u64,
    /// Buckets and cells that went, by cause.
    pub evictions: Evictions,
}

/// Buckets and cells that went, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evictions {
    /// Buckets that were idle and full.
    pub idle: u64,
    /// Buckets that made room at the cap: full ones, else those nearest to full. Never a spent one.
    pub recycled: u64,
    /// Decisions on new keys at the cap for which no bucket could be kept. They were made as on a full bucket.
    pub untracked: u64,
    /// Cells that nobody published for the time to live.
    pub cells: u64,
}

impl Stats {
    pub(super) fn new(table: TableStats, node: NodeStats, members: u64) -> Self {
        let gossip = node.gossip;
        Self {
            keys: table.keys,
            cells: gossip.cells,
            runs: gossip.runs,
            members,
            frames_in: gossip.frames_in,
            frames_out: gossip.frames_out,
            bytes_in: gossip.bytes_in,
            bytes_out: gossip.bytes_out,
            send_errors: node.send_errors,
            merges: gossip.merges,
            gaps: gossip.gaps,
            published: gossip.published,
            pushes: gossip.pushes,
            syncs: gossip.syncs,
            syncs_failed: gossip.syncs_failed,
            duplicates: gossip.duplicates,
            drops: gossip.drops,
            excess: table.excess,
            evictions: Evictions {
                idle: table.idle,
                recycled: table.recycled,
                untracked: table.untracked,
                cells: gossip.cells_evicted,
            },
        }
    }
}
