//! Pods: hosts on a switch, each with one process of the example `node`, found by a DNS name. And load for those in service.

use std::{
    net::{IpAddr, SocketAddr},
    process::Stdio,
    sync::MutexGuard,
    time::{Duration, Instant},
};

use tokio::runtime::{self, Runtime};

use crate::{
    dns_server::DnsServer,
    host::Host,
    node_process::{self, Load, Node},
    switch::{Families, Switch},
    turn::{or_skipped, turn},
};

/// The name of the headless service.
const NAME: &str = "hello-peers.default.svc.cluster.local";
const PORT: u16 = 7946;
const KEY: &str = "hot";
/// Permits a second.
const RATE: f64 = 100.0;
/// After which a node asks DNS again, where nothing is said: the library's default.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(10);
/// Length of a round of load, in seconds.
pub(crate) const ROUND: f64 = 0.3;

/// Which pods the DNS name has, as `publishNotReadyAddresses` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    /// From when they are ready until they are told to end.
    Ready,
    /// As long as they have an address.
    NotReadyToo,
}

/// Permits, the time in which they come back, and how many there are at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) rate: &'static str,
    pub(crate) burst: u32,
}

/// One pod. What is in it ends in the order of its fields.
pub(crate) struct Pod {
    pub(crate) node: Node,
    /// The label of its node, which no other pod ever has.
    pub(crate) name: String,
    pub(crate) addr: String,
    _host: Host,
}

/// The network of pods, and what the DNS name has. What is in it ends in the order of its fields.
pub(crate) struct Pods {
    dns: DnsServer,
    published: Vec<String>,
    publish: Publish,
    families: Families,
    /// Of all nodes.
    quota: Quota,
    /// How often they ask DNS.
    discover: Duration,
    switch: Switch,
    started: u32,
    _runtime: Runtime,
    _turn: MutexGuard<'static, ()>,
}

impl Pods {
    /// No pods yet. `None` where this machine has no namespaces and need not have them.
    pub(crate) fn start(publish: Publish, families: Families) -> Option<Self> {
        let turn = turn();
        let switch = or_skipped(Switch::start())?;
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dns = switch.dns(&runtime, families);
        Some(Self {
            dns,
            published: Vec::new(),
            publish,
            families,
            quota: Quota { rate: "100/s", burst: 50 },
            discover: SECOND_LOOK,
            switch,
            started: 0,
            _runtime: runtime,
            _turn: turn,
        })
    }

    /// With another quota.
    pub(crate) fn quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// With nodes that ask DNS more often.
    pub(crate) fn discover_every(self, discover: Duration) -> Self {
        Self { discover, ..self }
    }

    /// A pod with the address of this number, as soon as it listens.
    pub(crate) fn pod(&mut self, number: u8) -> Pod {
        self.pod_with(number, |ip| vec!["--bind".into(), SocketAddr::new(ip, PORT).to_string()])
    }

    /// The same with other arguments, which are given its first address.
    pub(crate) fn pod_with(&mut self, number: u8, args: impl FnOnce(IpAddr) -> Vec<String>) -> Pod {
        let host = self.switch.plug(number, self.families).unwrap();
        self.switch.route(&host, self.families).unwrap();
        let addrs = self.families.addrs(number).into_iter().map(|(ip, _)| ip.to_string());
        if self.publish == Publish::NotReadyToo {
            // An address is published before anybody listens there.
            self.published.extend(addrs);
            self.say();
        }
        self.started += 1;
        let name = format!("pod-{}", self.started);
        let mut command = host.command(node_process::binary());
        let (burst, dns, discover) =
            (self.quota.burst.to_string(), format!("{NAME}.:{PORT}"), format!("{}ms", self.discover.as_millis()));
        command.args(["--rate", self.quota.rate, "--burst", &burst, "--name", &name]);
        command.args(["--dns", &dns, "--discover-interval", &discover]);
        command.args(args(host.addr().parse().unwrap()));
        let node = Node::spawn(command.env("RUST_LOG", "peerlimit=info").env("NO_COLOR", "1").stderr(Stdio::piped()));
        Pod { node, name, addr: host.addr().to_owned(), _host: host }
    }

