//! What crosses the network: pinned, bounded, and never a panic.

mod deltas;
mod golden;
mod hostile;
mod sync;

use std::{net::SocketAddr, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    bucket::Missing,
    crdt::{Count, Delta, Digest, DigestKey, Epoch, KeyRecord, RunCell, RunId, ScopeId, Version},
};

/// Nothing is written to disk: the failing case that is printed repeats a failure.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn cluster() -> ClusterId {
    ClusterId::new(&DigestKey::PUBLIC, "")
}

/// Integers of every encoded length.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..=260_u64, 65_000..=66_000_u64, (0..64_u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)]
}

fn short() -> impl Strategy<Value = u32> {
    number().prop_map(|number| number as u32)
}

fn a_digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 16]>().prop_map(Digest::from_bytes)
}

fn a_run() -> impl Strategy<Value = RunId> {
    any::<u64>().prop_map(RunId::from_raw)
}

fn a_version() -> impl Strategy<Value = Version> {
    number().prop_map(Version::from_raw)
}

fn a_cell() -> impl Strategy<Value = RunCell> {
    (a_run(), short(), number(), a_version(), short()).prop_map(|(run, epoch, permits, version, age_secs)| RunCell {
        run,
        count: Count { epoch: Epoch::from_raw(epoch), permits },
        version,
        age_secs,
    })
}

fn a_record() -> impl Strategy<Value = KeyRecord> {
    let cells = prop::collection::vec(a_cell(), 0..6);
    (0..3_u64, a_digest(), prop::option::of(number()), cells).prop_map(|(scope, digest, missing, cells)| KeyRecord {
        scope: ScopeId::from_raw(scope),
        digest,
        missing: missing.map(Missing::from_raw),
        cells: cells.into(),
    })
}

fn batch(elapsed: Duration, records: Vec<KeyRecord>) -> RecordBatch {
    let mut batch = RecordBatch::new(elapsed);
    for record in records {
        assert!(batch.push(record), "the batch is small");
    }
    batch
}

fn a_message() -> impl Strategy<Value = SyncMessage> {
    let held = (a_run(), a_version(), short()).prop_map(|(run, version, age_secs)| HeldRun { run, version, age_secs });
    let covered =
        (a_run(), a_version(), a_version()).prop_map(|(run, from, to)| Covered { run, from, to, dropped: None });
    prop_oneof![
        any::<u64>().prop_map(SyncMessage::Summary),
        Just(SyncMessage::InStep),
        prop::collection::vec(held, 0..40).prop_map(SyncMessage::Versions),
        (prop::collection::vec(a_record(), 0..20), number())
            .prop_map(|(records, micros)| { SyncMessage::Records(batch(Duration::from_micros(micros), records)) }),
        prop::collection::vec(covered, 0..40).prop_map(SyncMessage::Done),
    ]
}

/// Deltas with successive or leaping versions, in runs of one scope.
fn some_deltas(most: usize) -> impl Strategy<Value = Vec<Delta>> {
    let one = (0..3_u64, a_digest(), short(), number(), number(), prop_oneof![9 => Just(0_u64), 1 => 1..1_000_u64]);
    (number(), prop::collection::vec(one, 1..most)).prop_map(|(first, ones)| {
        let mut version = Version::from_raw(first.min(1 << 60));
        let mut deltas = Vec::new();
        for (scope, digest, epoch, a, b, gap) in ones {
            version = version.checked_add(1 + gap).expect("far from the end");
            let (from, to) = (a.min(b), a.max(b));
            let scope = ScopeId::from_raw(scope);
            deltas.push(Delta { scope, digest, epoch: Epoch::from_raw(epoch), from, to, version });
        }
        deltas
    })
}

fn name(text: &str) -> NodeName {
    NodeName::try_from(text.to_owned()).expect("short enough")
}

fn an_identity() -> impl Strategy<Value = Identity> {
    let v4 = (any::<[u8; 4]>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::from((ip, port)));
    let v6 = (any::<[u8; 16]>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::from((ip, port)));
    (prop_oneof![v4, v6], a_run(), number(), short(), "[a-z]{0,64}")
        .prop_map(|(addr, run, started, renewals, label)| Identity { addr, run, started, renewals, name: name(&label) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
