//! What runs beside the decisions.

use std::{
    num::NonZeroU32,
    thread::sleep,
    time::{Duration, Instant},
};

use peerlimit::{
    Quota,
    bucket::Missing,
    crdt::Digest,
    table::{Charge, SweepPosition, TableOptions},
};

use crate::support::{
    keys::named,
    options::Options,
    rivals::{BareTable, Governor, Rival, governor},
};

/// One permit comes back in a millisecond, so what was used once soon counts as idle; and what was spent deeply does
/// not for a quarter of an hour.
const QUOTA: Quota = Quota::per_second(1_000).burst(1_000_000);
const DEEP: u64 = 900_000;
/// After that a key that was used once is full again.
const FULL_AGAIN: Duration = Duration::from_millis(2);

/// Deltas of one datagram, and records of one frame of a stream, as the gossip task takes them in between two looks at
/// anything else.
const DATAGRAM: usize = 45;
const STREAM_FRAME: usize = 600;
/// Places and keys of one step of a sweep and of a flush.
const STEP: usize = 1024;

/// How much of everything.
pub struct Sizes {
    /// Keys that stay. Decisions are about these.
    pub kept: usize,
    /// Keys that a sweep drops.
    pub gone: usize,
    /// Keys of one flush.
    pub dirty: usize,
    /// Keys of one transfer, all of them new.
    pub records: usize,
    /// Deltas of one merge.
    pub deltas: usize,
    /// How long nothing takes.
    pub nothing: Duration,
}

impl Sizes {
    pub fn of(options: &Options) -> Self {
        let full = Self {
            kept: 500_000,
            gone: 500_000,
            dirty: 100_000,
            records: 100_000,
            deltas: 10_000,
            nothing: Duration::from_millis(20),
        };
        let quick = Self {
            kept: 50_000,
            gone: 50_000,
            dirty: 10_000,
            records: 10_000,
            deltas: 10_000,
            nothing: Duration::from_millis(5),
        };
        options.size(full, quick)
    }
}

/// Work, and what has to be done before it can be done again.
pub struct Load<'a> {
    pub name: &'static str,
    /// Whether it is what the loads after it are compared with.
    pub is_baseline: bool,
    pub prepare: Box<dyn FnMut() + 'a>,
    pub work: Box<dyn FnMut() + Send + 'a>,
}

fn load<'a>(name: &'static str, prepare: impl FnMut() + 'a, work: impl FnMut() + Send + 'a) -> Load<'a> {
    Load { name, is_baseline: false, prepare: Box::new(prepare), work: Box::new(work) }
}

fn nothing<'a>(name: &'static str, time: Duration) -> Load<'a> {
    let spin = move || {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    };
    Load { is_baseline: true, ..load(name, || {}, spin) }
}

/// The table of a node that has peers.
pub struct Library {
    bare: BareTable,
    kept: Vec<Digest>,
    gone: Vec<Digest>,
    records: Vec<Digest>,
}

impl Library {
    pub fn new(kept: &[String], sizes: &Sizes) -> Self {
        // Room for all, so that nothing is recycled.
        let max_keys = 2 * (sizes.kept + sizes.gone + sizes.records);
        let bare = BareTable::new(QUOTA, TableOptions { max_keys, publish: true });
        let digests = |names: &[String]| names.iter().map(|name| bare.digest(name)).collect();
        let (kept, gone) = (digests(kept), digests(&named("gone", sizes.gone)));
        let records = digests(&named("record", sizes.records));
        let library = Self { bare, kept, gone, records };
        for digest in &library.kept {
            library.use_up(*digest, DEEP);
        }
        library
    }

    pub fn decide(&self, key: &String) -> bool {
        self.bare.allow(0, key)
    }

    pub fn loads<'a>(&'a self, sizes: &Sizes) -> Vec<Load<'a>> {
        let dirty = &self.kept[..sizes.dirty];
        // Some kept keys in an order that has nothing to do with how they lie in the table: theirs is by digest.
        let merged = self.kept.iter().cycle().step_by(7).copied().take(sizes.deltas);
        let merged: Vec<Digest> = merged.collect();
        vec![
            nothing("table nothing", sizes.nothing),
            load("table sweep", || self.add_idle(), || self.sweep()),
            load("table merge", || {}, move || self.merge(&merged)),
            load("table flush", || self.make_dirty(dirty), || self.flush()),
            load("table transfer", || self.drop_idle(), || self.take_transfer()),
        ]
    }

    fn use_up(&self, digest: Digest, permits: u64) {
        let decision = self.bare.table.decide(&self.bare.rule(), digest, permits, self.bare.clock.now());
        debug_assert!(decision.allowed || permits != DEEP, "a key is used deeply once");
    }

    fn flush(&self) {
        let (mut next, mut unsent) = (Some(0), Vec::new());
        while let Some(from) = next {
            unsent.clear();
            next = self.bare.table.drain_dirty_from(from, STEP, self.bare.clock.now(), &mut unsent);
        }
    }

    fn make_dirty(&self, digests: &[Digest]) {
        self.flush();
        for digest in digests {
            self.use_up(*digest, 1);
        }
    }

    fn add_idle(&self) {
        for digest in &self.gone {
            self.use_up(*digest, 1);
        }
        // What was not told yet is not dropped.
        self.flush();
        sleep(FULL_AGAIN);
    }

    fn sweep(&self) {
        let mut at = SweepPosition::default();
        loop {
            at = self.bare.table.sweep(at, STEP, Duration::ZERO, self.bare.clock.now());
            if at.is_start() {
                return;
            }
        }
    }

    fn drop_idle(&self) {
        sleep(FULL_AGAIN);
        self.flush();
        self.sweep();
    }

    fn merge(&self, digests: &[Digest]) {
        for datagram in digests.chunks(DATAGRAM) {
            let now = self.bare.clock.now();
            for digest in datagram {
                self.bare.table.charge(&self.bare.rule(), *digest, Charge::news(1, now), now);
            }
        }
    }

    fn take_transfer(&self) {
        // One permit.
        let missing = Missing::from_raw(1 << 16);
        for frame in self.records.chunks(STREAM_FRAME) {
            let now = self.bare.clock.now();
            for digest in frame {
                let charge = Charge { missing, as_of: now, permits: 0 };
                self.bare.table.charge(&self.bare.rule(), *digest, charge, now);
            }
        }
    }
}

/// governor, which sweeps too.
pub struct Other {
    governor: Governor,
    gone: Vec<String>,
}

impl Other {
    pub fn new(kept: &[String], sizes: &Sizes) -> Self {
        let governor = governor(QUOTA);
        let deep = u32::try_from(DEEP).ok().and_then(NonZeroU32::new).expect("it is above 0");
        for name in kept {
            let within = governor.check_key_n(name, deep).expect("it is within the burst");
            within.expect("a first request passes");
        }
        Self { governor, gone: named("gone", sizes.gone) }
    }

    pub fn decide(&self, key: &String) -> bool {
        self.governor.allow(0, key)
    }

    pub fn loads<'a>(&'a self, sizes: &Sizes) -> Vec<Load<'a>> {
        let add_idle = || {
            let added = self.gone.iter().filter(|name| self.decide(name)).count();
            debug_assert_eq!(added, self.gone.len(), "what is gone is full");
            sleep(FULL_AGAIN);
        };
        vec![
            nothing("governor nothing", sizes.nothing),
            load("governor sweep", add_idle, || self.governor.retain_recent()),
        ]
    }
}
