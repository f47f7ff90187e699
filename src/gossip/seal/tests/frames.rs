//! Datagrams, as friends and foes send them.

use super::*;

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn what_is_sealed_opens_once(body in prop::collection::vec(any::<u8>(), 0..1_150)) {
        let (mut from, mut to) = (sealer(RUN, &[1]), sealer(OTHER, &[1]));
        let bytes = from.datagram(Tag::Deltas, &body).expect("a number is left");
        prop_assert!(body.len() + HEADER_LEN + SEAL_LEN == bytes.len());
        prop_assert_eq!(open(&mut to, &bytes), Ok((RUN, Tag::Deltas, body.clone())));
        prop_assert_eq!(open(&mut to, &bytes), Err(FrameError::Duplicate));
        // The same again is another frame.
        let again = from.datagram(Tag::Deltas, &body).expect("a number is left");
        prop_assert!(again != bytes && open(&mut to, &again).is_ok());
        // Nothing of what goes in the clear is there in the clear.
        prop_assert!(body.len() < 8 || !bytes.windows(body.len()).any(|window| window == body));
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut seal = sealer(OTHER, &[1]);
        prop_assert!(open(&mut seal, &bytes).is_err());
        let mut headed = encode_frame(cluster(), RUN, Tag::Sealed, &[]).to_vec();
        headed.extend(&bytes);
        prop_assert!(open(&mut seal, &headed).is_err());
        prop_assert_eq!(seal.senders(), 0);
    }
}

#[test]
fn a_bit_that_is_wrong_anywhere_keeps_a_frame_out() {
    let mut from = sealer(RUN, &[1]);
    for known in [false, true] {
        let mut to = sealer(OTHER, &[1]);
        if known {
            let first = from.datagram(Tag::Leave, &[]).expect("a number is left");
            open(&mut to, &first).expect("opens");
        }
        let good = from.datagram(Tag::Deltas, b"some deltas").expect("a number is left");
        for bit in 0..8 * good.len() {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let said = open(&mut to, &bad).expect_err("it was changed");
            let expected = match bit / 8 {
                0 => FrameError::Version(bad[0]),
                1..9 => FrameError::ForeignCluster,
                17 => match bad[17] {
                    // Taken for a frame in the clear.
                    1 | 4 => FrameError::Unsealed,
                    tag => FrameError::UnknownTag(tag),
                },
                18..22 => FrameError::UnknownSecret,
                // Another number of a known sender may be too old.
                _ => FrameError::NotAuthentic,
            };
            let seen_or_old =
                matches!(said, FrameError::Duplicate | FrameError::Replayed) && (22..30).contains(&(bit / 8));
            assert!(said == expected || (known && seen_or_old), "bit {bit}: {said:?} is not {expected:?}");
        }
        assert_eq!(to.senders(), usize::from(known));
        assert_eq!(open(&mut to, &good), Ok((RUN, Tag::Deltas, b"some deltas".to_vec())));
    }
}

#[test]
fn a_frame_cut_anywhere_is_kept_out() {
    let (mut from, mut to) = (sealer(RUN, &[1]), sealer(OTHER, &[1]));
    let good = from.datagram(Tag::Deltas, b"some deltas").expect("a number is left");
    for length in 0..good.len() {
        let said = open(&mut to, &good[..length]).expect_err("it was cut");
        let expected = match length {
            0..18 => FrameError::TooShort,
            18..47 => FrameError::Malformed,
            _ => FrameError::NotAuthentic,
        };
        assert_eq!(said, expected, "{length} bytes");
    }
    let longer = [&good[..], &[0]].concat();
    assert_eq!(open(&mut to, &longer), Err(FrameError::NotAuthentic));
}

#[test]
fn frames_may_overtake_each_other_and_count_once() {
    let (mut from, mut to) = (sealer(RUN, &[1]), sealer(OTHER, &[1]));
    let frames: Vec<Bytes> =
        (0..3_000_u32).map(|n| from.datagram(Tag::Deltas, &n.to_le_bytes()).expect("a number is left")).collect();
    for frame in frames[1_000..2_000].iter().rev() {
        assert!(open(&mut to, frame).is_ok());
    }
    assert!(open(&mut to, &frames[0]).is_ok());
    for frame in frames[1_000..2_000].iter().chain([&frames[0]]) {
        assert_eq!(open(&mut to, frame), Err(FrameError::Duplicate));
    }
    assert!(open(&mut to, &frames[2_999]).is_ok());
    assert!(open(&mut to, &frames[2_999 - 2_047]).is_ok());
    // Whether this one was seen is forgotten.
    assert_eq!(open(&mut to, &frames[1]), Err(FrameError::Replayed));
}

#[test]
fn a_frame_that_comes_back_to_its_sender_is_dropped() {
    let mut from = sealer(RUN, &[1]);
    let frame = from.datagram(Tag::Deltas, b"mine").expect("a number is left");
    assert_eq!(open(&mut from, &frame), Err(FrameError::Replayed));
}

#[test]
fn only_who_has_the_secret_and_the_label_opens() {
    let frame = sealer(RUN, &[1]).datagram(Tag::Deltas, b"news").expect("a number is left");
    assert_eq!(open(&mut sealer(OTHER, &[2, 3]), &frame), Err(FrameError::UnknownSecret));
    assert_eq!(open(&mut Seal::new(cluster(), OTHER, None), &frame), Err(FrameError::UnknownSecret));
    assert!(open(&mut sealer(OTHER, &[2, 1]), &frame).is_ok());
    let elsewhere = ClusterId::new(&DigestKey::PUBLIC, "elsewhere");
    let mut foreign = Seal::new(elsewhere, OTHER, Some(&secrets(&[1])));
    assert_eq!(open(&mut foreign, &frame), Err(FrameError::ForeignCluster));
    // With the label changed it is sealed under another key.
    let mut relabelled = frame.to_vec();
    relabelled[1..9].copy_from_slice(&elsewhere.to_bytes());
    assert_eq!(open(&mut foreign, &relabelled), Err(FrameError::UnknownSecret));
}

