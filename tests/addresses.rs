//! Where nodes listen, what they advertise, and whom they dial.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and real nodes run in real time"
)]

#[path = "support/patience.rs"]
mod patience;

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use patience::eventually;
use peerlimit::{Builder, DiscoverError, Discoverer, Limiter, Quota, StartError, StaticDiscoverer};

const SLOW: Quota = Quota::per_day(100);

fn builder(name: &str, bind: &str) -> Builder {
    Limiter::builder(Quota::per_second(100).burst(50))
        .node(name)
        .bind(bind.parse().unwrap())
        .discover_interval(Duration::from_millis(200))
        .probe_interval(Duration::from_millis(300))
        .suspicion_timeout(Duration::from_millis(600))
}

fn addr(limiter: &Limiter) -> SocketAddr {
    limiter.local_addr().unwrap()
}

fn at(ip: &str, limiter: &Limiter) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), addr(limiter).port())
}

fn list(addrs: &[SocketAddr]) -> StaticDiscoverer {
    StaticDiscoverer::new(addrs.iter().map(SocketAddr::to_string))
}

async fn share_one_limit(nodes: &[Limiter]) {
    let all = || nodes.iter().all(|node| node.members().len() == nodes.len());
    eventually("everybody sees everybody", all).await;
    let scopes: Vec<_> = nodes.iter().map(|node| node.scope("slow", SLOW)).collect();
    let mut left = 100;
    for scope in &scopes {
        assert!(scope.check_n("user", 10).allowed);
        left -= 10;
        eventually("news travels", || scopes.iter().all(|scope| scope.peek("user").remaining == left)).await;
    }
}

fn has_ipv6() -> bool {
    let has = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        eprintln!("skipped: no IPv6 on this machine");
    }
    has
}

/// Whether the address that a node gives others is one at which they can reach it.
fn is_an_address_of_its_own(limiter: &Limiter) -> bool {
    let advertised = limiter.advertised_addr().unwrap();
    // Only what is ours can be bound.
    !advertised.ip().is_unspecified()
        && advertised.port() == addr(limiter).port()
        && UdpSocket::bind((advertised.ip(), 0)).is_ok()
}

#[tokio::test]
async fn whatever_a_node_is_bound_to_it_advertises_an_address_of_its_own_or_says_that_it_cannot() {
    let mut binds = vec!["0.0.0.0:0", "127.0.0.1:0", "127.0.0.2:0"];
    if has_ipv6() {
        binds.extend(["[::]:0", "[::1]:0"]);
    }
    for bind in binds {
        match builder("node", bind).start().await {
            Ok(limiter) => {
                assert!(is_an_address_of_its_own(&limiter), "bound to {bind}: {:?}", limiter.advertised_addr());
                let given: SocketAddr = bind.parse().unwrap();
                if !given.ip().is_unspecified() {
                    assert_eq!(limiter.advertised_addr(), limiter.local_addr());
                }
                // One bound to IPv4 alone is not reached by IPv6.
                assert!(given.is_ipv6() || limiter.advertised_addr().unwrap().is_ipv4());
                limiter.close().await;
            }
            Err(StartError::AdvertiseUnknown { bind: said }) => assert!(said.ip().is_unspecified(), "{said}"),
            Err(error) => unreachable!("bound to {bind}: {error}"),
        }
    }
}

#[tokio::test]
async fn an_address_at_which_nobody_can_be_reached_is_not_advertised() {
    for advertise in ["0.0.0.0:7946", "0.0.0.0:0", "[::]:7946", "224.0.0.1:7946", "[ff02::1]:7946"] {
        let advertise: SocketAddr = advertise.parse().unwrap();
        let error = builder("node", "127.0.0.1:0").advertise(advertise).start().await.unwrap_err();
        assert!(matches!(error, StartError::Advertise { addr } if addr.ip() == advertise.ip()), "{error:?}");
        assert!(error.to_string().contains(&advertise.ip().to_string()), "{error}");
    }
}

#[tokio::test]
async fn behind_a_translation_of_addresses_what_is_said_is_advertised() {
    // Bound to everything, and reached at one address: as behind a port that is forwarded.
    let outside = "127.0.0.3:0".parse().unwrap();
    let first = builder("first", "0.0.0.0:0").advertise(outside).start().await.unwrap();
    let advertised = first.advertised_addr().unwrap();
    assert_eq!(advertised, at("127.0.0.3", &first), "port 0 stands for the one that is bound");
    let second = builder("second", "127.0.0.1:0").discover(list(&[advertised])).start().await.unwrap();
    let nodes = [first, second];
    share_one_limit(&nodes).await;
    // What others hear is what was said, not where datagrams come from.
    assert!(nodes[1].members().iter().any(|member| member.addr == advertised), "{:?}", nodes[1].members());
}

#[tokio::test]
async fn nodes_on_ipv6_alone_share_one_limit() {
    if !has_ipv6() {
        return;
    }
    let first = builder("first", "[::1]:0").start().await.unwrap();
    // IPv4 is of no use to them, and does not keep them from what is.
    let found = [at("127.0.0.1", &first), addr(&first), "192.0.2.1:7946".parse().unwrap()];
    let second = builder("second", "[::1]:0").discover(list(&found)).start().await.unwrap();
    let nodes = [first, second];
    share_one_limit(&nodes).await;
    assert!(nodes.iter().all(|node| node.stats().send_errors == 0));
}

