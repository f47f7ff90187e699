//! The fuzz targets on stable, with inputs from seeds. `PEERLIMIT_SEED=7` repeats one, `PEERLIMIT_SEEDS=100000` runs more;
//! `cargo +nightly fuzz run engine` lets libFuzzer look for inputs, from the corpus that `write_the_corpus` makes.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "modules of a test are private by nature")]

#[path = "support/pair.rs"]
mod pair;
#[path = "fuzz/targets.rs"]
mod targets;

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
};

use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Runs `target` with inputs of up to `longest` bytes.
fn with_seeds(
    default: u64,
    longest: usize,
    mut make: impl FnMut(&mut Xoshiro256PlusPlus, usize) -> Vec<u8>,
    target: impl Fn(&[u8]),
) {
    let asked = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match asked("PEERLIMIT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("PEERLIMIT_SEEDS").unwrap_or(default),
    };
    for seed in seeds {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let length = rng.random_range(0..longest);
        let input = make(&mut rng, length);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
            println!("repeat it with PEERLIMIT_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

fn noise(rng: &mut Xoshiro256PlusPlus, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill_bytes(&mut bytes);
    bytes
}

#[test]
fn decoders_survive_noise_and_damaged_traffic() {
    with_seeds(20_000, 1_400, noise, targets::decoders);
    let (_, real, _) = pair::pair();
    let damaged = |rng: &mut Xoshiro256PlusPlus, _| {
        let mut bytes = real[rng.random_range(0..real.len())].to_vec();
        for _ in 0..rng.random_range(0..4) {
            let place = rng.random_range(0..bytes.len());
            bytes[place] = rng.random();
        }
        bytes.truncate(rng.random_range(0..=bytes.len()));
        bytes
    };
    with_seeds(20_000, 1_400, damaged, targets::decoders);
}

#[test]
fn secrets_are_read_or_refused_and_never_shown() {
    // Characters that secrets are written in, and some that they are not.
    let text = |rng: &mut Xoshiro256PlusPlus, length| {
        const CHARACTERS: &[u8] = b"0123456789abcdefABCDEFxyz+/=-_ #\n\r\t\xc3\xbc";
        (0..length).map(|_| CHARACTERS[rng.random_range(0..CHARACTERS.len())]).collect()
    };
    with_seeds(20_000, 400, text, targets::secrets);
}

#[test]
fn an_engine_survives_any_sequence_of_inputs() {
    with_seeds(300, 2_000, noise, |program| targets::Engine::default().run(program));
}

/// Real traffic as a corpus for libFuzzer, each file under a name that follows from its content.
#[test]
#[ignore = "writes to fuzz/corpus"]
fn write_the_corpus() {
    let (_, real, _) = pair::pair();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let write = |target: &str, bytes: &[u8]| {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let folder = corpus.join(target);
        fs::create_dir_all(&folder).expect("the checkout can be written to");
        fs::write(folder.join(format!("{:016x}", hasher.finish())), bytes).expect("the checkout can be written to");
    };
    let every = (real.len() / 16).max(1);
    for (number, datagram) in real.iter().enumerate().step_by(every) {
        write("decoders", datagram);
        // Real traffic again, time, a stream and a frame on it.
        let [low, high] = (number as u16).to_le_bytes();
        write("engine", &[2, low, high, 0, 0, 50, 0, 4, 5, 0, 0, 4, 3, 1, 2, 3, 0, 255, 0]);
    }
    write("secrets", b"# one a line\n000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n");
}
