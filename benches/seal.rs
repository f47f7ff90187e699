//! What a seal costs: a datagram of 1,200 bytes sealed and opened, against the bare calls of the cipher in the same run.
//!
//! `cargo bench --bench seal`. Medians of interleaved rounds, so that a change of the clock's rate hits both alike.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a benchmark reads the clock, and fails loudly")]

use std::{hint::black_box, time::Instant};

use peerlimit::{
    Secrets,
    bucket::Timestamp,
    crdt::{DigestKey, RunId},
    gossip::{
        seal::Seal,
        wire::{ClusterId, HEADER_LEN, MAX_DATAGRAM, SEAL_LEN, SEALED_HEADER_LEN, Tag},
    },
};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Rounds, and calls of each kind in one.
const ROUNDS: usize = 401;
const CALLS: usize = 500;
/// Most that a seal may cost, over the bare call.
const BAR: f64 = 1.5;

struct Bare {
    key: LessSafeKey,
    clear: [u8; SEALED_HEADER_LEN],
    buffer: Vec<u8>,
    number: u64,
}

impl Bare {
    fn new(text: usize) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("32 bytes");
        Self { key: LessSafeKey::new(key), clear: [1; SEALED_HEADER_LEN], buffer: vec![9; text], number: 0 }
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// In place, over and over: no copy, no allocation.
    fn seal(&mut self) -> ring::aead::Tag {
        self.number += 1;
        let sealed =
            self.key.seal_in_place_separate_tag(Self::nonce(self.number), Aad::from(&self.clear), &mut self.buffer);
        sealed.expect("short enough")
    }

    /// Of frames that were sealed before, each in its own buffer.
    fn open(&self, number: u64, frame: &mut [u8]) -> usize {
        self.key.open_in_place(Self::nonce(number), Aad::from(&self.clear), frame).expect("was just sealed").len()
    }
}

fn nanos(calls: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    calls();
    begun.elapsed().as_nanos() as f64 / CALLS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let secrets = Secrets::new([[7; 32]]).expect("one secret");
    let cluster = ClusterId::new(&DigestKey::PUBLIC, "");
    let body = vec![9; MAX_DATAGRAM - HEADER_LEN - SEAL_LEN];
    let mut sender = Seal::new(cluster, RunId::from_raw(1), Some(&secrets));
    let mut reader = Seal::new(cluster, RunId::from_raw(2), Some(&secrets));
    // A reader that knows a large cluster.
    for run in 10..1_010 {
        let frame = Seal::new(cluster, RunId::from_raw(run), Some(&secrets)).datagram(Tag::Leave, &[]);
        let opened = reader.open(Timestamp::ZERO, &frame.expect("a number"), &mut Vec::new()).map(|_| ());
        opened.expect("opens");
    }
    let mut bare = Bare::new(body.len() + 1);
    let mut scratch = Vec::new();
    let [mut seals, mut opens, mut bare_seals, mut bare_opens] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let mut frames = Vec::with_capacity(CALLS);
        bare_seals.push(nanos(|| {
            for _ in 0..CALLS {
                let _tag = black_box(bare.seal());
            }
        }));
        seals.push(nanos(|| {
            for _ in 0..CALLS {
                frames.extend(black_box(sender.datagram(Tag::Deltas, &body)));
            }
        }));
        assert!(frames.len() == CALLS && frames.iter().all(|frame| frame.len() == MAX_DATAGRAM));
        let mut sealed: Vec<(u64, Vec<u8>)> = (0..CALLS)
            .map(|_| {
                let tag = bare.seal();
                (bare.number, [&bare.buffer, tag.as_ref()].concat())
            })
            .collect();
        bare_opens.push(nanos(|| {
            for (number, frame) in &mut sealed {
                black_box(bare.open(*number, frame));
            }
        }));
        opens.push(nanos(|| {
            for frame in &frames {
                let opened = reader.open(Timestamp::ZERO, frame, &mut scratch);
                black_box(opened.expect("was just sealed").body.len());
            }
        }));
    }
    let mut worst = 0_f64;
    println!("{MAX_DATAGRAM} bytes   here    bare cipher   ratio");
    for (name, ours, theirs) in [("seal", seals, bare_seals), ("open", opens, bare_opens)] {
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{name:10} {ours:6.0} ns {theirs:9.0} ns   {:7.2}", ours / theirs);
        worst = worst.max(ours / theirs);
    }
    assert!(worst <= BAR, "a seal costs {worst:.2} times the bare cipher, more than {BAR}");
}
