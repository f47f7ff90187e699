//! Deltas, written into datagrams and read from them.

use std::{hint::black_box, time::Duration};

use peerlimit::{
    crdt::{Delta, Digest},
    gossip::wire::{DeltaFrame, DeltaWriter, HEADER_LEN},
};

use crate::{
    Stopwatch, print,
    support::{
        log::{self, Peer},
        options::Options,
        rounds::interleave,
    },
};

const CELLS: usize = 10_000;
const AGE: Duration = Duration::from_millis(100);

type Plain = (u64, [u8; Digest::LEN], u32, u64, u64);

pub fn run(options: &Options) {
    if !options.wants("wire") {
        return;
    }
    let deltas = deltas();
    let (bodies, plain_bytes) = (write(&deltas), write_plain(&deltas));
    let read_back: Vec<Delta> = bodies.iter().flat_map(|body| read(body).deltas).collect();
    assert_eq!(read_back, deltas, "what was written is read");

    let times = options.size(200, 20);
    let each = |call: &dyn Fn()| {
        let mut watch = Stopwatch::default();
        watch.time(|| (0..times).for_each(|_| call()));
        watch.nanos_each(times * CELLS)
    };
    let encode = || each(&|| drop(black_box(write(black_box(&deltas)))));
    let encode_plain = || each(&|| drop(black_box(write_plain(black_box(&deltas)))));
    let decode = || each(&|| bodies.iter().for_each(|body| drop(black_box(read(black_box(body))))));
    let decode_plain = || each(&|| drop(black_box(read_plain(black_box(&plain_bytes)))));
    let rounds = options.rounds();
    print("wire encode", &interleave(rounds, &mut [Box::new(encode), Box::new(encode_plain)]));
    print("wire decode", &interleave(rounds, &mut [Box::new(decode), Box::new(decode_plain)]));

    let bytes: usize = bodies.iter().map(|body| HEADER_LEN + body.len()).sum();
    println!(
        "wire bytes   | {:.1} a cell in {} datagrams, all headers of ours included; plain {:.1}",
        bytes as f64 / CELLS as f64,
        bodies.len(),
        plain_bytes.len() as f64 / CELLS as f64,
    );
}

/// News of busy keys: counts of some thousand permits, of which some are new.
fn deltas() -> Vec<Delta> {
    let mut peer = Peer::new(0);
    let admitted = |(index, digest): (usize, Digest)| {
        let gained = 1 + index as u64 % 9;
        peer.permits = 1_000 + index as u64 * 31 % 50_000;
        let delta = peer.admits(digest);
        Delta { to: delta.from + gained, ..delta }
    };
    log::digests(CELLS).into_iter().enumerate().map(admitted).collect()
}

fn write(deltas: &[Delta]) -> Vec<Vec<u8>> {
    let mut writer = DeltaWriter::default();
    deltas.iter().for_each(|delta| writer.push(delta, AGE));
    writer.finish()
}

fn read(body: &[u8]) -> DeltaFrame {
    DeltaFrame::decode(body).expect("it was written by this build")
}

fn write_plain(deltas: &[Delta]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(deltas.len() * 32);
    for delta in deltas {
        let gained = delta.to - delta.from;
        let plain: Plain = (delta.scope.raw(), delta.digest.to_bytes(), delta.epoch.raw(), delta.to, gained);
        bincode::serde::encode_into_std_write(plain, &mut bytes, bincode::config::standard()).expect("memory takes it");
    }
    bytes
}

fn read_plain(mut bytes: &[u8]) -> Vec<Plain> {
    let mut cells = Vec::with_capacity(CELLS);
    while !bytes.is_empty() {
        let read = bincode::serde::decode_from_slice(bytes, bincode::config::standard());
        let (plain, length) = read.expect("it was written by this program");
        cells.push(plain);
        bytes = &bytes[length..];
    }
    cells
}
