//! Bytes that nobody meant well.

use std::time::{Duration, Instant};

use bytes::Buf;
use foca::Codec;

use super::*;

/// Everything that reads bytes, over the same bytes. None of it may panic, and nothing may be read twice.
fn read_all(bytes: &[u8]) {
    let _header = Frame::decode(bytes, cluster());
    let _deltas = DeltaFrame::decode(bytes);
    let _step = SyncMessage::decode(bytes);
    let mut codec = SwimCodec::default();
    let mut rest = bytes;
    let read = codec.decode_header(&mut rest).is_ok();
    assert!(rest.remaining() < bytes.len() || !read, "a header of no bytes");
    let mut rest = bytes;
    while rest.has_remaining() {
        let before = rest.remaining();
        if codec.decode_member(&mut rest).is_err() {
            break;
        }
        assert!(rest.remaining() < before, "a member of no bytes");
    }
}

/// A frame of each kind.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let deltas = some_deltas(40).prop_map(|deltas| {
        let mut writer = DeltaWriter::default();
        deltas.iter().for_each(|delta| writer.push(delta, Duration::from_millis(7)));
        (Tag::Deltas, writer.finish().swap_remove(0))
    });
    let sync = a_message().prop_map(|message| (Tag::Sync, message.encode()));
    let swim = (an_identity(), an_identity()).prop_map(|(src, dst)| {
        let mut codec = SwimCodec::default();
        let mut body = Vec::new();
        let member = foca::Member::new(dst.clone(), 3, foca::State::Down);
        let header = foca::Header { src, src_incarnation: 2, dst, message: foca::Message::Feed };
        codec.encode_header(&header, &mut body).expect("a vector has room");
        codec.encode_member(&member, &mut body).expect("a vector has room");
        (Tag::Swim, body)
    });
    prop_oneof![deltas, sync, swim]
        .prop_map(|(tag, body)| encode_frame(cluster(), RunId::from_raw(7), tag, &body).to_vec())
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        read_all(&bytes);
    }

    #[test]
    fn any_body_after_a_good_beginning_is_survived(start in 0..8_u8, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut body = vec![start];
        body.extend(&bytes);
        read_all(&body);
        // Small numbers are likelier to be taken for lengths that hold.
        read_all(&body.iter().map(|byte| byte % 8).collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_comes_back(frame in frames()) {
        let read = Frame::decode(&frame, cluster()).expect("was just written");
        prop_assert_eq!(read.sender, RunId::from_raw(7));
        prop_assert_eq!(read.body, &frame[HEADER_LEN..]);
        prop_assert_eq!(read.tag as u8, frame[HEADER_LEN - 1]);
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_frame_cut_anywhere_is_survived(frame in frames()) {
        for length in (0..frame.len()).step_by(frame.len() / 200 + 1) {
            let cut = &frame[..length];
            prop_assert_eq!(Frame::decode(cut, cluster()).is_ok(), length >= HEADER_LEN);
            read_all(cut);
            read_all(cut.get(HEADER_LEN..).unwrap_or_default());
        }
    }

    #[test]
    fn a_frame_with_one_wrong_byte_is_survived(frame in frames(), bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 200)) {
        for (at, byte) in bytes {
            let mut wrong = frame.clone();
            wrong[at.index(frame.len())] = byte;
            read_all(&wrong);
            read_all(&wrong[HEADER_LEN..]);
        }
    }
}

#[test]
fn a_header_says_what_is_wrong_with_it() {
    let good = encode_frame(cluster(), RunId::from_raw(7), Tag::Deltas, b"body").to_vec();
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        Frame::decode(&bytes, cluster()).map(|frame| frame.tag)
    };
    assert_eq!(changed(0, VERSION), Ok(Tag::Deltas));
    assert_eq!(changed(0, 2), Err(FrameError::Version(2)));
    assert_eq!(changed(0, 0), Err(FrameError::Version(0)));
    for (at, byte) in good.iter().enumerate().skip(1).take(8) {
        assert_eq!(changed(at, !byte), Err(FrameError::ForeignCluster), "byte {at}");
    }
    for tag in (6..=255).chain([0]) {
        assert_eq!(changed(17, tag), Err(FrameError::UnknownTag(tag)));
    }
    for length in 0..HEADER_LEN {
        assert_eq!(Frame::decode(&good[..length], cluster()), Err(FrameError::TooShort));
    }
    let empty = Frame::decode(&good[..HEADER_LEN], cluster()).expect("a whole header");
    assert!(empty.body.is_empty());
    let foreign = ClusterId::new(&DigestKey::PUBLIC, "another");
    assert_eq!(Frame::decode(&good, foreign), Err(FrameError::ForeignCluster));
}

