//! Processes of real servers, on free ports of loopback, with their data in temporary folders.

#![allow(dead_code, reason = "each module uses a part of it")]

use std::{
    env,
    ffi::OsStr,
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Set where a test that cannot run is a failure.
const REQUIRE: &str = "PEERLIMIT_REQUIRE_SERVICES";
/// How long a server may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether `program` is there. Else says so: the test that asked is skipped then, or fails where services are required.
pub fn is_installed(program: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    if !found {
        assert!(env::var_os(REQUIRE).is_none(), "{program} is not installed, and {REQUIRE} is set");
        eprintln!("skipped: {program} is not installed; `apt-get install redis-server memcached`");
    }
    found
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A server's process. Dropping it kills it and removes its folder.
pub struct Server {
    command: Command,
    child: Child,
    dir: PathBuf,
    pub port: u16,
}

impl Server {
    /// Starts `program` in a folder of its own, and waits until it answers at `port`.
    pub fn start<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>, port: u16) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("peerlimit-{program}-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let dir = env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let mut command = Command::new(program);
        command.args(args).current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let server = Self { command, child, dir, port };
        server.wait_until_up();
        server
    }

    fn wait_until_up(&self) {
        let begin = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "no server at port {} within {PATIENCE:?}", self.port);
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops the process as `SIGSTOP` does: its connections stay open, and nothing answers.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets a stopped process go on.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    /// Kills the process at once.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed process again, on the same port and in the same folder.
    pub fn restart(&mut self) {
        self.child = self.command.spawn().unwrap();
        self.wait_until_up();
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -{name}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already, or its folder gone; a panic in a drop would hide the failure of the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
