//! Hosts: network namespaces of this test's own. Here are two with a cable between them; see `switch.rs` for more.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::{
    ffi::OsStr,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Its end of the cable, in each namespace.
pub(crate) const CABLE: &str = "cable";

/// A namespace. Dropping it removes it, and the cable with it.
pub(crate) struct Host {
    namespace: String,
    addr: String,
    /// What `ip netns exec` puts over `/etc`, if anything. Goes with the namespace.
    etc: Option<PathBuf>,
}

impl Host {
    /// Two hosts that reach each other and nothing else.
    ///
    /// # Errors
    ///
    /// What cannot be had on this machine. What was made until then is removed.
    pub(crate) fn pair() -> Result<[Self; 2], String> {
        let name = new_name();
        let left = Self::create(format!("{name}-a"), "10.77.0.1")?;
        let right = Self::create(format!("{name}-b"), "10.77.0.2")?;
        let ends =
            [["link", "add", CABLE, "netns", &left.namespace], ["peer", "name", CABLE, "netns", &right.namespace]];
        run(Command::new("ip").args(ends[0]).args(["type", "veth"]).args(ends[1]))?;
        for host in [&left, &right] {
            host.run(["ip", "addr", "add", &format!("{}/24", host.addr), "dev", CABLE])?;
            host.run(["ip", "link", "set", CABLE, "up"])?;
            host.run(["ip", "link", "set", "lo", "up"])?;
            host.run(["iptables", "-w", "-L", "INPUT", "-n"])?;
        }
        Ok([left, right])
    }

    /// A namespace that is connected to nothing.
    ///
    /// # Errors
    ///
    /// As [`Host::pair`].
    pub(crate) fn create(namespace: String, addr: &str) -> Result<Self, String> {
        if let Err(problem) = run(Command::new("ip").args(["netns", "add", &namespace])) {
            // It may be half made, where the system forbids the rest. One that was there before is not ours to remove.
            if !problem.contains("File exists") {
                let _absent = run(Command::new("ip").args(["netns", "del", &namespace]));
            }
            return Err(problem);
        }
        Ok(Self { namespace, addr: addr.to_owned(), etc: None })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn addr(&self) -> &str {
        &self.addr
    }

    /// `program`, inside. `ip` becomes it, so that whoever ends the child ends the program.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// What its programs find in `/etc/resolv.conf`, which is what the kubelet writes for a pod.
    pub(crate) fn asks(&mut self, server: IpAddr) -> Result<(), String> {
        let etc = Path::new("/etc/netns").join(&self.namespace);
        let domains = "default.svc.cluster.local svc.cluster.local cluster.local";
        let text = format!("search {domains}\nnameserver {server}\noptions ndots:5\n");
        let written = fs::create_dir_all(&etc).and_then(|()| fs::write(etc.join("resolv.conf"), text));
        let problem = written.map_err(|error| format!("{}: {error}", etc.display()));
        self.etc = Some(etc);
        problem
    }

    /// Does something inside, on a thread of its own. Sockets that it makes stay inside, wherever they are used.
    pub(crate) fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let namespace = fs::File::open(Path::new("/run/netns").join(&self.namespace)).unwrap();
        let moved = || {
            use std::os::fd::AsFd as _;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            action()
        };
        thread::scope(|scope| scope.spawn(moved).join().unwrap())
    }

    /// From now on what comes over the cable is dropped in silence.
    pub(crate) fn cut(&self) {
        self.run(["iptables", "-w", "-A", "INPUT", "-i", CABLE, "-j", "DROP"]).unwrap();
    }

    /// Takes back a [`Host::cut`].
    pub(crate) fn heal(&self) {
        self.run(["iptables", "-w", "-D", "INPUT", "-i", CABLE, "-j", "DROP"]).unwrap();
    }

    /// From now on this part of what comes is dropped, from the own host too.
    pub(crate) fn lose(&self, probability: f64) {
        let probability = probability.to_string();
        for protocol in ["udp", "tcp"] {
            let rule = ["iptables", "-w", "-A", "INPUT", "-p", protocol];
            let chance = ["-m", "statistic", "--mode", "random", "--probability", &probability, "-j", "DROP"];
            self.run(rule.into_iter().chain(chance)).unwrap();
        }
    }

    /// Packets that rules have dropped.
    pub(crate) fn lost(&self) -> u64 {
        let rules = self.run(["iptables", "-w", "-L", "INPUT", "-n", "-v", "-x"]).unwrap();
        let packets = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
        rules.lines().filter(|line| line.contains("DROP")).filter_map(packets).sum()
    }

    /// Runs a program inside, and returns its output.
    ///
    /// # Errors
    ///
    /// What the program says where it fails.
    pub(crate) fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<String, String> {
        let mut words = words.into_iter();
        let program = words.next().expect("a program");
        run(self.command(program).args(words))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A namespace goes a while after its name. Until then it would answer for its address, which may be another's by now.
        // There is none where the other end is gone already.
        let _unplugged = self.run(["ip", "link", "del", CABLE]);
        if let Err(problem) = run(Command::new("ip").args(["netns", "del", &self.namespace])) {
            eprintln!("left behind: {problem}");
        }
        if let Some(Err(problem)) = self.etc.as_ref().map(fs::remove_dir_all) {
            eprintln!("left behind: {:?}: {problem}", self.etc);
        }
    }
}

/// A name that no other call has, in this process or another one.
pub(crate) fn new_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("peerlimit-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Its output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
