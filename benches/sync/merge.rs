//! Deltas of peers, merged into the log and charged to the table.

use std::{
    collections::{HashMap, hash_map},
    time::Duration,
};

use peerlimit::{
    Quota,
    bucket::Timestamp,
    crdt::{Applied, Digest, ReplicaLog, RunId, ScopeId},
    gossip::wire::DeltaFrame,
    table::{Charge, Rule, TableOptions},
};

use crate::{
    DATAGRAM, Stopwatch, print,
    support::{
        log::{self, NOW, Peer},
        options::Options,
        rivals::BareTable,
        rounds::interleave,
    },
};

const QUOTA: Quota = Quota::per_second(1_000).burst(1_000_000);
const RUNS: u64 = 10;
/// Deltas that arrive at once: a flush of a busy peer.
const BATCH: usize = 10_000;

pub fn run(options: &Options) {
    if !options.wants("merge") {
        return;
    }
    let digests = log::digests(options.size(100_000, 20_000));
    let batches = options.size(40, 5);
    let bare = || BareTable::new(QUOTA, TableOptions { max_keys: 1 << 20, publish: true });

    let (mut log, table) = (log::of_others(RUNS, &digests), bare());
    let rules = Rules::from([(log::SCOPE, table.rule())]);
    let mut peers = Peers::that_told_of(&digests);
    let mut library = || {
        let mut watch = Stopwatch::default();
        for _ in 0..batches {
            let (run, now, frames) = peers.next_batch(&digests);
            watch.time(|| frames.iter().for_each(|frame| merge(&mut log, &table, &rules, run, frame, now)));
        }
        watch.nanos_each(batches * BATCH)
    };

    let (mut counts, plain_table) = (HashMap::new(), bare());
    for run in 0..RUNS {
        counts.extend(digests.iter().map(|digest| ((Peer::new(run).run, *digest), 1)));
    }
    let mut plain_peers = Peers::that_told_of(&digests);
    let mut plain = || {
        let mut watch = Stopwatch::default();
        for _ in 0..batches {
            let (run, now, frames) = plain_peers.next_batch(&digests);
            watch.time(|| frames.iter().for_each(|frame| merge_counts(&mut counts, &plain_table, run, frame, now)));
        }
        watch.nanos_each(batches * BATCH)
    };
    print("merge", &interleave(options.rounds(), &mut [Box::new(&mut library), Box::new(&mut plain)]));
}

/// The engine looks up the scope of each delta.
type Rules = HashMap<ScopeId, Rule>;

/// What the engine does with a frame of deltas.
fn merge(log: &mut ReplicaLog, table: &BareTable, rules: &Rules, run: RunId, frame: &DeltaFrame, now: Timestamp) {
    if log.holds(run, frame.from, frame.to) {
        return;
    }
    let as_of = now.saturating_sub(frame.age);
    for delta in &frame.deltas {
        let news = match log.apply_delta(run, delta, now) {
            Applied::News(news) | Applied::NoBaseline(news) => news,
            Applied::Refused => continue,
        };
        let permits = news.charge(QUOTA.refill_time());
        if let Some(rule) = rules.get(&delta.scope)
            && permits > 0
        {
            table.table.charge(rule, delta.digest, Charge::news(permits, as_of), now);
        }
    }
    log.cover(run, frame.from, frame.to, now);
}

fn merge_counts(
    counts: &mut HashMap<(RunId, Digest), u64>,
    table: &BareTable,
    run: RunId,
    frame: &DeltaFrame,
    now: Timestamp,
) {
    let rule = table.rule();
    for delta in &frame.deltas {
        let news = match counts.entry((run, delta.digest)) {
            hash_map::Entry::Occupied(mut count) => {
                let before = count.insert(delta.to.max(*count.get()));
                delta.to.saturating_sub(before)
            }
            hash_map::Entry::Vacant(vacant) => *vacant.insert(delta.to),
        };
        table.table.charge(&rule, delta.digest, Charge::news(news, now), now);
    }
}

/// The peers in turn, each of which tells of the next keys.
struct Peers {
    peers: Vec<Peer>,
    batch: usize,
}

impl Peers {
    /// As of [`log::of_others`]: one permit of every key was told.
    fn that_told_of(digests: &[Digest]) -> Self {
        let mut peers: Vec<Peer> = (0..RUNS).map(Peer::new).collect();
        for peer in &mut peers {
            peer.version = peer.version.checked_add(digests.len() as u64).expect("versions begin at 0");
        }
        Self { peers, batch: 0 }
    }

    fn next_batch(&mut self, digests: &[Digest]) -> (RunId, Timestamp, Vec<DeltaFrame>) {
        let batch = self.batch;
        self.batch += 1;
        let count = self.peers.len();
        let peer = &mut self.peers[batch % count];
        // Above what it told of any key before.
        peer.permits = 1 + (batch / count) as u64;
        // A stride that shares no factor with the number of keys, so that neighbours in a batch are none in the log.
        let digest_at = |index: usize| digests[(batch * BATCH + index * 7_919) % digests.len()];
        let mut frames = Vec::new();
        let mut index = 0;
        while index < BATCH {
            let until = BATCH.min(index + DATAGRAM);
            let from = peer.version;
            let deltas = (index..until).map(|index| peer.admits(digest_at(index))).collect();
            frames.push(DeltaFrame { from, to: peer.version, age: Duration::from_millis(100), deltas });
            index = until;
        }
        let now = NOW.saturating_add(Duration::from_millis(20) * u32::try_from(batch).expect("few batches"));
        (peer.run, now, frames)
    }
}
