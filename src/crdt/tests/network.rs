//! Logs whose deltas are lost, doubled and reordered.

use super::*;

const KEYS: u64 = 6;
/// The origins' runs.
const ORIGINS: [u64; 2] = [10, 20];

#[derive(Clone, Debug)]
enum Act {
    /// An origin admits permits of some keys, and tells it in one frame.
    Publish(usize, Vec<(u64, u64)>),
    /// An origin drops its idle cells, so that they start again.
    Sweep(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let permits = prop_oneof![8 => 1..5_u64, 1 => Just(1 << 40)];
    let publish = (0..2_usize, prop::collection::vec((0..KEYS, permits), 1..4));
    let act = prop_oneof![
        6 => publish.prop_map(|(origin, keys)| Act::Publish(origin, keys)),
        1 => (0..2_usize).prop_map(Act::Sweep),
    ];
    prop::collection::vec(act, 1..40)
}

struct Frame {
    run: RunId,
    from: Version,
    deltas: Vec<Delta>,
}

struct World {
    origins: [ReplicaLog; 2],
    frames: Vec<Frame>,
    published: BTreeMap<Digest, u64>,
    now: Timestamp,
}

fn play(acts: &[Act]) -> World {
    let mut world = World {
        origins: ORIGINS.map(|own| ReplicaLog::new(run(own), NO_LIMITS, Duration::from_secs(3))),
        frames: Vec::new(),
        published: BTreeMap::new(),
        now: at(1),
    };
    for act in acts {
        world.now = world.now.saturating_add(Duration::from_secs(1));
        match act {
            Act::Publish(origin, keys) => {
                let log = &mut world.origins[*origin];
                let from = log.own_version();
                let deltas: Vec<Delta> = keys
                    .iter()
                    .map(|(number, permits)| log.publish(SCOPE, key(*number), *permits, world.now))
                    .collect();
                for (number, permits) in keys {
                    *world.published.entry(key(*number)).or_default() += permits;
                }
                world.frames.push(Frame { run: log.own(), from, deltas });
            }
            Act::Sweep(origin) => {
                world.origins[*origin].sweep(world.now, 1_000, |_| false);
            }
        }
        world.origins.iter().for_each(|log| check(log, (0..KEYS).map(key)));
    }
    world
}

/// A receiver and what it charged.
struct Receiver {
    log: ReplicaLog,
    charged: BTreeMap<Digest, u64>,
}

impl Receiver {
    fn new(own: u64) -> Self {
        Self { log: log(own), charged: BTreeMap::new() }
    }

    fn take(&mut self, frame: &Frame, now: Timestamp) {
        for delta in &frame.deltas {
            let news = match self.log.apply_delta(frame.run, delta, now) {
                Applied::News(news) | Applied::NoBaseline(news) => news,
                Applied::Refused => panic!("{delta:?} was refused"),
            };
            // No refill: everything that is news is charged.
            self.charge(delta.digest, news.charge(Duration::MAX));
        }
        let to = frame.deltas.last().map_or(frame.from, |delta| delta.version);
        self.log.cover(frame.run, frame.from, to, now);
        check(&self.log, (0..KEYS).map(key));
    }

    fn charge(&mut self, digest: Digest, permits: u64) {
        if permits > 0 {
            *self.charged.entry(digest).or_default() += permits;
        }
    }

    fn repair_from(&mut self, from: &ReplicaLog, now: Timestamp) {
        for (digest, permits) in repair(from, &mut self.log, now) {
            self.charge(digest, permits);
        }
        check(&self.log, (0..KEYS).map(key));
    }

    /// Cells of a run by key: count and version.
    fn cells(&self, of: RunId) -> BTreeMap<Digest, (Count, Version)> {
        cells(&self.log, of)
    }

