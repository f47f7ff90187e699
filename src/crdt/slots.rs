//! Short numbers for runs.

use super::{RunId, cells::RunSlot};

/// Which run a slot stands for. A slot is used again after its run went, with all of its cells.
#[derive(Debug)]
pub(super) struct Slots {
    runs: Vec<RunId>,
    free: Vec<RunSlot>,
}

impl Slots {
    /// With the first run, and its slot.
    pub(super) fn new(first: RunId) -> (Self, RunSlot) {
        (Self { runs: vec![first], free: Vec::new() }, RunSlot(0))
    }

    /// A slot for `run`; `None` where 65,536 runs have one.
    pub(super) fn take(&mut self, run: RunId) -> Option<RunSlot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = RunSlot(u16::try_from(self.runs.len()).ok()?);
                self.runs.push(run);
                slot
            }
        };
        self.runs[usize::from(slot.0)] = run;
        Some(slot)
    }

    pub(super) fn give_back(&mut self, slot: RunSlot) {
        self.free.push(slot);
    }

    pub(super) fn run(&self, slot: RunSlot) -> RunId {
        self.runs[usize::from(slot.0)]
    }
}
