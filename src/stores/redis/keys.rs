//! Where the state of a key is kept.

use crate::stores::key;

use super::BuildError;

/// Most characters of a prefix.
const LONGEST_PREFIX: usize = 64;

/// Checks a prefix.
pub(super) fn check_prefix(prefix: &str) -> Result<(), BuildError> {
    let fits = (1..=LONGEST_PREFIX).contains(&prefix.len()) && prefix.bytes().all(key::is_plain);
    if fits { Ok(()) } else { Err(BuildError::Prefix { prefix: prefix.into(), most: LONGEST_PREFIX }) }
}

/// How the keys of one limiter are called: `prefix:{key}:kind:name`.
///
/// What is in braces decides on the slot of a cluster, so all of one key is in one. No other part has braces, and neither
/// has the key as it is written, so two limiters never share a name, and no key moves to a slot of its choice.
#[derive(Debug)]
pub(super) struct Keys {
    before: String,
    after: String,
}

impl Keys {
    /// Of a checked prefix.
    pub(super) fn new(prefix: &str, kind: &str, name: &str) -> Self {
        let mut after = format!("}}:{kind}:");
        key::write(name.as_bytes(), &mut after);
        Self { before: format!("{prefix}:{{"), after }
    }

    pub(super) fn of(&self, key: &[u8]) -> String {
        let mut name = String::with_capacity(self.before.len() + key::MAX_LEN + self.after.len());
        name.push_str(&self.before);
        key::write(key, &mut name);
        name.push_str(&self.after);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_parts_apart() {
        assert_eq!(Keys::new("app", "log", "login").of(b"user:1"), "app:{=user:1}:log:=login");
        let mut names = std::collections::HashSet::new();
        for (prefix, name, key) in [
            ("a", "b", "c"),
            ("a", "c", "b"),
            ("a:=b", "", "c"),
            ("a", "", "b:=c"),
            ("a", "=b", "c"),
            ("a", "b", "=c"),
            ("a", "b}:log:=c", ""),
            ("a", "b", "{c}"),
            ("a", "b", "}c{"),
        ] {
            for kind in ["log", "bucket"] {
                let written = Keys::new(prefix, kind, name).of(key.as_bytes());
                assert_eq!(written.matches(['{', '}']).count(), 2, "{written}");
                assert!(names.insert(written.clone()), "{written} twice");
            }
        }
    }

    #[test]
    fn a_prefix_is_checked() {
        for good in ["a", "peerlimit", "my-app:limits", &"p".repeat(64)] {
            assert_eq!(check_prefix(good), Ok(()));
        }
        for bad in ["", "a b", "{a}", "a}", "a\r\n", "\u{e4}", &"p".repeat(65)] {
            let error = check_prefix(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("1 to 64"), "{error}");
        }
    }
}
