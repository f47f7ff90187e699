//! Sealed frames, byte by byte. The constants were written by a second implementation, from the description.

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counted() -> Secrets {
    Secrets::new([std::array::from_fn(|at| at as u8)]).expect("one secret")
}

/// Wire version 1, cluster "", the run, tag 5, and the id of the secret 00, 01, … 1f.
const FROM_RUN: &str = "012ff3cddb1c7bfcbc88776655443322110534b32d68";
const FROM_OTHER: &str = "012ff3cddb1c7bfcbc00ffeeddccbbaa990534b32d68";

#[test]
fn a_sealed_datagram_is_pinned() {
    let mut seal = Seal::new(cluster(), RUN, Some(&counted()));
    let first = seal.datagram(Tag::Deltas, b"body").expect("a number is left");
    assert_eq!(hex(&first), format!("{FROM_RUN}0000000000000000c7505139335a67c35fc145ce229fb5b9cd4e8f3394"));
    let second = seal.datagram(Tag::Leave, &[]).expect("a number is left");
    assert_eq!(hex(&second), format!("{FROM_RUN}0100000000000000f0a0833c1ffe7f0af0745530634f4ea346"));
    assert_eq!(first.len(), HEADER_LEN + 4 + SEAL_LEN);
}

#[test]
fn sealed_frames_of_a_stream_are_pinned() {
    let (mut one, mut two) =
        (Seal::new(cluster(), RUN, Some(&counted())), Seal::new(cluster(), OTHER, Some(&counted())));
    let (mut near, mut far) = (Channel::default(), Channel::default());
    let (mut scratch, now) = (Vec::new(), Timestamp::ZERO);
    let hello = one.stream_frame(&mut near, Tag::Sync, b"body").expect("our turn");
    assert_eq!(hex(&hello), format!("{FROM_RUN}000000000000000042dd0f24e2800ed04e26e47e8f1ded3185f696a032"));
    two.open_stream(now, &mut far, &hello, &mut scratch).expect("opens");
    let answer = two.stream_frame(&mut far, Tag::Sync, b"body").expect("our turn");
    assert_eq!(hex(&answer), format!("{FROM_OTHER}0000000000000000276bebf679d090e588f7720efbc503b1589fbb3f1c"));
    let more = two.stream_frame(&mut far, Tag::Sync, b"body").expect("our turn");
    assert_eq!(hex(&more), format!("{FROM_OTHER}01000000000000009c90781bac479b4cc2cab86e70b6aec48b108b83b8"));
    one.open_stream(now, &mut near, &answer, &mut scratch).expect("opens");
    let next = one.stream_frame(&mut near, Tag::Sync, b"body").expect("our turn");
    assert_eq!(hex(&next), format!("{FROM_RUN}010000000000000047d2f0ab2578fe883f585dad4a82bf5d6d1a1b6cca"));
}

#[test]
fn the_digest_key_of_a_secret_is_pinned() {
    let key = digest_key(b"0123456789abcdef");
    let expected = DigestKey::secret(*b"\xec\xfd\xcc\xd4\x81\x5d\x39\x7c\xcb\x78\xba\xa9\x9b\xe4\x44\x3e");
    assert_eq!(key.scope_id("login"), expected.scope_id("login"));
    assert_ne!(key.scope_id("login"), DigestKey::PUBLIC.scope_id("login"));
    // Another secret is another cluster.
    assert_ne!(ClusterId::new(&key, ""), cluster());
}
