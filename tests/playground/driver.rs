//! The process that drives the browser.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Set where a test that cannot run is a failure.
const REQUIRE: &str = "PEERLIMIT_REQUIRE_BROWSER";
/// How long the driver may take to end its browsers and itself.
const LAST: Duration = Duration::from_secs(5);
/// How often a start is tried. A driver takes a free port of IPv4, then the same one of IPv6, and ends where that is
/// taken.
const TRIES: u32 = 5;

/// Whether there is a browser to drive. Else says so: the test that asked is skipped then, or fails where one is
/// required.
pub(crate) fn is_installed() -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = |program: &&str| env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    let missing: Vec<_> = ["chromium", "chromedriver"].into_iter().filter(|program| !found(program)).collect();
    if !missing.is_empty() {
        assert!(env::var_os(REQUIRE).is_none(), "{missing:?} not installed, and {REQUIRE} is set");
        eprintln!("skipped: {missing:?} not installed; `apt-get install chromium chromium-driver`");
    }
    missing.is_empty()
}

/// A chromedriver. Dropping it ends it and its browsers.
#[derive(Debug)]
pub(crate) struct Driver {
    child: Child,
    pub(crate) addr: String,
}

impl Driver {
    pub(crate) fn start() -> Self {
        let mut said = Vec::new();
        (0..TRIES).find_map(|_| Self::try_start(&mut said)).unwrap_or_else(|| panic!("no chromedriver: {said:#?}"))
    }

    /// `None` where it ends at once; it has `said` why then.
    fn try_start(said: &mut Vec<String>) -> Option<Self> {
        let mut command = Command::new("chromedriver");
        let mut child = command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let port = line
                .strip_prefix("ChromeDriver was started successfully on port ")
                .map(|rest| rest.trim_end_matches('.'));
            said.push(line.clone());
            port?.parse::<u16>().ok()
        });
        let Some(port) = port else {
            // Its output has ended, and so does the process.
            child.wait().unwrap();
            return None;
        };
        // It must not wait for somebody to read what else it says.
        thread::spawn(move || lines.for_each(drop));
        Some(Self { child, addr: format!("127.0.0.1:{port}") })
    }

    /// Asks it to end its browsers, which it does not do when it is killed.
    fn shut_down(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(&self.addr)?;
        stream.set_read_timeout(Some(LAST))?;
        write!(stream, "GET /shutdown HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.addr)?;
        stream.read_to_end(&mut Vec::new()).map(|_| ())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            eprintln!("chromedriver does not take its leave: {error}");
        }
        let begin = Instant::now();
        while begin.elapsed() < LAST && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        // An error says that it has ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