    fn is_never_above(&self, bound: &BTreeMap<Digest, u64>) -> Result<(), TestCaseError> {
        for (digest, charged) in &self.charged {
            let bound = bound.get(digest).copied().unwrap_or_default();
            prop_assert!(*charged <= bound, "{digest:?}: charged {charged}, published {bound}");
        }
        Ok(())
    }
}

fn cells(log: &ReplicaLog, of: RunId) -> BTreeMap<Digest, (Count, Version)> {
    let all = (0..KEYS).flat_map(|number| log.cells_of(key(number)).map(move |cell| (key(number), cell)));
    all.filter(|(_, cell)| cell.run == of).map(|(digest, cell)| (digest, (cell.count, cell.version))).collect()
}

/// All that `origin` still holds is at `receiver` as it is there. A cell that the origin dropped may be left over.
fn is_repaired(receiver: &Receiver, origin: &ReplicaLog) -> Result<(), TestCaseError> {
    let here = receiver.cells(origin.own());
    for (digest, cell) in cells(origin, origin.own()) {
        prop_assert_eq!(here.get(&digest), Some(&cell), "a cell of {:?} is not repaired", origin.own());
    }
    prop_assert_eq!(receiver.log.version_of(origin.own()), origin.own_version());
    Ok(())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn one_walk_repairs_whatever_was_lost_doubled_or_reordered(
        acts in acts(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let world = play(&acts);
        prop_assume!(!world.frames.is_empty());
        let (mut ordered, mut lossy) = (Receiver::new(1), Receiver::new(2));
        for frame in &world.frames {
            ordered.take(frame, world.now);
        }
        // A random choice: some frames never, some twice, none in its place.
        for pick in &picks {
            lossy.take(pick.get(&world.frames), world.now);
        }
        prop_assert_eq!(&ordered.charged, &world.published);
        lossy.is_never_above(&world.published)?;
        for origin in &world.origins {
            lossy.repair_from(origin, world.now);
            is_repaired(&lossy, origin)?;
            prop_assert!(!lossy.log.has_gap(origin.own()));
        }
        lossy.is_never_above(&ordered.charged)?;
        // After that nothing is news, in whatever form it comes; unless an origin has forgotten what it once said.
        if acts.iter().any(|act| matches!(act, Act::Sweep(_))) {
            return Ok(());
        }
        let before = (lossy.charged.clone(), ORIGINS.map(|id| lossy.cells(run(id))));
        for frame in world.frames.iter().rev() {
            lossy.take(frame, world.now);
        }
        for origin in &world.origins {
            prop_assert!(walk_over(origin, lossy.log.versions().collect()).covers().next().is_none());
        }
        prop_assert_eq!((lossy.charged.clone(), ORIGINS.map(|id| lossy.cells(run(id)))), before);
    }

    #[test]
    fn news_goes_around_a_cut(acts in acts(), picks in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        // The third node hears of the origins through the second only.
        let world = play(&acts);
        prop_assume!(!world.frames.is_empty());
        let (mut second, mut third) = (Receiver::new(1), Receiver::new(2));
        for pick in &picks {
            second.take(pick.get(&world.frames), world.now);
            third.repair_from(&second.log, world.now);
        }
        for origin in &world.origins {
            second.repair_from(origin, world.now);
        }
        third.repair_from(&second.log, world.now);
        for origin in &world.origins {
            is_repaired(&third, origin)?;
        }
        third.is_never_above(&world.published)?;
        for id in ORIGINS {
            prop_assert_eq!(third.cells(run(id)), second.cells(run(id)));
        }
    }

    #[test]
    fn the_order_of_arrival_does_not_show_in_the_cells(acts in acts(), order in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let world = play(&acts);
        prop_assume!(!world.frames.is_empty());
        let (mut forward, mut shuffled) = (Receiver::new(1), Receiver::new(2));
        world.frames.iter().for_each(|frame| forward.take(frame, world.now));
        let mut frames: Vec<&Frame> = world.frames.iter().collect();
        let turn = order.index(frames.len());
        frames.rotate_left(turn);
        frames.sort_by_key(|frame| (frame.from.raw() ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        frames.iter().for_each(|frame| shuffled.take(frame, world.now));
        for id in ORIGINS {
            prop_assert_eq!(shuffled.cells(run(id)), forward.cells(run(id)));
            // Fewer frames than gaps that are remembered, so all is held.
            prop_assert!(world.frames.len() > 32 || shuffled.log.version_of(run(id)) == forward.log.version_of(run(id)));
        }
        shuffled.is_never_above(&forward.charged)?;
    }
}
