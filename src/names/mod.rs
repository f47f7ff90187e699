//! Names that live as long as the process.

use std::{
    collections::HashSet,
    sync::{LazyLock, Mutex, PoisonError},
};

static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// `name` for the life of the process, kept once however often it is asked for.
///
/// So a decision can carry the name of what decided and still be copied freely. Scopes and stores are kinds of limits, and a
/// service has few of them; what is many is a key.
pub(crate) fn permanent(name: &str) -> &'static str {
    // Nothing panics while it is locked.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let first = permanent(&String::from("login"));
        assert_eq!(first, "login");
        assert!(std::ptr::eq(first, permanent(&["lo", "gin"].concat())));
        assert_eq!(permanent(""), "");
    }
}