#[tokio::test]
async fn a_dual_stack_node_shares_one_limit_with_nodes_of_both_families() {
    if !has_ipv6() {
        return;
    }
    for first_found in ["127.0.0.1", "::1"] {
        // The addresses at which it is reached are those of loopback here.
        let both = builder("both", "[::]:0").advertise(SocketAddr::new(first_found.parse().unwrap(), 0));
        let both = both.start().await.unwrap();
        let known = [at(first_found, &both)];
        let family = if first_found == "::1" { "[::1]:0" } else { "127.0.0.1:0" };
        let one = builder("one", family).discover(list(&known)).start().await.unwrap();
        let other = builder("other", family).discover(list(&known)).start().await.unwrap();
        assert!(addr(&both).is_ipv6());
        share_one_limit(&[both, one, other]).await;
    }
}

#[tokio::test]
async fn of_a_dual_stack_name_only_the_family_that_can_be_reached_is_dialled() {
    if !has_ipv6() {
        return;
    }
    for (family, own, other) in [("127.0.0.1:0", "127.0.0.1", "::1"), ("[::1]:0", "::1", "127.0.0.1")] {
        let first = builder("first", family).start().await.unwrap();
        // Something listens at the other family's address too, and must not hear anything.
        let trap = UdpSocket::bind(at(other, &first)).expect("the port is free in the other family");
        trap.set_nonblocking(true).unwrap();
        let found = [at(other, &first), at(own, &first)];
        let second = builder("second", family).discover(list(&found)).start().await.unwrap();
        let nodes = [first, second];
        share_one_limit(&nodes).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(trap.recv(&mut [0; 2_000]).is_err(), "a datagram went to {:?}", trap.local_addr());
        for node in &nodes {
            assert_eq!(node.stats().send_errors, 0);
            assert!(node.members().iter().all(|member| member.addr.ip() == own.parse::<IpAddr>().unwrap()));
        }
    }
}

#[tokio::test]
async fn a_port_that_goes_from_one_cluster_to_another_takes_nothing_along() {
    let start = |name: &str, label: &str, bind: String, seed: Option<SocketAddr>| {
        builder(name, &bind).cluster(label).discover(list(seed.as_slice())).start()
    };
    let any = || "127.0.0.1:0".to_owned();
    let blue = start("blue-1", "blue", any(), None).await.unwrap();
    let gone = start("blue-2", "blue", any(), Some(addr(&blue))).await.unwrap();
    let green = start("green-1", "green", any(), None).await.unwrap();
    eventually("blue is two", || blue.members().len() == 2 && gone.members().len() == 2).await;
    let port = addr(&gone);
    gone.close().await;
    let moved = start("green-2", "green", port.to_string(), Some(addr(&green))).await.unwrap();
    // Somebody at blue still goes by an old list.
    let stale = start("blue-3", "blue", any(), Some(port)).await.unwrap();
    eventually("green is two", || green.members().len() == 2 && moved.members().len() == 2).await;
    eventually("blue's frames are counted", || moved.stats().drops.foreign_cluster > 0).await;
    let scopes = [&blue, &stale, &green, &moved].map(|node| node.scope("slow", SLOW));
    assert!(scopes[0].check_n("user", 30).allowed && scopes[2].check_n("user", 50).allowed);
    eventually("news of green travels", || scopes[3].peek("user").remaining == 50).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(scopes.map(|scope| scope.peek("user").remaining), [70, 100, 50, 50]);
    assert_eq!([&blue, &stale, &green, &moved].map(|node| node.members().len()), [1, 1, 2, 2]);
}

/// A discoverer that fails in several ways at first.
struct Fails {
    rounds: Arc<AtomicUsize>,
    right: SocketAddr,
    stale: SocketAddr,
}

impl Discoverer for Fails {
    async fn discover(&self) -> Result<Vec<SocketAddr>, DiscoverError> {
        match self.rounds.fetch_add(1, Ordering::Relaxed) {
            0 | 2 => Err(DiscoverError::new(std::io::Error::other("the catalog is closed"))),
            1 => Ok(Vec::new()),
            3 => Ok(vec![self.stale]),
            _ => Ok(vec![self.stale, self.right]),
        }
    }
}

#[tokio::test]
async fn a_node_whose_discovery_fails_is_empty_or_stale_at_first_joins_when_it_turns_good() {
    let first = builder("first", "127.0.0.1:0").start().await.unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rounds = Arc::new(AtomicUsize::new(0));
    let fails = Fails { rounds: Arc::clone(&rounds), right: addr(&first), stale: nobody.local_addr().unwrap() };
    let second = builder("second", "127.0.0.1:0").discover(fails).start().await.unwrap();
    let nodes = [first, second];
    eventually("they find each other", || nodes.iter().all(|node| node.members().len() == 2)).await;
    let asked = rounds.load(Ordering::Relaxed);
    assert!((5..=7).contains(&asked), "joined in round {asked}, and the fifth was good");
    share_one_limit(&nodes).await;
}
