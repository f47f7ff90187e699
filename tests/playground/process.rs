//! The example as a process.

use std::{
    env::{consts::EXE_SUFFIX, current_exe},
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit};

/// At most two at a time: they keep real time, on few processors.
static ROOM: Semaphore = Semaphore::const_new(2);
/// How long anything may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Where cargo puts examples, seen from a test's binary in `deps`.
fn binary() -> PathBuf {
    let test = current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples").join(format!("playground{EXE_SUFFIX}"));
    assert!(
        path.is_file(),
        "{} is missing: `cargo test` builds it, `cargo test --test NAME` does not; try `cargo build --example playground`",
        path.display()
    );
    path
}

/// A running playground. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Playground {
    child: Child,
    /// Host and port of its page.
    pub(crate) addr: String,
    _room: SemaphorePermit<'static>,
}

impl Playground {
    /// Starts it on a free port with further `args`.
    pub(crate) async fn start(args: &[&str]) -> Self {
        let room = ROOM.acquire().await.unwrap();
        let mut command = Command::new(binary());
        let mut child = command.args(["--port", "0"]).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.strip_prefix("Open http://").and_then(|rest| rest.split(' ').next());
        let addr = addr.unwrap_or_else(|| panic!("the playground began with {line:?}")).to_owned();
        Self { child, addr, _room: room }
    }

    /// Sends a signal by its name.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success(), "kill -s {name}: {status}");
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < DEADLINE, "the playground does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
