//! What the command line and the environment ask for.

/// Which cells to measure, and how thoroughly.
pub struct Options {
    quick: bool,
    rounds: usize,
    /// A cell is wanted if its name has all of these words.
    filter: Vec<String>,
}

impl Options {
    const ROUNDS: usize = 5;
    const QUICK_ROUNDS: usize = 3;

    pub fn read() -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let asked = |flag: &str| args.iter().any(|arg| arg == flag);
        // Without `--bench` cargo wants to know whether it runs, not how well.
        let quick = asked("--quick") || asked("--test") || !asked("--bench");
        let quick = quick || variable("PEERLIMIT_BENCH_QUICK").is_some_and(|value| value != "0");
        let rounds = variable("PEERLIMIT_BENCH_ROUNDS").and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.unwrap_or(if quick { Self::QUICK_ROUNDS } else { Self::ROUNDS }).max(1);
        let filter = args.into_iter().filter(|arg| !arg.starts_with('-')).collect();
        Self { quick, rounds, filter }
    }

    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// One of two sizes.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Whether the cell `name` is to be measured.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.iter().all(|word| name.contains(word.as_str()))
    }

    /// As [`Options::wants`], for a cell that takes seconds to set up: quick runs only measure it where it is asked for
    /// by name.
    pub fn wants_slow(&self, name: &str) -> bool {
        self.wants(name) && !(self.quick && self.filter.is_empty())
    }
}
