//! Callers that come, go and wait for too long, over one connection.

use super::super::command::Verb;
use super::*;

const TIMEOUT: Duration = Duration::from_millis(50);

fn limits(most: usize) -> Arc<Limits> {
    Arc::new(Limits { server: "cache:11211".into(), timeout: TIMEOUT, most })
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A request made at `now`.
fn request(now: u64) -> (Request, oneshot::Receiver<Answer>) {
    let (answer, receiver) = oneshot::channel();
    let command = Command { key: "k".into(), verb: Verb::Forget };
    (Request { command, due: at(now).saturating_add(TIMEOUT), answer }, receiver)
}

fn done(opaque: u64) -> Reply {
    Reply { opaque: Some(opaque), body: Body::Done }
}

struct Sent {
    pipeline: Pipeline,
    out: Vec<u8>,
}

impl Sent {
    fn new(most: usize) -> Self {
        Self { pipeline: Pipeline::new(&limits(most)), out: Vec::new() }
    }

    fn send(&mut self, now: u64) -> oneshot::Receiver<Answer> {
        let (request, receiver) = request(now);
        self.pipeline.send(request, at(now), &mut self.out);
        receiver
    }
}

#[test]
fn answers_go_to_their_commands_in_order() {
    let mut sent = Sent::new(8);
    let (mut first, mut second) = (sent.send(0), sent.send(0));
    assert_eq!(sent.out, b"md k O0\r\nmd k O1\r\n");
    sent.pipeline.deliver(Reply { opaque: Some(0), body: Body::Missing }).unwrap();
    sent.pipeline.deliver(done(1)).unwrap();
    assert!(matches!(first.try_recv().unwrap(), Ok(Body::Missing)));
    assert!(matches!(second.try_recv().unwrap(), Ok(Body::Done)));
    assert!(sent.pipeline.is_idle() && sent.pipeline.has_answered());
}

#[test]
fn a_caller_that_goes_leaves_the_others_in_step() {
    let mut sent = Sent::new(8);
    drop(sent.send(0));
    let mut second = sent.send(0);
    sent.pipeline.deliver(done(0)).unwrap();
    assert!(second.try_recv().is_err(), "the answer of another");
    sent.pipeline.deliver(done(1)).unwrap();
    assert!(second.try_recv().unwrap().is_ok());
}

#[test]
fn a_caller_that_has_gone_before_is_not_sent() {
    let mut sent = Sent::new(8);
    let (request, receiver) = request(0);
    drop(receiver);
    sent.pipeline.send(request, at(0), &mut sent.out);
    assert!(sent.out.is_empty() && sent.pipeline.is_idle());
}

#[test]
fn a_late_answer_fails_its_caller_alone() {
    let mut sent = Sent::new(8);
    let mut first = sent.send(0);
    let mut second = sent.send(20);
    assert_eq!(sent.pipeline.next_due(), Some(at(50)));
    assert!(!sent.pipeline.expire(at(49)));
    assert!(first.try_recv().is_err());
    assert!(!sent.pipeline.expire(at(50)));
    assert!(matches!(first.try_recv().unwrap(), Err(MemcachedError::Timeout { .. })));
    assert_eq!(sent.pipeline.next_due(), Some(at(70)));
    // Late, but there. The next ones count on from there.
    sent.pipeline.deliver(done(0)).unwrap();
    sent.pipeline.deliver(done(1)).unwrap();
    assert!(second.try_recv().unwrap().is_ok());
    assert_eq!(sent.pipeline.next_due(), None);
    let mut third = sent.send(80);
    assert_eq!(sent.pipeline.next_due(), Some(at(130)));
    sent.pipeline.deliver(done(2)).unwrap();
    assert!(third.try_recv().unwrap().is_ok());
}

#[test]
fn a_server_that_says_nothing_for_long_is_given_up() {
    let mut sent = Sent::new(8);
    let _first = sent.send(0);
    let mut second = sent.send(120);
    assert!(!sent.pipeline.expire(at(149)));
    assert_eq!(sent.pipeline.next_due(), Some(at(150)));
    assert!(sent.pipeline.expire(at(150)));
    let error = sent.pipeline.limits.timed_out();
    sent.pipeline.fail(&error);
    assert!(matches!(second.try_recv().unwrap(), Err(MemcachedError::Timeout { .. })));
}

#[test]
fn an_answer_to_another_command_is_found_out() {
    let mut sent = Sent::new(8);
    assert_eq!(sent.pipeline.deliver(done(0)), Err(Garbage::OutOfStep), "nobody asked");
    let mut first = sent.send(0);
    assert_eq!(sent.pipeline.deliver(done(1)), Err(Garbage::OutOfStep));
    assert_eq!(sent.pipeline.deliver(Reply { opaque: None, body: Body::Done }), Err(Garbage::OutOfStep));
    assert!(first.try_recv().is_err(), "nobody got it");
    assert!(!sent.pipeline.has_answered());
    sent.pipeline.deliver(Reply { opaque: None, body: Body::Refused("ERROR".into()) }).unwrap();
    let error = first.try_recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), r#"memcached server cache:11211 says "ERROR""#);
}

#[test]
fn no_more_are_held_than_the_bound() {
    let mut sent = Sent::new(2);
    let _held = (sent.send(0), sent.send(0));
    assert!(matches!(sent.send(0).try_recv().unwrap(), Err(MemcachedError::Busy { most: 2, .. })));
    // Nor while there is no connection.
    let mut waiting = Waiting::new(&limits(1));
    let ((first, mut in_time), (second, mut too_many)) = (request(0), request(0));
    waiting.push(first);
    waiting.push(second);
    assert!(matches!(too_many.try_recv().unwrap(), Err(MemcachedError::Busy { most: 1, .. })));
    waiting.expire(at(49));
    assert!(in_time.try_recv().is_err());
    waiting.expire(at(50));
    assert!(matches!(in_time.try_recv().unwrap(), Err(MemcachedError::Timeout { .. })));
    assert_eq!(waiting.next_due(), None);
}
