//! A flush: drained from the table, published in the log, written into datagrams.

use std::hint::black_box;

use peerlimit::{
    Quota,
    crdt::{DigestKey, ReplicaLog},
    gossip::wire::{ClusterId, DeltaWriter, Tag, encode_frame},
    table::{TableOptions, Unsent},
};

use crate::{
    Stopwatch,
    support::{
        log::{self, NOW},
        options::Options,
        rivals::BareTable,
        rounds::interleave,
    },
};

const QUOTA: Quota = Quota::per_second(1_000).burst(1_000_000);
/// Busy keys, among as many more that are known.
const BUSY: usize = 1_000;
const KNOWN: usize = 100_000;

pub fn run(options: &Options) {
    if !options.wants("publish") {
        return;
    }
    let bare = BareTable::new(QUOTA, TableOptions { max_keys: 1 << 20, publish: true });
    let digests = log::digests(KNOWN);
    let mut log = log::of_own(&digests);
    let mut unsent = Vec::new();
    let flushes = options.size(200, 20);
    let flush_some = || {
        let mut watch = Stopwatch::default();
        for _ in 0..flushes {
            for digest in digests.iter().step_by(KNOWN / BUSY) {
                let decision = bare.table.decide(&bare.rule(), *digest, 1, NOW);
                debug_assert!(decision.allowed, "the quota is ample");
            }
            watch.time(|| flush(&bare, &mut log, &mut unsent));
        }
        watch.nanos_each(flushes * BUSY)
    };
    let measured = interleave(options.rounds(), &mut [Box::new(flush_some)]);
    let nanos = measured.median(0, |nanos| *nanos);
    println!(
        "publish      | {:8.2} M/s: {nanos:6.1} ns; a flush of {BUSY} keys {:.0} us",
        1_000.0 / nanos,
        nanos * BUSY as f64 / 1_000.0
    );
}

/// What the engine does in a flush, up to the socket.
fn flush(bare: &BareTable, log: &mut ReplicaLog, unsent: &mut Vec<Unsent>) {
    let cluster = ClusterId::new(&DigestKey::PUBLIC, "");
    let mut next = Some(0);
    while let Some(from) = next {
        next = bare.table.drain_dirty_from(from, 1024, NOW, unsent);
        let mut writer = DeltaWriter::default();
        for unsent in unsent.drain(..) {
            writer.push(&log.publish(log::SCOPE, unsent.digest, unsent.permits, NOW), unsent.age);
        }
        for body in writer.finish() {
            drop(black_box(encode_frame(cluster, log.own(), Tag::Deltas, &body)));
        }
    }
}