    /// The pod has said that it is ready.
    pub(crate) fn is_ready(&mut self, pod: &Pod) {
        if self.publish == Publish::Ready {
            self.published.push(pod.addr.clone());
            self.say();
        }
    }

    /// The pod is about to be told to end.
    pub(crate) fn is_leaving(&mut self, pod: &Pod) {
        if self.publish == Publish::Ready {
            self.unpublish(pod);
        }
    }

    /// The pod ends as it does at SIGTERM: with `close`. Then its network is taken away.
    pub(crate) fn end(&mut self, mut pod: Pod) {
        pod.node.say("quit");
        assert!(pod.node.wait().success(), "{} did not end well", pod.name);
        self.unpublish(&pod);
    }

    /// How often the DNS server was asked.
    pub(crate) fn asked(&self) -> usize {
        self.dns.asked().len()
    }

    fn unpublish(&mut self, pod: &Pod) {
        self.published.retain(|addr| *addr != pod.addr);
        self.say();
    }

    fn say(&self) {
        self.dns.addresses(NAME, &self.published.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Whether each of these sees all of them and nobody else.
pub(crate) fn are_whole(pods: &mut [Pod]) -> bool {
    let mut names: Vec<_> = pods.iter().map(|pod| pod.name.clone()).collect();
    names.sort_unstable();
    pods.iter_mut().all(|pod| pod.node.names() == names)
}

/// Those that get requests, as from a load balancer, and what became of them.
pub(crate) struct Service {
    pub(crate) pods: Vec<Pod>,
    /// Requests a second, all pods together, of a quota of 100 a second with this burst.
    rate: u32,
    burst: f64,
    rounds: usize,
    pub(crate) load: Load,
}

impl Service {
    pub(crate) fn new(pods: Vec<Pod>, rate: u32, burst: u32) -> Self {
        Self { pods, rate, burst: f64::from(burst), rounds: 0, load: Load::default() }
    }

    /// One round of load, spread evenly over the pods, and what is done meanwhile.
    pub(crate) fn round<T>(&mut self, meanwhile: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let (all, count) = ((f64::from(self.rate) * ROUND).round() as usize, self.pods.len());
        // What does not divide goes to others in each round.
        let share = |index: usize| all / count + usize::from((index + self.rounds) % count < all % count);
        for (index, pod) in self.pods.iter_mut().enumerate() {
            pod.node.offer(KEY, share(index) as f64 / ROUND, ROUND);
        }
        self.rounds += 1;
        let done = meanwhile();
        for pod in &self.pods {
            self.load.add(pod.node.offered());
        }
        let took = begin.elapsed().as_secs_f64();
        assert!(took < ROUND + 5.0, "a round of {ROUND} s took {took} s");
        done
    }

    /// Rounds in which nothing else happens.
    pub(crate) fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round(|| ()));
    }

    /// Below the quota nobody is refused whom one central bucket lets pass; above it all pods together admit what that does.
    pub(crate) fn is_one_bucket(&self, when: &str) {
        let central = self.load.central(RATE, self.burst);
        let (offered, admitted) = (self.load.offered(), self.load.admitted());
        let (ratio, short) = (admitted as f64 / central, self.load.short_of_central(RATE, self.burst));
        let excess = self.load.excess(RATE, self.burst) / self.burst;
        println!(
            "{when}: {:.1} s, admitted {admitted} of {offered}, a central bucket {central:.0}, ratio {ratio:.4}, excess \
             {excess:.3} bursts",
            self.load.seconds(),
        );
        if f64::from(self.rate) < RATE {
            assert!(short < 1.0, "{short} of {offered} requests refused wrongly: {when}");
        }
        assert!((0.98..=1.02).contains(&ratio), "{ratio} of what a central bucket admits: {when}");
        assert!(excess <= 0.5, "{excess} bursts above the envelope: {when}");
    }
}
