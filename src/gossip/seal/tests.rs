//! Secrets, seals, windows.

mod channel;
mod frames;
mod golden;
mod secrets;
mod window;

use proptest::prelude::*;

use super::{super::wire::*, *};
use crate::crdt::DigestKey;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn cluster() -> ClusterId {
    ClusterId::new(&DigestKey::PUBLIC, "")
}

/// Secrets of equal bytes.
fn secrets(bytes: &[u8]) -> Secrets {
    Secrets::new(bytes.iter().map(|byte| [*byte; 32])).expect("good secrets")
}

const RUN: RunId = RunId::from_raw(0x1122_3344_5566_7788);
const OTHER: RunId = RunId::from_raw(0x99aa_bbcc_ddee_ff00);

fn sealer(run: RunId, bytes: &[u8]) -> Seal {
    Seal::new(cluster(), run, Some(&secrets(bytes)))
}

/// What `seal` makes of a datagram: its sender, tag and body.
fn open(seal: &mut Seal, bytes: &[u8]) -> Result<(RunId, Tag, Vec<u8>), FrameError> {
    let mut scratch = Vec::new();
    let frame = seal.open(Timestamp::ZERO, bytes, &mut scratch)?;
    Ok((frame.sender, frame.tag, frame.body.to_vec()))
}
