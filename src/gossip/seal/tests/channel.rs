//! Streams, and what a recording of one is good for.

use super::*;

/// A stream between two runs, with the frames that each side said.
struct Story {
    one: Seal,
    two: Seal,
    near: Channel,
    far: Channel,
}

type Read = Result<(RunId, Vec<u8>), FrameError>;

fn read(seal: &mut Seal, channel: &mut Channel, bytes: &[u8]) -> Read {
    let mut scratch = Vec::new();
    let frame = seal.open_stream(Timestamp::ZERO, channel, bytes, &mut scratch)?;
    Ok((frame.sender, frame.body.to_vec()))
}

impl Story {
    fn new(one: Seal, two: Seal) -> Self {
        Self { one, two, near: Channel::default(), far: Channel::default() }
    }

    fn sealed() -> Self {
        Self::new(sealer(RUN, &[1]), sealer(OTHER, &[1]))
    }

    fn again(&mut self) {
        (self.near, self.far) = (Channel::default(), Channel::default());
    }

    fn say_near(&mut self, body: &[u8]) -> Bytes {
        self.one.stream_frame(&mut self.near, Tag::Sync, body).expect("our turn")
    }

    fn say_far(&mut self, body: &[u8]) -> Bytes {
        self.two.stream_frame(&mut self.far, Tag::Sync, body).expect("our turn")
    }

    fn hear_near(&mut self, bytes: &[u8]) -> Read {
        read(&mut self.one, &mut self.near, bytes)
    }

    fn hear_far(&mut self, bytes: &[u8]) -> Read {
        read(&mut self.two, &mut self.far, bytes)
    }

    /// Two frames each way. Returns them.
    fn talk(&mut self) -> [Bytes; 4] {
        let hello = self.say_near(b"hello");
        assert_eq!(self.hear_far(&hello), Ok((RUN, b"hello".to_vec())));
        let answer = self.say_far(b"answer");
        assert_eq!(self.hear_near(&answer), Ok((OTHER, b"answer".to_vec())));
        let (ours, theirs) = (self.say_near(b"ours"), self.say_far(b"theirs"));
        assert_eq!(self.hear_far(&ours), Ok((RUN, b"ours".to_vec())));
        assert_eq!(self.hear_near(&theirs), Ok((OTHER, b"theirs".to_vec())));
        [hello, answer, ours, theirs]
    }
}

#[test]
fn both_sides_talk_under_a_seal_and_in_the_clear() {
    let frames = Story::sealed().talk();
    assert!(frames.iter().all(|frame| frame[17] == Tag::Sealed as u8));
    let frames = Story::new(Seal::new(cluster(), RUN, None), Seal::new(cluster(), OTHER, None)).talk();
    assert!(frames.iter().all(|frame| frame[17] == Tag::Sync as u8));
}

#[test]
fn neighbouring_stages_talk_and_the_opener_decides_in_which_form() {
    let at = |stage, run| Seal::new(cluster(), run, Some(&secrets(&[1]).at_stage(stage)));
    let none = |run| Seal::new(cluster(), run, None);
    use Sealing::{Preferred, Prepared, Required};
    let sealed = |frames: [Bytes; 4]| frames.iter().all(|frame| frame[17] == Tag::Sealed as u8);
    assert!(!sealed(Story::new(none(RUN), at(Prepared, OTHER)).talk()));
    assert!(!sealed(Story::new(at(Prepared, RUN), none(OTHER)).talk()));
    assert!(!sealed(Story::new(at(Prepared, RUN), at(Preferred, OTHER)).talk()));
    assert!(sealed(Story::new(at(Preferred, RUN), at(Prepared, OTHER)).talk()));
    assert!(sealed(Story::new(at(Preferred, RUN), at(Required, OTHER)).talk()));
    assert!(sealed(Story::new(at(Required, RUN), at(Preferred, OTHER)).talk()));
    let hello = none(RUN).stream_frame(&mut Channel::default(), Tag::Sync, b"hello").expect("our turn");
    assert_eq!(read(&mut at(Required, OTHER), &mut Channel::default(), &hello), Err(FrameError::Unsealed));
}

