//! Processes of the example `node`, and what they report of load that they offered.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::{
    env::{consts::EXE_SUFFIX, current_exe},
    fmt::Display,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use wait::DEADLINE;
pub(crate) use wait::eventually;

mod wait;

/// How finely load is reported, in milliseconds. Short against the time in which a permit comes back in these tests.
const STEP_MS: u32 = 5;

/// Where cargo puts examples, seen from a test's binary in `deps`.
pub(crate) fn binary() -> PathBuf {
    let test = current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples").join(format!("node{EXE_SUFFIX}"));
    assert!(
        path.is_file(),
        "{} is missing: `cargo test` builds it, `cargo test --test NAME` does not; try `cargo build --example node`",
        path.display()
    );
    path
}

/// A process of the example. Dropping it kills it.
pub(crate) struct Node {
    child: Child,
    /// Taken where the input ends.
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What it logged, where its standard error is a pipe.
    log: Arc<Mutex<Vec<String>>>,
    pub(crate) addr: String,
}

impl Node {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(Command::new(binary()).args(args))
    }

    /// As `command` has it, which becomes the example in the end. If its standard error is a pipe, it is kept for
    /// [`Node::logged`].
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let log = Arc::<Mutex<Vec<String>>>::default();
        if let Some(stderr) = child.stderr.take() {
            let kept = Arc::clone(&log);
            let keep = move |line| kept.lock().unwrap().push(line);
            thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(keep));
        }
        let mut node = Self { child, stdin, lines, log, addr: String::new() };
        let first = node.line();
        node.addr = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("began with {first:?}")).to_owned();
        node
    }

    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line of output in time")
    }

    pub(crate) fn say(&mut self, command: &str) {
        self.bytes(format!("{command}\n").as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn end_input(&mut self) {
        drop(self.stdin.take());
    }

    /// The first line that answers `command`.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.line()
    }

    /// The addresses of the members that it sees, itself included.
    pub(crate) fn members(&mut self) -> Vec<String> {
        self.members_by("addr")
    }

    /// The labels of the members that it sees, itself included, in order. They must have no spaces.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let mut names = self.members_by("name");
        names.sort_unstable();
        names
    }

    fn members_by(&mut self, field: &str) -> Vec<String> {
        let answer = self.ask("members");
        let count = answer.strip_prefix("members ").and_then(|count| count.parse::<usize>().ok());
        let count = count.unwrap_or_else(|| panic!("members said {answer:?}"));
        (0..count)
            .map(|_| {
                let member = self.line();
                let value = member.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
                value.unwrap_or_else(|| panic!("members said {member:?}")).to_owned()
            })
            .collect()
    }

    /// Begins to offer `rate` requests of `key` per second. [`Node::offered`] waits for the end.
    pub(crate) fn offer(&mut self, key: &str, rate: impl Display, seconds: f64) {
        self.say(&format!("load {key} {rate} {seconds} {STEP_MS}"));
    }

    /// What became of the requests that [`Node::offer`] asked for.
    pub(crate) fn offered(&self) -> Load {
        let mut load = Load::default();
        loop {
            let line = self.line();
            let number = |name: &str| {
                let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
                value.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("no {name} in {line:?}"))
            };
            let (offered, admitted) = (number("offered"), number("admitted"));
            if line.contains(" total ") {
                assert_eq!((load.offered(), load.admitted()), (offered, admitted), "the steps are the whole");
                return load;
            }
            load.steps.push(Step { first_us: number("first_us"), last_us: number("last_us"), offered, admitted });
        }
    }

    /// Lines of its log that say `words`.
    pub(crate) fn logged(&self, words: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(words)).count()
    }

    /// Sends a signal by its name, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let status = kill.args(["-s", name, &self.child.id().to_string()]).status().expect("kill is there");
        assert!(status.success(), "{kill:?}: {status}");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        // A second panic would end the whole test binary.
        if let (true, Ok(log)) = (thread::panicking(), self.log.lock()) {
            log.iter().for_each(|line| eprintln!("{} logged: {line}", self.addr));
        }
    }
}

/// What became of load, of one node or of several. All of them read the clock of one machine, so their times are one
/// axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    steps: Vec<Step>,
}

/// The requests of some milliseconds at one node. Times are Unix times.
#[derive(Clone, Copy, Debug)]
struct Step {
    first_us: u64,
    last_us: u64,
    offered: u64,
    admitted: u64,
}

impl Load {
    pub(crate) fn add(&mut self, other: Self) {
        self.steps.extend(other.steps);
    }

    pub(crate) fn offered(&self) -> u64 {
        self.steps.iter().map(|step| step.offered).sum()
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.steps.iter().map(|step| step.admitted).sum()
    }

    /// Unix time of the first request, in microseconds.
    pub(crate) fn first_us(&self) -> u64 {
        self.steps.iter().map(|step| step.first_us).min().expect("some load")
    }

    /// Unix time of the last request, in microseconds.
    pub(crate) fn last_us(&self) -> u64 {
        self.steps.iter().map(|step| step.last_us).max().expect("some load")
    }

    /// From the first request to the last.
    pub(crate) fn seconds(&self) -> f64 {
        seconds(self.last_us() - self.first_us())
    }

    /// What came after `us`.
    pub(crate) fn after(mut self, us: u64) -> Self {
        self.steps.retain(|step| step.first_us > us);
        self
    }

    /// How many requests one central bucket admits that gets the same ones, and is full before them. Steps count in whole
    /// at their ends.
    pub(crate) fn central(&self, rate: f64, burst: f64) -> f64 {
        let (mut tokens, mut central, mut before) = (burst, 0.0, None);
        for step in self.in_order() {
            let since = seconds(step.last_us - before.replace(step.last_us).unwrap_or(step.last_us));
            tokens = (tokens + rate * since).min(burst);
            let passed = tokens.floor().min(step.offered as f64);
            tokens -= passed;
            central += passed;
        }
        central
    }

    /// How many requests fewer were admitted than [`Load::central`].
    pub(crate) fn short_of_central(&self, rate: f64, burst: f64) -> f64 {
        (self.central(rate, burst) - self.admitted() as f64).max(0.0)
    }

    /// By how much the load admitted went above the envelope `burst + rate * t`, over the span `t` in which that is
    /// most. A leaky bucket finds it in one pass. Steps count in whole at their ends.
    pub(crate) fn excess(&self, rate: f64, burst: f64) -> f64 {
        let (mut level, mut highest, mut before) = (0.0_f64, 0.0_f64, 0);
        for step in self.in_order() {
            level = (level - rate * seconds(step.last_us - before)).max(0.0) + step.admitted as f64;
            highest = highest.max(level);
            before = step.last_us;
        }
        highest - burst
    }

    fn in_order(&self) -> Vec<Step> {
        let mut steps = self.steps.clone();
        steps.sort_by_key(|step| step.last_us);
        steps
    }
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}
