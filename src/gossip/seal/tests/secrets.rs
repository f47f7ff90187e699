//! Secrets from what operators write.

use super::*;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn bytes(secrets: &Secrets) -> Vec<[u8; 32]> {
    secrets.keys().copied().collect()
}

fn text(result: Result<Secrets, SecretError>) -> String {
    result.expect_err("is wrong").to_string()
}

#[test]
fn a_file_has_one_secret_a_line_in_either_form() {
    let file = |last: &str| format!("# the new one\n\n  {HEX}  # since May\r\n\t\n{}{last}\n", "_/".repeat(21));
    let secrets = Secrets::parse(&file("8")).expect("good");
    // Bits that are left over would give a secret two forms.
    let ambiguous = Secrets::parse(&file("9"));
    assert!(matches!(ambiguous, Err(SecretError::Character { line: 5, column: 43 })), "{ambiguous:?}");
    let counted: [u8; 32] = std::array::from_fn(|at| at as u8);
    assert_eq!(bytes(&secrets), [counted, [0xff; 32]]);
    assert_eq!((secrets.len(), secrets.sealing()), (2, Sealing::Required));
    for form in [BASE64, BASE64.trim_end_matches('=')] {
        assert_eq!(bytes(&Secrets::from_base64(form).expect("good")), [counted]);
        assert_eq!(bytes(&Secrets::parse(form).expect("good")), [counted]);
    }
    assert_eq!(bytes(&Secrets::from_hex(&HEX.to_uppercase()).expect("good")), [counted]);
}

#[test]
fn what_is_wrong_is_said_by_line_and_bound_and_never_shown() {
    let cases = [
        (text(Secrets::parse("# nothing\n\n")), "no secret given, must be 1 to 8"),
        (text(Secrets::new([])), "no secret given, must be 1 to 8"),
        (text(Secrets::new((1..10).map(|byte| [byte; 32]))), "more than 8 secrets given"),
        (
            text(Secrets::parse(&format!("{HEX}\nsecretive"))),
            "secret in line 2 is 9 characters long, must be 32 bytes: ",
        ),
        (text(Secrets::from_hex(&HEX[1..])), "secret in line 1 is 63 characters long, "),
        (text(Secrets::from_base64(&BASE64.replace('w', "!"))), "secret in line 1 has a wrong character at column 6"),
        (text(Secrets::parse(&format!("\n{}x", &HEX[1..]))), "secret in line 2 has a wrong character at column 64"),
        (text(Secrets::parse(&"0".repeat(64))), "secret in line 1 is all zeros, must be random"),
        (text(Secrets::parse(&format!("{HEX}\n#\n{BASE64}"))), "secret in line 3 is there twice"),
        (text(Secrets::from_file("/nowhere/at/all")), "file of secrets cannot be read"),
    ];
    for (said, expected) in cases {
        assert!(said.starts_with(expected), "{said:?} is not {expected:?}");
        assert!(!said.contains("secretive") && !said.contains("0a0b0c"), "{said:?}");
    }
}

#[test]
fn debug_shows_how_many_and_nothing_else() {
    let all = [
        format!("{:?}", secrets(&[7, 9]).at_stage(Sealing::Prepared)),
        format!("{:?}", sealer(RUN, &[7])),
        format!("{:?}", Some(secrets(&[7]))),
    ];
    assert_eq!(all, ["Secrets(2, Prepared)", "Seal { sealing: Required, secrets: 1 }", "Some(Secrets(1, Required))"]);
}

#[test]
fn rings_are_joined_and_the_first_one_seals() {
    let both = secrets(&[2]).at_stage(Sealing::Preferred).also_open(&secrets(&[1, 2])).expect("two");
    assert_eq!((bytes(&both), both.sealing()), (vec![[2; 32], [1; 32]], Sealing::Preferred));
    let many = secrets(&[1, 2, 3, 4, 5]);
    assert!(matches!(many.also_open(&secrets(&[6, 7, 8, 9])), Err(SecretError::TooMany)));
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_secret_has_its_forms(secret in any::<[u8; 32]>().prop_filter("not zero", |secret| *secret != [0; 32])) {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        prop_assert_eq!(bytes(&Secrets::parse(&hex).expect("good")), [secret]);
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bit = |at: usize| secret.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        let base64: String = (0..43)
            .map(|char| (0..6).fold(0, |value, at| value << 1 | usize::from(bit(char * 6 + at))))
            .map(|value| char::from(ALPHABET[value]))
            .collect();
        prop_assert_eq!(bytes(&Secrets::parse(&base64).expect("good")), [secret]);
        // Another last character may stand for no secret, and never for the same.
        for other in ALPHABET {
            let changed = format!("{}{}", &base64[..42], char::from(*other));
            if changed != base64
                && let Ok(parsed) = Secrets::parse(&changed)
            {
                prop_assert_ne!(bytes(&parsed), [secret]);
            }
        }
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,70}", lines in "[0-9a-fA-F#\n =+/]{0,300}") {
        let _parsed = (Secrets::parse(&text), Secrets::parse(&lines), Secrets::from_hex(&text), Secrets::from_base64(&text));
    }
}
