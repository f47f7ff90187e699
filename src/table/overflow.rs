//! Groups for what does not fit into its home group.

use parking_lot::Mutex;

use super::{
    group::{Group, Link},
    groups::Groups,
};

/// A pool of overflow groups. One that is taken belongs to whoever holds the lock of the home group that leads to it.
#[derive(Debug)]
pub(super) struct Overflow {
    groups: Groups,
    most: usize,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    /// Given back, and empty.
    free: Vec<Link>,
    /// Those from here on were never taken.
    fresh: usize,
}

impl Overflow {
    pub(super) fn new(most: usize) -> Self {
        let most = most.min(Link::MAX);
        Self { groups: Groups::new(most), most, pool: Mutex::default() }
    }

    pub(super) fn group(&self, link: Link) -> &Group {
        self.groups.at(link.index())
    }

    /// An empty group, or `None` where all are taken. The pool's lock hands over what was written to it before.
    pub(super) fn take(&self) -> Option<Link> {
        let mut pool = self.pool.lock();
        pool.free.pop().or_else(|| {
            let fresh = (pool.fresh < self.most).then(|| Link::to(pool.fresh))?;
            pool.fresh += 1;
            Some(fresh)
        })
    }

    /// Takes back a group that is empty and leads nowhere.
    pub(super) fn give_back(&self, link: Link) {
        debug_assert!(self.group(link).is_empty() && self.group(link).link().is_none(), "{link:?} is in use");
        self.pool.lock().free.push(link);
    }
}
