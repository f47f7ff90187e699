//! What the engine counts.

/// Counters of one engine since its start, and sizes as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GossipStats {
    /// Cells held now, of all runs.
    pub cells: u64,
    /// Runs known now, our own included.
    pub runs: u64,
    /// Peers held alive now, ourselves not included.
    pub peers: u64,
    /// Datagrams and stream frames received.
    pub frames_in: u64,
    /// Datagrams and stream frames sent.
    pub frames_out: u64,
    /// Bytes in received frames.
    pub bytes_in: u64,
    /// Bytes in sent frames.
    pub bytes_out: u64,
    /// Cells merged that brought news.
    pub merges: u64,
    /// Delta frames that showed an earlier one to be lost or late.
    pub gaps: u64,
    /// Permits told to peers.
    pub published: u64,
    /// Rounds of eager pushes.
    pub pushes: u64,
    /// Anti-entropy exchanges that ended well.
    pub syncs: u64,
    /// Anti-entropy exchanges that broke off.
    pub syncs_failed: u64,
    /// Cells dropped because nobody published them for the time to live.
    pub cells_evicted: u64,
    /// Sealed datagrams that had come before: what is said twice on purpose, or recorded and played again. Of no effect.
    pub duplicates: u64,
    /// Frames dropped, by cause.
    pub drops: Drops,
}

/// Frames and cells dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drops {
    /// Longer than a datagram may be, or shorter than a header.
    pub bad_length: u64,
    /// In another wire format.
    pub version: u64,
    /// Of another cluster.
    pub foreign_cluster: u64,
    /// With a tag of a newer build, or one that does not belong on this way.
    pub unknown_tag: u64,
    /// With a body that is not what its tag promises.
    pub malformed: u64,
    /// Deltas or records of somebody who is no member.
    pub not_a_member: u64,
    /// In the clear, where only sealed frames are taken: of members without the secret, or of strangers.
    pub unsealed: u64,
    /// Sealed under a secret that this node does not have. Of members, it says that a rotation skipped a stage.
    pub unknown_secret: u64,
    /// Sealed, and forged or damaged on the way.
    pub not_authentic: u64,
    /// Sealed, and recorded long ago, on another stream, or here.
    pub replayed: u64,
    /// Of unknown senders, or naming one address, when there were too many of them in a second.
    pub strangers: u64,
    /// SWIM messages that foca refused.
    pub swim: u64,
    /// Cells that claim to be ours, or a version that belongs to another cell.
    pub cells_refused: u64,
    /// Streams refused because there were too many.
    pub streams_refused: u64,
    /// Datagrams of our own to addresses that are no member's, when there were too many of them in a second.
    pub untold: u64,
    /// Datagrams of our own that were dropped because too many waited to be sent.
    pub backlog: u64,
}

impl Drops {
    /// All together.
    pub fn total(&self) -> u64 {
        self.by_cause().map(|(_, count)| count).sum()
    }

    /// The names of the fields, and what they count.
    pub fn by_cause(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let Self {
            bad_length,
            version,
            foreign_cluster,
            unknown_tag,
            malformed,
            not_a_member,
            unsealed,
            unknown_secret,
            not_authentic,
            replayed,
            strangers,
            swim,
            cells_refused,
            streams_refused,
            untold,
            backlog,
        } = *self;
        [
            ("bad_length", bad_length),
            ("version", version),
            ("foreign_cluster", foreign_cluster),
            ("unknown_tag", unknown_tag),
            ("malformed", malformed),
            ("not_a_member", not_a_member),
            ("unsealed", unsealed),
            ("unknown_secret", unknown_secret),
            ("not_authentic", not_authentic),
            ("replayed", replayed),
            ("strangers", strangers),
            ("swim", swim),
            ("cells_refused", cells_refused),
            ("streams_refused", streams_refused),
            ("untold", untold),
            ("backlog", backlog),
        ]
        .into_iter()
    }
}
