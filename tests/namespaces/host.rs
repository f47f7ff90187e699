//! Two hosts: network namespaces of this test's own, with a cable between them.

use std::{
    ffi::OsStr,
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// Its end of the cable, in each namespace.
const CABLE: &str = "cable";

/// A namespace. Dropping it removes it, and the cable with it.
pub(crate) struct Host {
    namespace: String,
    addr: String,
}

impl Host {
    /// Two hosts that reach each other and nothing else.
    ///
    /// # Errors
    ///
    /// What cannot be had on this machine. What was made until then is removed.
    pub(crate) fn pair() -> Result<[Self; 2], String> {
        // Names of this process, and of this call in it.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("peerlimit-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
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

    fn create(namespace: String, addr: &str) -> Result<Self, String> {
        if let Err(problem) = run(Command::new("ip").args(["netns", "add", &namespace])) {
            // It may be half made, where the system forbids the rest. One that was there before is not ours to remove.
            if !problem.contains("File exists") {
                let _absent = run(Command::new("ip").args(["netns", "del", &namespace]));
            }
            return Err(problem);
        }
        Ok(Self { namespace, addr: addr.to_owned() })
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

    fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<String, String> {
        let mut words = words.into_iter();
        let program = words.next().expect("a program");
        run(self.command(program).args(words))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Err(problem) = run(Command::new("ip").args(["netns", "del", &self.namespace])) {
            eprintln!("left behind: {problem}");
        }
    }
}

/// Its output.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
