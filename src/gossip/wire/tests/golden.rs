//! The wire format, byte by byte. A change here is a break between versions of this crate.
//!
//! The constants were written by a second implementation, from the description of the format.

use std::time::Duration;

use foca::Codec;

use super::*;

const RUN: RunId = RunId::from_raw(0x1122_3344_5566_7788);
const OTHER: RunId = RunId::from_raw(0x99aa_bbcc_ddee_ff00);

/// Wire version 1, cluster "", and the run above.
const HEADER: &str = "012ff3cddb1c7bfcbc8877665544332211";

fn frame(tag: Tag, body: &[u8]) -> String {
    let frame = hex(&encode_frame(cluster(), RUN, tag, body));
    frame.strip_prefix(HEADER).unwrap_or_else(|| panic!("{frame} has another header")).to_owned()
}

fn scope(name: &str) -> ScopeId {
    DigestKey::PUBLIC.scope_id(name)
}

fn digest(scope: &str, key: &str) -> Digest {
    DigestKey::PUBLIC.hasher(scope).digest(key.as_bytes())
}

#[test]
fn a_frame_of_deltas_is_pinned() {
    let delta = |name: &str, key: &str, epoch, from, to, version| Delta {
        scope: scope(name),
        digest: digest(name, key),
        epoch: Epoch::from_raw(epoch),
        from,
        to,
        version: Version::from_raw(version),
    };
    let deltas = [
        delta("default", "user-42", 0, 293, 300, 5),
        delta("default", "", 3, (1 << 32) - 70_000, 1 << 32, 6),
        delta("login", "user-42", 0, 0, 250, 7),
    ];
    let mut writer = DeltaWriter::default();
    deltas.iter().for_each(|delta| writer.push(delta, Duration::from_millis(7)));
    let bodies = writer.finish();
    assert_eq!(bodies.len(), 1);
    assert_eq!(
        frame(Tag::Deltas, &bodies[0]),
        "0207000453f7461f97af94bd026e2008d7e595164dea92e558c5cecaad00fb2c0107a1323e4f784b5817833588d5272479c3\
         03fd0000000001000000fc70110100e81c69d67edfd06d01bbfd233a141dee2d30ab1fb1172a1e7800fafa"
    );
    let read = DeltaFrame::decode(&bodies[0]);
    assert_eq!(read.map(|frame| (frame.age, frame.deltas)), Ok((Duration::from_millis(7), deltas.to_vec())));
    assert_eq!(frame(Tag::Leave, &[]), "04");
}

#[test]
fn every_step_of_anti_entropy_is_pinned() {
    let held = |run, version, age_secs| HeldRun { run, version: Version::from_raw(version), age_secs };
    let cell = |run, epoch, permits, version, age_secs| RunCell {
        run,
        count: Count { epoch: Epoch::from_raw(epoch), permits },
        version: Version::from_raw(version),
        age_secs,
    };
    let records = vec![
        KeyRecord {
            scope: scope("default"),
            digest: digest("default", "user-42"),
            missing: Some(Missing::from_raw(10 << 16)),
            cells: [cell(RUN, 0, 300, 9, 2), cell(OTHER, 1, 5, 1 << 40, 0)].into_iter().collect(),
        },
        KeyRecord {
            scope: scope("default"),
            digest: digest("default", ""),
            missing: None,
            cells: [cell(OTHER, 2, 1, 7, u32::MAX)].into_iter().collect(),
        },
    ];
    let covered = Covered { run: RUN, from: Version::NONE, to: Version::from_raw(300), dropped: Some(2) };
    let pinned = [
        (SyncMessage::Summary(0x0123_4567_89ab_cdef), "0301efcdab8967452301"),
        (SyncMessage::InStep, "0302"),
        (
            SyncMessage::Versions(vec![held(RUN, 250, 0), held(OTHER, 65_536, 251)]),
            "0303028877665544332211fa0000ffeeddccbbaa99fc00000100fbfb00",
        ),
        (
            SyncMessage::Records(batch(Duration::from_micros(500), records)),
            "0304fbf40102887766554433221100ffeeddccbbaa990153f7461f97af94bd02006e2008d7e595164dea92e558c5cecaad01fc00000a00\
             020000fb2c010902010105fd00000000000100000000a1323e4f784b5817833588d5272479c3000101020107fcffffffff",
        ),
        (
            SyncMessage::Done(vec![covered]),
            "0305018877665544332211\
             00fb2c010102",
        ),
    ];
    for (message, bytes) in pinned {
        assert_eq!(frame(Tag::Sync, &message.encode()), bytes, "{message:?}");
    }
}

#[test]
fn a_swim_message_is_pinned() {
    let source = Identity {
        addr: "10.0.0.1:7946".parse().expect("an address"),
        run: RUN,
        started: 1_764_000_000_000,
        renewals: 0,
        name: name("node-a"),
    };
    let target = Identity {
        addr: "[2001:db8::1]:7946".parse().expect("an address"),
        run: OTHER,
        started: 0,
        renewals: 2,
        name: name(""),
    };
    let header =
        foca::Header { src: source, src_incarnation: 1, dst: target.clone(), message: foca::Message::Ping(200) };
    let mut body = Vec::new();
    SwimCodec::default().encode_header(&header, &mut body).expect("fits");
    assert_eq!(
        frame(Tag::Swim, &body),
        "01000a000001fb0a1f8877665544332211fd00e897b69a01000000066e6f64652d6101\
         0120010db8000000000000000000000001fb0a1f00ffeeddccbbaa9900020000c8"
    );
    let mut member = Vec::new();
    let update = foca::Member::new(target, 300, foca::State::Suspect);
    SwimCodec::default().encode_member(&update, &mut member).expect("fits");
    assert_eq!(hex(&member), "0120010db8000000000000000000000001fb0a1f00ffeeddccbbaa99000200fb2c0101");
}

#[test]
fn every_kind_of_swim_message_has_its_number() {
    let unknown = Identity::unknown("10.0.0.1:1".parse().expect("an address"));
    let (target, origin, probe_number) = (unknown.clone(), unknown.clone(), 7);
    let kinds = [
        foca::Message::Ping(7),
        foca::Message::Ack(7),
        foca::Message::PingReq { target: target.clone(), probe_number },
        foca::Message::IndirectPing { origin: origin.clone(), probe_number },
        foca::Message::IndirectAck { target, probe_number },
        foca::Message::ForwardedAck { origin, probe_number },
        foca::Message::Announce,
        foca::Message::Feed,
        foca::Message::Gossip,
        foca::Message::Broadcast,
        foca::Message::TurnUndead,
    ];
    let mut codec = SwimCodec::default();
    let mut prefix = Vec::new();
    let header = |message| foca::Header { src: unknown.clone(), src_incarnation: 0, dst: unknown.clone(), message };
    codec.encode_header(&header(foca::Message::Announce), &mut prefix).expect("fits");
    prefix.pop();
    for (number, message) in kinds.into_iter().enumerate() {
        let mut bytes = Vec::new();
        codec.encode_header(&header(message.clone()), &mut bytes).expect("fits");
        let rest = bytes.strip_prefix(&prefix[..]).expect("only the message differs");
        assert_eq!(usize::from(rest[0]), number, "{message:?}");
        assert_eq!(codec.decode_header(&bytes[..]).expect("was just encoded").message, message);
    }
}