#[test]
fn a_step_of_an_unknown_number_is_told_from_a_malformed_one() {
    for number in (6..=250).chain([0]) {
        assert_eq!(SyncMessage::decode(&[number, 0, 0, 0]), Err(FrameError::UnknownTag(number)));
    }
    assert_eq!(SyncMessage::decode(&[]), Err(FrameError::Malformed));
}

#[test]
fn a_length_that_promises_gigabytes_allocates_nothing() {
    let huge: [&[u8]; 4] = [
        &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0xfd, 0, 0, 0, 0, 0x10, 0, 0, 0],
        &[0xfc, 0xff, 0xff, 0xff, 0xff],
    ];
    #[allow(clippy::disallowed_methods, reason = "a test of how long something takes")]
    let begun = Instant::now();
    for length in huge {
        // In each place where a length stands.
        for before in [&[3_u8][..], &[5], &[4, 0], &[4, 0, 0], &[4, 0, 0, 0]] {
            let mut body = before.to_vec();
            body.extend(length);
            body.extend([1; 64]);
            assert_eq!(SyncMessage::decode(&body), Err(FrameError::Malformed), "{body:?}");
        }
        // The cells of a record: no time, no runs, one scope, one record, its digest, no level.
        let mut body = vec![4, 0, 0, 1];
        body.extend([0; 8]);
        body.extend([1, 0]);
        body.extend([0; 16]);
        body.push(0);
        body.extend(length);
        assert_eq!(SyncMessage::decode(&body), Err(FrameError::Malformed));
        // The name in an identity.
        let mut identity = vec![0, 127, 0, 0, 1, 1];
        identity.extend([0; 8]);
        identity.extend([0, 0]);
        identity.extend(length);
        identity.extend([b'a'; 100]);
        assert!(SwimCodec::default().decode_member(&identity[..]).is_err());
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "took {:?}", begun.elapsed());
}

#[test]
fn more_runs_than_a_message_may_name_are_malformed() {
    let many = MAX_RUNS as u16 + 1;
    let list = |number: u8, runs: u16, each: usize| {
        let mut body = vec![number, 0xfb];
        body.extend(runs.to_le_bytes());
        body.extend(vec![0; each * usize::from(runs)]);
        body
    };
    // Run, version and age; run, two versions and no epoch: at their shortest.
    for (number, each) in [(3, 10), (5, 11)] {
        assert!(SyncMessage::decode(&list(number, many - 1, each)).is_ok());
        assert_eq!(SyncMessage::decode(&list(number, many, each)), Err(FrameError::Malformed));
    }
}

#[test]
fn records_that_name_more_runs_than_a_message_may_are_malformed() {
    let mut body = vec![4, 0, 0xfb];
    body.extend((MAX_RUNS as u16 + 1).to_le_bytes());
    body.extend(vec![0; 8 * (MAX_RUNS + 1)]);
    body.extend([0, 0]);
    assert_eq!(SyncMessage::decode(&body), Err(FrameError::Malformed));
}

#[test]
fn a_position_that_is_not_there_is_malformed() {
    // One run, one scope, one record with one cell.
    let body = |scope: u8, run: u8| {
        let mut body = vec![4, 0, 1];
        body.extend([0; 8]);
        body.push(1);
        body.extend([0; 8]);
        body.extend([1, scope]);
        body.extend([0; 16]);
        body.extend([0, 1, run, 0, 0, 0, 0]);
        body
    };
    assert!(SyncMessage::decode(&body(0, 0)).is_ok());
    assert_eq!(SyncMessage::decode(&body(1, 0)), Err(FrameError::Malformed));
    assert_eq!(SyncMessage::decode(&body(0, 1)), Err(FrameError::Malformed));
}

#[test]
fn a_name_is_bounded_on_both_ways() {
    assert_eq!(NodeName::try_from("a".repeat(65)), Err(NameError(65)));
    // 33 letters of two bytes: bytes count.
    assert_eq!(NodeName::try_from("ü".repeat(33)), Err(NameError(66)));
    assert_eq!(name(&"a".repeat(MAX_NAME_LEN)).as_str().len(), 64);
    let member = |length: u8| {
        let mut bytes = vec![0, 127, 0, 0, 1, 1];
        bytes.extend([0; 8]);
        bytes.extend([0, 0, length]);
        bytes.extend(vec![b'a'; usize::from(length)]);
        // Incarnation and state.
        bytes.extend([0, 0]);
        SwimCodec::default().decode_member(&bytes[..]).map(|member| member.id().name.as_str().len())
    };
    assert_eq!(member(64).ok(), Some(64));
    assert!(member(65).is_err());
    // Not UTF-8.
    let mut bytes = vec![0, 127, 0, 0, 1, 1];
    bytes.extend([0; 8]);
    bytes.extend([0, 0, 1, 0xff, 0, 0]);
    assert!(SwimCodec::default().decode_member(&bytes[..]).is_err());
}
