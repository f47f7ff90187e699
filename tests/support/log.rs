//! What is logged, kept to be read.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::sync::{Arc, Mutex};

/// A log in memory. Clones are one.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics in here").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// What was written since the last call of this.
    pub(crate) fn take(&self) -> String {
        let written = std::mem::take(&mut *self.0.lock().expect("nobody panics in here"));
        String::from_utf8(written).expect("a log is text")
    }

    /// What was written so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("nobody panics in here").clone()).expect("a log is text")
    }
}
