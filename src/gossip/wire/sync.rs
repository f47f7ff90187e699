//! The steps of anti-entropy.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{
    bucket::Missing,
    crdt::{Count, Digest, Epoch, KeyRecord, RunCell, RunId, ScopeId, Version},
};

use super::{
    FrameError,
    codec::{decode, encode},
};

/// Most runs that one message names, and so most cells of one record: at their longest they still fit into a frame.
pub const MAX_RUNS: usize = 1600;

/// A body of [`Tag::Sync`](super::Tag::Sync): its number, one byte, then its fields. Append-only.
///
/// Who opens the stream says `Summary`. The other answers `InStep`, and that was all, or `Versions`; it does that
/// also in step while keys are in use, for the sake of their levels. From there on both do the same: say `Versions`
/// if not yet done, send what the other lacks in `Records`, and close with `Done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncMessage {
    /// 1: a digest of the sender's `Versions`: 8 bytes.
    Summary(u64),
    /// 2: the summary is also ours.
    InStep,
    /// 3: for each run, what the sender holds of it.
    Versions(Vec<HeldRun>),
    /// 4: some of what the reader lacks.
    Records(RecordBatch),
    /// 5: the reader has now got everything in these ranges.
    Done(Vec<Covered>),
}

/// "Of `run` I miss nothing up to `version`, and that was all there was `age_secs` ago."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRun {
    /// Whose.
    pub run: RunId,
    /// The last version before the first gap.
    #[serde(with = "raw_version")]
    pub version: Version,
    /// Whole seconds, rounded up; 0 for the sender's own run.
    pub age_secs: u32,
}

/// "Everything that `run` published after `from` and up to `to`."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// Whose.
    pub run: RunId,
    /// The version before.
    #[serde(with = "raw_version")]
    pub from: Version,
    /// The last version.
    #[serde(with = "raw_version")]
    pub to: Version,
    /// The latest epoch of which the sender dropped a cell, and so may not have told all.
    pub dropped: Option<u32>,
}

/// Records, collected up to a length.
///
/// On the wire: microseconds since the sender got the reader's `Versions`; the runs and the scopes that occur; then
/// the records, which name both by their position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBatch {
    /// How long after the reader's `Versions` arrived the levels were read. The reader knows when it sent them, so it
    /// knows an instant at which the levels were no higher, and takes none for later than it is.
    pub elapsed: Duration,
    records: Vec<KeyRecord>,
    estimate: usize,
}

impl RecordBatch {
    /// Bytes that a batch aims at: half a frame, so that estimates may be off.
    const TARGET: usize = 32 * 1024;
    /// At most: scope, digest, level, number of cells.
    const RECORD: usize = 3 + Digest::LEN + 10 + 3;
    /// At most: run, epoch, permits, version, age, and the run's id in the list.
    const CELL: usize = 3 + 5 + 9 + 9 + 5 + 8;

    /// An empty batch.
    pub fn new(elapsed: Duration) -> Self {
        Self { elapsed, ..Self::default() }
    }

    /// Adds a record. Returns whether it did: if not, the batch is full.
    pub fn push(&mut self, record: KeyRecord) -> bool {
        let length = Self::RECORD + 8 + Self::CELL * record.cells.len();
        if !self.records.is_empty() && self.estimate + length > Self::TARGET {
            return false;
        }
        self.estimate += length;
        self.records.push(record);
        true
    }

    /// Whether there is anything in it.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records.
    pub fn records(&self) -> &[KeyRecord] {
        &self.records
    }
}

#[derive(Serialize, Deserialize)]
struct BatchWire {
    elapsed_micros: u64,
    runs: Vec<RunId>,
    scopes: Vec<[u8; 8]>,
    records: Vec<RecordWire>,
}

#[derive(Serialize, Deserialize)]
struct RecordWire {
    scope: u16,
    digest: [u8; Digest::LEN],
    missing: Option<u64>,
    cells: Vec<CellWire>,
}

#[derive(Serialize, Deserialize)]
struct CellWire {
    run: u16,
    epoch: u32,
    permits: u64,
    version: u64,
    age_secs: u32,
}

