//! The example `node`, as the processes that it is meant to be.

#![allow(clippy::disallowed_methods, reason = "these processes live in real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::{
    env::{consts::EXE_SUFFIX, current_exe},
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Where cargo puts examples, seen from a test's binary in `deps`.
fn binary() -> PathBuf {
    let test = current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples").join(format!("node{EXE_SUFFIX}"));
    assert!(
        path.is_file(),
        "{} is missing: `cargo test` builds it, `cargo test --test examples` does not; try `cargo build --example node`",
        path.display()
    );
    path
}

/// A process of the example. Dropping it kills it.
struct Node {
    child: Child,
    /// Taken where the input ends.
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    addr: String,
}

impl Node {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(["--rate", "50/d", "--discover-interval", "500ms", "--sync-interval", "100ms"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let mut node = Self { child, stdin, lines, addr: String::new() };
        let first = node.line();
        node.addr = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("began with {first:?}")).to_owned();
        node
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line of output in time")
    }

    fn say(&mut self, command: &str) {
        self.bytes(format!("{command}\n").as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The first line that answers `command`.
    fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.line()
    }

    /// How many members it sees.
    fn members(&mut self) -> usize {
        let answer = self.ask("members");
        let count = answer.strip_prefix("members ").and_then(|count| count.parse().ok());
        let count = count.unwrap_or_else(|| panic!("members said {answer:?}"));
        for _ in 0..count {
            let member = self.line();
            assert!(member.starts_with("member addr=127.0.0.1:"), "{member:?}");
        }
        count
    }

    fn wait(&mut self) -> ExitStatus {
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
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(PAUSE);
    }
}

#[test]
fn two_processes_share_one_limit() {
    let mut first = Node::start(&["--name", "first"]);
    let mut second = Node::start(&["--name", "second", "--peer", &first.addr]);
    eventually("both see two members", || first.members() == 2 && second.members() == 2);
    assert_eq!(second.ask("ready"), "ready");

    let spent = first.ask("check user 50");
    assert!(spent.starts_with("check user allowed=true remaining=0 limit=50 "), "{spent:?}");
    eventually("the other knows that nothing is left", || {
        second.ask("peek user").starts_with("peek user allowed=false remaining=0 ")
    });
    let refused = second.ask("check user");
    assert!(refused.starts_with("check user allowed=false "), "{refused:?}");

    first.say("quit");
    assert!(first.wait().success());
    eventually("the other was told good-bye", || second.members() == 1);
    second.say("quit");
    assert!(second.wait().success());
}

#[test]
fn a_bad_command_gets_one_line_and_the_node_goes_on() {
    let mut node = Node::start(&[]);
    for command in ["nonsense", "check", "check user many", "peek", "load user", "load user fast 1", "members now"] {
        let answer = node.ask(command);
        assert!(answer.starts_with("error: "), "{command:?} was answered {answer:?}");
    }
    node.bytes(b"\n  \n\xff\xfe\n");
    assert!(node.line().starts_with("error: "), "bytes that are no text are a bad command too");
    let impossible = node.ask("check user 51");
    assert!(impossible.ends_with(" retry_ms=never"), "{impossible:?}");
    assert_eq!(node.ask("load user 1000 0.2"), "load user second=1 offered=200 admitted=50 refused=150");
    assert_eq!(node.line(), "load user total offered=200 admitted=50 refused=150");
    node.say("quit");
    assert!(node.wait().success());
}

#[test]
fn the_end_of_the_input_is_a_quit() {
    let mut node = Node::start(&[]);
    drop(node.stdin.take());
    assert!(node.wait().success());
}
