//! The steps of anti-entropy, and the members that SWIM speaks of.

use foca::Codec;

use super::*;

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn every_message_comes_back(message in a_message()) {
        let body = message.encode();
        prop_assert!(HEADER_LEN + body.len() <= MAX_STREAM_FRAME);
        match (SyncMessage::decode(&body), &message) {
            // A batch that was read has no room to track.
            (Ok(SyncMessage::Records(back)), SyncMessage::Records(sent)) => {
                prop_assert_eq!((back.records(), back.elapsed), (sent.records(), sent.elapsed));
            }
            (back, sent) => prop_assert_eq!(back.as_ref(), Ok(sent)),
        }
    }

    #[test]
    fn bytes_after_the_last_field_are_skipped(message in a_message(), tail in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut body = message.encode();
        let known = SyncMessage::decode(&body);
        body.extend(tail);
        prop_assert!(known.is_ok());
        prop_assert_eq!(SyncMessage::decode(&body), known);
    }

    #[test]
    fn a_batch_of_any_records_fits_into_a_frame(sizes in prop::collection::vec(prop_oneof![9 => 0..40_usize, 1 => 0..=MAX_RUNS], 1..200)) {
        let mut batch = RecordBatch::new(Duration::MAX);
        let mut pushed = 0;
        for (key, cells) in sizes.iter().enumerate() {
            if !batch.push(worst_record(key as u64, *cells)) {
                break;
            }
            pushed += 1;
        }
        prop_assert!(pushed > 0, "an empty batch takes any record");
        let body = SyncMessage::Records(batch).encode();
        prop_assert!(!body.is_empty() && HEADER_LEN + body.len() <= MAX_STREAM_FRAME, "{} bytes", body.len());
    }

    #[test]
    fn an_identity_comes_back(id in an_identity(), incarnation in any::<u16>(), probe in any::<u8>()) {
        let mut codec = SwimCodec::default();
        let message = foca::Message::PingReq { target: id.clone(), probe_number: probe };
        let header = foca::Header { src: id.clone(), src_incarnation: incarnation, dst: id.clone(), message };
        let mut bytes = Vec::new();
        codec.encode_header(&header, &mut bytes).expect("a vector has room");
        let mut rest = &bytes[..];
        prop_assert_eq!(codec.decode_header(&mut rest).expect("was just encoded"), header);
        prop_assert!(rest.is_empty());
        for state in [foca::State::Alive, foca::State::Suspect, foca::State::Down] {
            let member = foca::Member::new(id.clone(), incarnation, state);
            let mut bytes = Vec::new();
            codec.encode_member(&member, &mut bytes).expect("a vector has room");
            let mut rest = &bytes[..];
            prop_assert_eq!(codec.decode_member(&mut rest).expect("was just encoded"), member);
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn what_does_not_fit_leaves_the_packet_as_it_was(id in an_identity(), room in 0..200_usize) {
        use bytes::BufMut;
        let member = foca::Member::new(id, 0, foca::State::Alive);
        let mut whole = Vec::new();
        SwimCodec::default().encode_member(&member, &mut whole).expect("a vector has room");
        let mut packet = vec![b'x'];
        let result = SwimCodec::default().encode_member(&member, (&mut packet).limit(room));
        prop_assert_eq!(result.is_ok(), whole.len() <= room);
        prop_assert_eq!(packet.len(), if result.is_ok() { 1 + whole.len() } else { 1 });
    }
}

/// A record of `cells` cells of different runs, all integers at their longest.
fn worst_record(key: u64, cells: usize) -> KeyRecord {
    let cell = |run: usize| RunCell {
        run: RunId::from_raw(u64::MAX - run as u64),
        count: Count { epoch: Epoch::from_raw(u32::MAX), permits: u64::MAX },
        version: Version::from_raw(u64::MAX),
        age_secs: u32::MAX,
    };
    KeyRecord {
        scope: ScopeId::from_raw(u64::MAX - key),
        digest: Digest::from_bytes([0xff; 16]),
        missing: Some(Missing::from_raw(u64::MAX)),
        cells: (0..cells).map(cell).collect(),
    }
}

#[test]
fn the_longest_record_fits_into_a_frame() {
    let message = SyncMessage::Records(batch(Duration::MAX, vec![worst_record(0, MAX_RUNS)]));
    let body = message.encode();
    assert!(HEADER_LEN + body.len() <= MAX_STREAM_FRAME, "{} bytes", body.len());
    let Ok(SyncMessage::Records(back)) = SyncMessage::decode(&body) else { panic!("does not come back") };
    assert_eq!(back.records(), [worst_record(0, MAX_RUNS)]);
}

#[test]
fn a_batch_ends_before_it_outgrows_its_frame() {
    let mut batch = RecordBatch::new(Duration::MAX);
    assert!(batch.is_empty());
    let mut taken = 0;
    while batch.push(worst_record(taken, 2)) {
        taken += 1;
        assert!(taken < 10_000, "the batch is never full");
    }
    // Half a frame is the aim; with estimates on the safe side it should hold some hundreds of keys.
    assert!(taken > 200, "{taken} records");
    assert_eq!(batch.records().len() as u64, taken);
}

#[test]
fn the_longest_lists_of_runs_fit_and_are_cut_there() {
    let held =
        |run: u64| HeldRun { run: RunId::from_raw(run), version: Version::from_raw(u64::MAX), age_secs: u32::MAX };
    let covered = |run: u64| Covered {
        run: RunId::from_raw(run),
        from: Version::from_raw(u64::MAX),
        to: Version::from_raw(u64::MAX),
        dropped: Some(u32::MAX),
    };
    let many = MAX_RUNS as u64 + 100;
    let body = SyncMessage::Versions((0..many).map(held).collect()).encode();
    assert!(!body.is_empty() && HEADER_LEN + body.len() <= MAX_STREAM_FRAME);
    let back = SyncMessage::decode(&body);
    assert!(matches!(&back, Ok(SyncMessage::Versions(runs)) if runs.len() == MAX_RUNS));
    let body = SyncMessage::Done((0..many).map(covered).collect()).encode();
    assert!(!body.is_empty() && HEADER_LEN + body.len() <= MAX_STREAM_FRAME);
    let back = SyncMessage::decode(&body);
    assert!(matches!(&back, Ok(SyncMessage::Done(runs)) if runs.len() == MAX_RUNS));
}
