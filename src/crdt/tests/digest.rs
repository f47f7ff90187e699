//! Digests are the same on every member, platform and version.

use super::*;

fn hex(digest: Digest) -> String {
    digest.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The public key's words as a secret key: the vectors are older than the fast digest.
const SECRET: DigestKey = DigestKey::secret(*b"imilreeptsegid_t");

/// Computed by another implementation of SipHash-1-3-128, itself checked against the published vectors of
/// SipHash-2-4-128.
#[test]
fn digests_under_a_secret_key_are_pinned() {
    let pinned: [(&str, &[u8], &str); 8] = [
        ("default", b"", "94130a97de14c6128901a1c8c66c94a4"),
        ("default", b"\0", "8767fade432de7c2779e6c0cab33488f"),
        ("default", b"12345678", "42158d84375a15c5af2274f85ddb834b"),
        ("default", b"user-42", "faccb15bd98ce000032c89f4d69f433d"),
        ("login", b"user-42", "5c541cdcfe4f0605d2dcabc902db8365"),
        ("", b"", "19d2ca83eaf66993c62591847186b27b"),
        ("\u{fc}n\u{ef}", "schl\u{fc}ssel".as_bytes(), "69a42b7af9617b03d9bb93f27a8fe344"),
        ("default", &[b'a'; 1 << 20], "7f4ff87b5ec0b6983db31c13b68d2517"),
    ];
    for (scope, key, expected) in pinned {
        assert_eq!(hex(SECRET.hasher(scope).digest(key)), expected, "{scope:?}, a key of {} bytes", key.len());
    }
}

/// Computed by xxHash itself, with a secret stretched by another implementation of `SipHash`. The lengths are those at which the
/// algorithm changes.
#[test]
fn digests_under_the_public_key_are_pinned() {
    let pinned: [(&str, &[u8], &str); 12] = [
        ("default", b"", "a1323e4f784b5817833588d5272479c3"),
        ("default", b"\0", "8e66dae4f667db3deac33a631c0b4301"),
        ("default", b"abc", "4f57720369703ce44d9e676c9c0e8486"),
        ("default", b"12345678", "a0d6471aec6159da700eb6805a869a07"),
        ("default", b"user-42", "6e2008d7e595164dea92e558c5cecaad"),
        ("login", b"user-42", "bbfd233a141dee2d30ab1fb1172a1e78"),
        ("", b"", "93e5830d50c94eccaf3b6f7bb4d0c003"),
        ("\u{fc}n\u{ef}", "schl\u{fc}ssel".as_bytes(), "1f821aa25b8aac73386e0138373b2e35"),
        ("default", b"0123456789abcdef0", "e08a29b297c1adddff2b6467e05a589d"),
        ("default", &[b'x'; 129], "f4df17d25aff037901959a9c3940fca5"),
        ("default", &[b'y'; 300], "c0518070acb30d1eff476fbdd3da733f"),
        ("default", &[b'a'; 1 << 20], "40b6f9d9fdf39cb43f133d4f966a02b9"),
    ];
    for (scope, key, expected) in pinned {
        assert_eq!(hex(DigestKey::PUBLIC.hasher(scope).digest(key)), expected, "{scope:?}, {} bytes", key.len());
    }
}

#[test]
fn names_of_scopes_are_pinned() {
    let pinned = [
        ("", 0xbcfc_7b1c_dbcd_f32f),
        ("default", 0xbd94_af97_1f46_f753),
        ("login", 0x6dd0_df7e_d669_1ce8),
        ("pro-tier", 0x333d_b48f_d190_7518),
        ("\u{fc}n\u{ef}", 0xb7f3_53ef_d21b_5c22),
    ];
    for (name, expected) in pinned {
        assert_eq!(DigestKey::PUBLIC.scope_id(name), ScopeId::from_raw(expected), "{name:?}");
    }
}

#[test]
fn equal_keys_of_two_scopes_have_nothing_in_common() {
    let (one, two) = (DigestKey::PUBLIC.hasher("one"), DigestKey::PUBLIC.hasher("two"));
    for number in 0..1_000_u64 {
        let (a, b) = (one.digest(&number.to_le_bytes()), two.digest(&number.to_le_bytes()));
        assert!(a.word() != b.word() && a.other_word() != b.other_word());
    }
}

#[test]
fn a_key_is_not_shown_where_its_digest_key_is_debugged() {
    for key in [DigestKey::PUBLIC, SECRET] {
        assert_eq!(format!("{:?} {:?}", key, key.hasher("one")), "DigestKey KeyHasher");
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn bytes_come_back(bytes in any::<[u8; 16]>()) {
        let digest = Digest::from_bytes(bytes);
        prop_assert_eq!(digest.to_bytes(), bytes);
        prop_assert_eq!(digest.word().to_le_bytes(), &bytes[..8]);
        prop_assert_eq!(digest.other_word().to_le_bytes(), &bytes[8..]);
    }

    #[test]
    fn different_keys_have_different_digests(a in prop::collection::vec(any::<u8>(), 0..40), b in prop::collection::vec(any::<u8>(), 0..40)) {
        for key in [DigestKey::PUBLIC, SECRET] {
            let hasher = key.hasher("default");
            prop_assert_eq!(a == b, hasher.digest(&a) == hasher.digest(&b));
        }
    }
}
