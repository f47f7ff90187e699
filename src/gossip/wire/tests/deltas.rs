//! Frames of deltas.

use std::time::Duration;

use super::*;
use crate::gossip::wire::frame::SEAL_ROOM;

fn written(deltas: &[Delta]) -> Vec<Vec<u8>> {
    let mut writer = DeltaWriter::default();
    deltas.iter().for_each(|delta| writer.push(delta, Duration::from_millis(7)));
    writer.finish()
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn all_deltas_come_back_in_order_and_no_body_is_too_long(deltas in some_deltas(300)) {
        let mut back = Vec::new();
        for body in written(&deltas) {
            prop_assert!(!body.is_empty());
            prop_assert!(HEADER_LEN + body.len() + SEAL_ROOM <= MAX_DATAGRAM, "a body of {} bytes", body.len());
            let frame = DeltaFrame::decode(&body).expect("was just written");
            // The range is exactly what the deltas say: no version is claimed that another frame or nobody carries.
            prop_assert_eq!(frame.from.checked_add(frame.deltas.len() as u64), Some(frame.to));
            prop_assert_eq!(frame.deltas.first().map(|delta| delta.version), frame.from.checked_add(1));
            prop_assert_eq!(frame.deltas.last().map(|delta| delta.version), Some(frame.to));
            back.extend(frame.deltas);
        }
        prop_assert_eq!(back, deltas);
    }
}

#[test]
fn nothing_written_is_no_frame() {
    assert!(written(&[]).is_empty());
}

/// `count` deltas with the numbers of an everyday key.
fn typical(count: u64) -> Vec<Delta> {
    let hasher = DigestKey::PUBLIC.hasher("default");
    let scope = DigestKey::PUBLIC.scope_id("default");
    let one = |n: u64| Delta {
        scope,
        digest: hasher.digest(&n.to_le_bytes()),
        epoch: Epoch::from_raw(0),
        from: n * 50,
        to: n * 50 + n % 20 + 1,
        version: Version::from_raw(1_000 + n),
    };
    (1..=count).map(one).collect()
}

#[test]
fn a_cell_in_a_full_frame_costs_at_most_22_bytes() {
    let bodies = written(&typical(1_000));
    let full = &bodies[..bodies.len() - 1];
    assert!(!full.is_empty());
    for body in full {
        let cells = DeltaFrame::decode(body).expect("was just written").deltas.len();
        let bytes = encode_frame(cluster(), RunId::from_raw(1), Tag::Deltas, body).len();
        assert!(bytes <= 22 * cells, "{bytes} bytes for {cells} cells");
    }
}

#[test]
fn a_body_uses_the_room_it_has() {
    let bodies = written(&typical(1_000));
    for body in &bodies[..bodies.len() - 1] {
        let left = MAX_DATAGRAM - HEADER_LEN - SEAL_ROOM - body.len();
        // The next delta, perhaps with a group of its own, did not fit.
        assert!(left < 9 + 16 + 3 + 9 + 9, "{left} bytes were left");
    }
}

#[test]
fn more_deltas_than_a_group_can_count_still_come_back() {
    // The limit of a body is reached first, but no number of one byte may wrap.
    let deltas = typical(2_000);
    let back: Vec<Delta> =
        written(&deltas).iter().flat_map(|body| DeltaFrame::decode(body).expect("was just written").deltas).collect();
    assert_eq!(back, deltas);
}

#[test]
fn a_body_that_is_not_as_described_is_malformed() {
    let good = &written(&typical(2))[0];
    assert!(DeltaFrame::decode(good).is_ok());
    assert_eq!(DeltaFrame::decode(&[]), Err(FrameError::Malformed));
    // A group of none.
    let mut none = good.clone();
    none[2 + 3 + 8] = 0;
    assert_eq!(DeltaFrame::decode(&none), Err(FrameError::Malformed));
    // A group that promises one more.
    let mut more = good.clone();
    more[2 + 3 + 8] += 1;
    assert_eq!(DeltaFrame::decode(&more), Err(FrameError::Malformed));
    // More gained than counted: count 3, gained 4.
    let mut gained = vec![0; 2 + 1];
    gained.extend([0; 8]);
    gained.push(1);
    gained.extend([0; 16]);
    gained.extend([0, 3, 3]);
    assert!(DeltaFrame::decode(&gained).is_ok());
    gained.pop();
    gained.push(4);
    assert_eq!(DeltaFrame::decode(&gained), Err(FrameError::Malformed));
    // Versions that run over.
    let mut last = vec![0, 0, 0xfd];
    last.extend([0xff; 8]);
    last.extend([0; 8]);
    last.push(1);
    last.extend([0; 16]);
    last.extend([0, 1, 1]);
    assert_eq!(DeltaFrame::decode(&last), Err(FrameError::Malformed));
    last[3] = 0xfe;
    assert_eq!(DeltaFrame::decode(&last).map(|frame| frame.to), Ok(Version::from_raw(u64::MAX)));
    // A range of nothing is a frame: it only says where the sender stands.
    assert_eq!(DeltaFrame::decode(&[0, 0, 7]).map(|frame| (frame.from, frame.to, frame.deltas.len())), {
        let seven = Version::from_raw(7);
        Ok((seven, seven, 0))
    });
}