#[test]
fn the_stages_of_a_roll_out_understand_their_neighbours() {
    let none = || Seal::new(cluster(), RUN, None);
    let at = |stage, run| Seal::new(cluster(), run, Some(&secrets(&[1]).at_stage(stage)));
    let stages = [Sealing::Prepared, Sealing::Preferred, Sealing::Required];
    for (place, stage) in stages.into_iter().enumerate() {
        for (other, stage_of_other) in stages.into_iter().enumerate() {
            let frame = at(stage, RUN).datagram(Tag::Leave, &[]).expect("a number is left");
            let read = open(&mut at(stage_of_other, OTHER), &frame);
            let neighbours = place.abs_diff(other) <= 1;
            assert!(read.is_ok() || !neighbours, "{stage:?} to {stage_of_other:?}: {read:?}");
            assert_eq!(read == Err(FrameError::Unsealed), place == 0 && other == 2, "{stage:?} to {stage_of_other:?}");
        }
        let frame = at(stage, RUN).datagram(Tag::Leave, &[]).expect("a number is left");
        assert_eq!(open(&mut none(), &frame).is_ok(), place == 0, "{stage:?} to none");
        let frame = none().datagram(Tag::Leave, &[]).expect("a number is left");
        assert_eq!(open(&mut at(stage, OTHER), &frame).is_ok(), place < 2, "none to {stage:?}");
    }
}

#[test]
fn other_secrets_neither_forget_what_was_seen_nor_use_a_number_twice() {
    let (mut from, mut to) = (sealer(RUN, &[1]), sealer(OTHER, &[1]));
    let old = from.datagram(Tag::Leave, &[]).expect("a number is left");
    assert!(open(&mut to, &old).is_ok());
    to.set_secrets(&secrets(&[1, 2]));
    from.set_secrets(&secrets(&[2, 1]));
    let new = from.datagram(Tag::Leave, &[]).expect("a number is left");
    assert_eq!(new[22..30], 1_u64.to_le_bytes());
    assert!(open(&mut to, &new).is_ok());
    assert_eq!(open(&mut to, &old), Err(FrameError::Duplicate));
    to.set_secrets(&secrets(&[2]));
    from.set_secrets(&secrets(&[1]));
    let late = from.datagram(Tag::Leave, &[]).expect("a number is left");
    assert_eq!(open(&mut to, &late), Err(FrameError::UnknownSecret));
}

#[test]
fn numbers_end_long_before_they_run_over() {
    let mut from = sealer(RUN, &[1]);
    from.outbound.skip_to((1 << 63) - 1);
    assert!(from.datagram(Tag::Leave, &[]).is_some());
    assert!(from.datagram(Tag::Leave, &[]).is_none());
    assert!(from.datagram(Tag::Leave, &[]).is_none());
}

#[test]
fn a_flood_of_unknown_senders_is_tried_so_often_a_second_and_remembered_never() {
    let (mut from, mut to) = (sealer(RUN, &[1]), sealer(OTHER, &[1]));
    let known = from.datagram(Tag::Leave, &[]).expect("a number is left");
    assert!(open(&mut to, &known).is_ok());
    let mut forged = from.datagram(Tag::Leave, &[]).expect("a number is left").to_vec();
    let mut said = std::collections::BTreeMap::new();
    for run in 0..20_000_u64 {
        forged[9..17].copy_from_slice(&run.to_le_bytes());
        *said.entry(format!("{:?}", open(&mut to, &forged))).or_insert(0) += 1;
    }
    assert_eq!(said["Err(NotAuthentic)"], 4_095, "{said:?}");
    assert_eq!(said["Err(Strangers)"], 20_000 - 4_095, "{said:?}");
    assert_eq!(to.senders(), 1);
    // Whoever is known goes on being heard.
    assert!(open(&mut to, &from.datagram(Tag::Leave, &[]).expect("a number is left")).is_ok());
}

#[test]
fn senders_are_bounded_and_members_stay() {
    let mut to = sealer(OTHER, &[1]);
    let of = |run: u64, to: &mut Seal, millis| {
        let frame = sealer(RunId::from_raw(run), &[1]).datagram(Tag::Leave, &[]).expect("a number is left");
        let mut scratch = Vec::new();
        to.open(Timestamp::from_millis(millis), &frame, &mut scratch).map(|_| ())
    };
    to.set_member(RunId::from_raw(1), true);
    to.set_member(RunId::from_raw(2), true);
    to.set_member(RunId::from_raw(2), false);
    for run in 1..=MAX_RUNS as u64 + 500 {
        assert_eq!(of(run, &mut to, run), Ok(()));
        assert!(to.senders() <= MAX_RUNS);
    }
    assert_eq!(of(1, &mut to, 9_000), Err(FrameError::Duplicate));
    assert_eq!(of(MAX_RUNS as u64 + 500, &mut to, 9_000), Err(FrameError::Duplicate));
    // One that was forgotten: a recording of it counts once more.
    assert_eq!(of(3, &mut to, 9_000), Ok(()));
}
