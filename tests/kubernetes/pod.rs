//! Pods that run the example, and requests to them.

use std::{
    env::{consts::EXE_SUFFIX, current_exe, temp_dir},
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use tokio::runtime::{self, Runtime};

use crate::{
    dns_server::DnsServer,
    host::{Host, new_name},
    switch::{Families, Switch},
    turn::{or_skipped, turn},
    volume::{Volume, remove},
    wait::{DEADLINE, eventually},
};

const NAME: &str = "hello-peers.default.svc.cluster.local";
/// What a container gets of the manifest's `securityContext`: nothing may be written, and nothing gained.
const RESTRICTED: &str = "mount -o remount,ro,bind / && exec setpriv --reuid=65532 --regid=65532 --clear-groups \
                          --no-new-privs --bounding-set=-all --inh-caps=-all \"$0\"";

/// The network of pods. What is in it ends in the order of its fields.
pub(crate) struct Network {
    dns: DnsServer,
    published: Vec<String>,
    switch: Arc<Switch>,
    image: Image,
    _runtime: Runtime,
    _turn: MutexGuard<'static, ()>,
}

/// The program, where everybody may run it.
struct Image(PathBuf);

/// Where cargo puts the example, seen from a test's binary in `deps`.
pub(crate) fn program() -> PathBuf {
    let test = current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples").join(format!("kubernetes{EXE_SUFFIX}"));
    let hint = "`cargo build --all-features --examples` makes it";
    assert!(program.is_file(), "{} is missing: {hint}", program.display());
    program
}

impl Image {
    fn new() -> Self {
        let folder = temp_dir().join(new_name());
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(program(), folder.join("hello")).unwrap();
        Self(folder)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

impl Network {
    /// No pods yet. `None` where this machine has no namespaces and need not have them.
    pub(crate) fn start() -> Option<Self> {
        let turn = turn();
        let switch = Arc::new(or_skipped(Switch::start())?);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dns = switch.dns(&runtime, Families::V4);
        Some(Self { dns, published: Vec::new(), switch, image: Image::new(), _runtime: runtime, _turn: turn })
    }

    /// A pod as soon as it serves, whose address is published before.
    pub(crate) fn pod(&mut self, number: u8, volume: &Volume) -> Pod {
        let host = self.switch.plug(number, Families::V4).unwrap();
        self.published.push(host.addr().to_owned());
        self.dns.addresses(NAME, &self.published.iter().map(String::as_str).collect::<Vec<_>>());
        let name = format!("pod-{number}");
        let mut child = self.command(&host, &name, volume).stdout(Stdio::piped()).spawn().unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (kept, stdout) = (Arc::clone(&log), BufReader::new(child.stdout.take().unwrap()));
        thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        let addr = host.addr().parse().unwrap();
        let pod = Pod { child, name, log, addr, switch: Arc::clone(&self.switch), _host: host };
        eventually("it serves", || pod.said("serves"));
        pod
    }

    /// What a pod says that does not start, since this variable is wrong.
    pub(crate) fn fails(&mut self, volume: &Volume, name: &str, value: &str) -> String {
        let host = self.switch.plug(9, Families::V4).unwrap();
        let output = self.command(&host, "pod-9", volume).env(name, value).output().unwrap();
        assert!(!output.status.success(), "it starts with {name}={value}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The manifest's environment, with a quota for tests.
    fn command(&self, host: &Host, name: &str, volume: &Volume) -> Command {
        let mut command = host.command("sh");
        command.args(["-c", RESTRICTED]).arg(self.image.0.join("hello")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("POD_IP", host.addr()).env("POD_NAME", name).env("PEERS", format!("{NAME}."));
        command.env("CLUSTER", "default/hello").env("KEY_RING", volume.key_ring());
        // One permit is back after 20 s.
        command.env("RATE_PER_SECOND", "1").env("BURST", "5").env("MAX_KEYS", "10000");
        command
    }
}

/// One pod. Dropping it kills it.
pub(crate) struct Pod {
    child: Child,
    pub(crate) name: String,
    log: Arc<Mutex<Vec<String>>>,
    addr: IpAddr,
    switch: Arc<Switch>,
    _host: Host,
}

impl Pod {
    /// Whether it runs as the manifest has it: as that user, without capabilities, over files that it cannot change.
    pub(crate) fn is_restricted(&self) -> bool {
        let file = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap();
        let (status, mounts) = (file("status"), file("mountinfo"));
        let has = |words: &str| status.lines().any(|line| line.split_whitespace().eq(words.split(' ')));
        has("Uid: 65532 65532 65532 65532")
            && has("CapEff: 0000000000000000")
            && has("CapBnd: 0000000000000000")
            && has("NoNewPrivs: 1")
            && mounts.lines().any(|line| line.contains(" / ro,"))
    }

    /// A request of a client with this key; the status of the answer.
    pub(crate) fn ask(&self, key: &str) -> u16 {
        self.connect(8080).get("/", key).0
    }

    /// Status and body of what is at the port for probes.
    pub(crate) fn probe(&self, path: &str) -> (u16, String) {
        self.connect(9090).get(path, "")
    }

    pub(crate) fn connect(&self, port: u16) -> Connection {
        let addr = SocketAddr::new(self.addr, port);
        let stream = self.switch.inside(|| TcpStream::connect_timeout(&addr, DEADLINE)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Connection(BufReader::new(stream))
    }

    /// Whether a line of its log says `words`.
    pub(crate) fn said(&self, words: &str) -> bool {
        self.count(words) > 0
    }

    /// Lines of its log that say `words`.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(words)).count()
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        if let (true, Ok(log)) = (thread::panicking(), self.log.lock()) {
            log.iter().for_each(|line| eprintln!("{} logged: {line}", self.name));
        }
    }
}

/// A connection of a client that knows as much of HTTP/1.1 as it takes.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Status and body of the answer.
    pub(crate) fn get(&mut self, path: &str, key: &str) -> (u16, String) {
        let key = if key.is_empty() { String::new() } else { format!("x-api-key: {key}\r\n") };
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: hello\r\n{key}\r\n"));
        self.answer()
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn answer(&mut self) -> (u16, String) {
        let mut line = || {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            line.trim_end().to_ascii_lowercase()
        };
        let first = line();
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {first:?}"));
        let mut length = 0;
        loop {
            let field = line();
            if field.is_empty() {
                break;
            }
            if let Some(value) = field.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }
}
