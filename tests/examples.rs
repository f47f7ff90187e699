//! The example `node`, as the processes that it is meant to be.

#![allow(clippy::disallowed_methods, reason = "these processes live in real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "support/node_process.rs"]
mod node_process;

use node_process::{Node, eventually};

fn start(args: &[&str]) -> Node {
    let mut settings = vec!["--rate", "50/d", "--discover-interval", "500ms", "--sync-interval", "100ms"];
    settings.extend_from_slice(args);
    Node::start(&settings)
}

#[test]
fn two_processes_share_one_limit() {
    let mut first = start(&["--name", "first"]);
    let mut second = start(&["--name", "second", "--peer", &first.addr]);
    eventually("both see two members", || first.members().len() == 2 && second.members().len() == 2);
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
    eventually("the other was told good-bye", || second.members().len() == 1);
    second.say("quit");
    assert!(second.wait().success());
}

#[test]
fn a_bad_command_gets_one_line_and_the_node_goes_on() {
    let mut node = start(&[]);
    for command in [
        "nonsense",
        "check",
        "check user many",
        "peek",
        "load user",
        "load user fast 1",
        "load user 1 1 0",
        "members now",
    ] {
        let answer = node.ask(command);
        assert!(answer.starts_with("error: "), "{command:?} was answered {answer:?}");
    }
    node.bytes(b"\n  \n\xff\xfe\n");
    assert!(node.line().starts_with("error: "), "bytes that are no text are a bad command too");
    let impossible = node.ask("check user 51");
    assert!(impossible.ends_with(" retry_ms=never"), "{impossible:?}");
    assert_eq!(node.ask("load user 1000 0.2"), "load user second=1 offered=200 admitted=50 refused=150");
    assert_eq!(node.line(), "load user total offered=200 admitted=50 refused=150");
    node.offer("other", 1000, 0.2);
    let load = node.offered();
    assert_eq!((load.offered(), load.admitted()), (200, 50));
    assert!(load.seconds() > 0.1 && load.seconds() < 10.0, "{} s", load.seconds());
    let excess = load.excess(0.0, 40.0);
    assert!((9.9..=10.1).contains(&excess), "all 50 in one span, {excess} above 40");
    node.say("quit");
    assert!(node.wait().success());
}

#[test]
fn the_end_of_the_input_is_a_quit() {
    let mut node = start(&[]);
    node.end_input();
    assert!(node.wait().success());
}
