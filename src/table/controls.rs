//! What an operator may set aside: a quota that only watches, and keys that are exempt or blocked.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::RwLock;

use crate::crdt::Digest;

/// What is done to a key whatever its bucket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// All its requests pass, and consume nothing.
    Exempt,
    /// All its requests are refused.
    Blocked,
}

/// The controls of one scope, on this node.
///
/// Most scopes have none in use, and a decision there reads one flag.
#[derive(Debug, Default)]
pub struct Controls {
    /// Whether any of the others is in use. Relaxed, like `shadow`: whoever sets them waits for nobody.
    in_use: AtomicBool,
    shadow: AtomicBool,
    overrides: RwLock<HashMap<Digest, Override>>,
}

impl Controls {
    /// Whether anything but the quota decides.
    #[inline]
    pub fn in_use(&self) -> bool {
        self.in_use.load(Relaxed)
    }

    /// Whether requests pass that the quota refuses.
    pub fn is_shadow(&self) -> bool {
        self.shadow.load(Relaxed)
    }

    /// Lets requests pass that the quota refuses, or not.
    pub fn set_shadow(&self, shadow: bool) {
        let overrides = self.overrides.write();
        self.shadow.store(shadow, Relaxed);
        self.in_use.store(shadow || !overrides.is_empty(), Relaxed);
    }

    /// What is done to a key, if anything.
    pub fn override_of(&self, digest: Digest) -> Option<Override> {
        self.overrides.read().get(&digest).copied()
    }

    /// Does that to a key from now on, or nothing.
    pub fn set_override(&self, digest: Digest, to: Option<Override>) {
        let mut overrides = self.overrides.write();
        match to {
            Some(to) => overrides.insert(digest, to),
            None => overrides.remove(&digest),
        };
        self.in_use.store(self.is_shadow() || !overrides.is_empty(), Relaxed);
    }
}