impl SyncMessage {
    /// The body.
    ///
    /// # Panics
    ///
    /// Never: `Versions` and `Done` name at most [`MAX_RUNS`] runs, the rest is left out; a batch is bounded as it is
    /// built. Should a body be too long all the same, it comes out empty, which every reader drops.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let written = match self {
            Self::Summary(digest) => encode((1_u8, digest.to_le_bytes()), &mut body),
            Self::InStep => encode(2_u8, &mut body),
            Self::Versions(versions) => encode((3_u8, &versions[..versions.len().min(MAX_RUNS)]), &mut body),
            Self::Records(batch) => encode((4_u8, batch.to_wire()), &mut body),
            Self::Done(covered) => encode((5_u8, &covered[..covered.len().min(MAX_RUNS)]), &mut body),
        };
        debug_assert!(written.is_ok(), "a sync message outgrew its frame: {written:?}");
        if written.is_err() {
            body.clear();
        }
        body
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// Where its number is a newer build's, it is not what its number promises, or names more than [`MAX_RUNS`] runs
    /// or a position that is not there.
    pub fn decode(mut body: &[u8]) -> Result<Self, FrameError> {
        let body = &mut body;
        match decode::<u8>(body)? {
            1 => Ok(Self::Summary(u64::from_le_bytes(decode(body)?))),
            2 => Ok(Self::InStep),
            3 => {
                let versions: Vec<HeldRun> = decode(body)?;
                bounded(&versions)?;
                Ok(Self::Versions(versions))
            }
            4 => Ok(Self::Records(RecordBatch::from_wire(decode(body)?)?)),
            5 => {
                let covered: Vec<Covered> = decode(body)?;
                bounded(&covered)?;
                Ok(Self::Done(covered))
            }
            unknown => Err(FrameError::UnknownTag(unknown)),
        }
    }
}

fn bounded<T>(runs: &[T]) -> Result<(), FrameError> {
    if runs.len() > MAX_RUNS { Err(FrameError::Malformed) } else { Ok(()) }
}

impl RecordBatch {
    fn to_wire(&self) -> BatchWire {
        let mut runs = Positions::default();
        let mut scopes = Positions::default();
        let records = self.records.iter().map(|record| RecordWire {
            scope: scopes.of(record.scope),
            digest: record.digest.to_bytes(),
            missing: record.missing.map(Missing::raw),
            cells: record
                .cells
                .iter()
                .map(|cell| CellWire {
                    run: runs.of(cell.run),
                    epoch: cell.count.epoch.raw(),
                    permits: cell.count.permits,
                    version: cell.version.raw(),
                    age_secs: cell.age_secs,
                })
                .collect(),
        });
        let records = records.collect();
        let elapsed_micros = u64::try_from(self.elapsed.as_micros()).unwrap_or(u64::MAX);
        BatchWire {
            elapsed_micros,
            runs: runs.list,
            scopes: scopes.list.iter().map(|scope| scope.raw().to_le_bytes()).collect(),
            records,
        }
    }

    fn from_wire(wire: BatchWire) -> Result<Self, FrameError> {
        bounded(&wire.runs)?;
        let mut batch = Self::new(Duration::from_micros(wire.elapsed_micros));
        for record in wire.records {
            let scope = wire.scopes.get(usize::from(record.scope)).ok_or(FrameError::Malformed)?;
            let mut cells = SmallVec::with_capacity(record.cells.len());
            for cell in record.cells {
                cells.push(RunCell {
                    run: *wire.runs.get(usize::from(cell.run)).ok_or(FrameError::Malformed)?,
                    count: Count { epoch: Epoch::from_raw(cell.epoch), permits: cell.permits },
                    version: Version::from_raw(cell.version),
                    age_secs: cell.age_secs,
                });
            }
            batch.records.push(KeyRecord {
                scope: ScopeId::from_raw(u64::from_le_bytes(*scope)),
                digest: Digest::from_bytes(record.digest),
                missing: record.missing.map(Missing::from_raw),
                cells,
            });
        }
        Ok(batch)
    }
}

/// A list of different values, and where each stands in it.
struct Positions<T> {
    list: Vec<T>,
    at: std::collections::BTreeMap<T, u16>,
}

impl<T> Default for Positions<T> {
    fn default() -> Self {
        Self { list: Vec::new(), at: std::collections::BTreeMap::new() }
    }
}

impl<T: Copy + Ord> Positions<T> {
    fn of(&mut self, value: T) -> u16 {
        // A frame has room for fewer than 2^13 ids.
        let next = u16::try_from(self.list.len()).unwrap_or(u16::MAX);
        *self.at.entry(value).or_insert_with(|| {
            self.list.push(value);
            next
        })
    }
}

mod raw_version {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::crdt::Version;

    pub(super) fn serialize<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
        version.raw().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        u64::deserialize(deserializer).map(Version::from_raw)
    }
}