#[test]
fn ends_with_different_first_secrets_talk_and_secrets_change_under_way() {
    Story::new(sealer(RUN, &[1, 2]), sealer(OTHER, &[2, 1])).talk();
    let mut story = Story::sealed();
    let hello = story.say_near(b"hello");
    story.hear_far(&hello).expect("opens");
    story.one.set_secrets(&secrets(&[2, 1]));
    story.two.set_secrets(&secrets(&[1, 2]));
    let answer = story.say_far(b"answer");
    story.hear_near(&answer).expect("opens");
    story.one.set_secrets(&secrets(&[2]));
    story.two.set_secrets(&secrets(&[2]));
    let ours = story.say_near(b"ours");
    assert_eq!(story.hear_far(&ours), Ok((RUN, b"ours".to_vec())));
}

#[test]
fn nothing_recorded_counts_on_another_stream() {
    let mut story = Story::sealed();
    let old = story.talk();
    // The first frame at the node that has seen it, and all others.
    story.again();
    for frame in &old {
        story.far = Channel::default();
        assert!(story.hear_far(frame).is_err());
    }
    // A node that has never seen it takes it once, and nothing after it.
    let third = RunId::from_raw(3);
    story.two = sealer(third, &[1]);
    story.far = Channel::default();
    assert_eq!(story.hear_far(&old[0]), Ok((RUN, b"hello".to_vec())));
    assert!(story.hear_far(&old[2]).is_err());
    story.far = Channel::default();
    assert_eq!(story.hear_far(&old[0]), Err(FrameError::Replayed));
    // An answer to a call that was not its.
    story.again();
    let _hello = story.say_near(b"hello");
    for frame in &old {
        assert!(story.hear_near(frame).is_err());
    }
}

#[test]
fn frames_of_a_stream_are_not_dropped_repeated_reordered_or_reflected() {
    let mut story = Story::sealed();
    let [hello, answer, ours, theirs] = story.talk();
    for frame in [&hello, &answer, &ours, &theirs] {
        assert!(story.hear_far(frame).is_err());
        assert!(story.hear_near(frame).is_err());
    }
    let (first, second) = (story.say_near(b"first"), story.say_near(b"second"));
    assert_eq!(story.hear_far(&second), Err(FrameError::Replayed));
    assert_eq!(story.hear_near(&first), Err(FrameError::Replayed), "reflected");
    // As if it came from the other side.
    let mut turned = first.to_vec();
    turned[9..17].copy_from_slice(&OTHER.raw().to_le_bytes());
    assert!(story.hear_near(&turned).is_err());
    assert!(story.hear_far(&first).is_ok());
    assert!(story.hear_far(&second).is_ok());
    let plain = encode_frame(cluster(), RUN, Tag::Sync, b"plain");
    assert_eq!(story.hear_far(&plain), Err(FrameError::Unsealed));
}

#[test]
fn a_plain_frame_does_not_count_on_a_sealed_stream_at_any_stage() {
    let at = |run| Seal::new(cluster(), run, Some(&secrets(&[1]).at_stage(Sealing::Preferred)));
    let mut story = Story::new(at(RUN), at(OTHER));
    let plain = encode_frame(cluster(), OTHER, Tag::Sync, b"plain");
    let hello = story.say_near(b"hello");
    assert_eq!(story.hear_near(&plain), Err(FrameError::Unsealed));
    story.hear_far(&hello).expect("opens");
    assert_eq!(story.hear_far(&encode_frame(cluster(), RUN, Tag::Sync, b"plain")), Err(FrameError::Unsealed));
}

#[test]
fn who_opened_a_stream_waits_for_the_answer() {
    let mut story = Story::sealed();
    let _hello = story.say_near(b"hello");
    assert!(story.one.stream_frame(&mut story.near, Tag::Sync, b"more").is_none());
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_wrong_bit_ends_a_stream(which in 0..4_usize, at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut story = Story::sealed();
        let mut frame = story.say_near(b"hello");
        for turn in 0..4 {
            if turn == which {
                let mut bad = frame.to_vec();
                bad[at.index(frame.len())] ^= 1_u8 << bit;
                let read = if turn % 2 == 0 { story.hear_far(&bad) } else { story.hear_near(&bad) };
                prop_assert!(read.is_err());
                return Ok(());
            }
            frame = if turn % 2 == 0 {
                story.hear_far(&frame).expect("opens");
                story.say_far(b"far")
            } else {
                story.hear_near(&frame).expect("opens");
                story.say_near(b"near")
            };
        }
    }
}
