//! Whole nodes that find each other by DNS.

use peerlimit::{Builder, Limiter, Quota};

use super::*;

fn node(name: &str, bind: &str) -> Builder {
    Limiter::builder(Quota::per_second(100))
        .node(name)
        .bind(bind.parse().unwrap())
        .discover_interval(Duration::from_millis(200))
}

async fn see_each_other(nodes: &[Limiter]) {
    let all = async {
        while !nodes.iter().all(|node| node.members().len() == nodes.len()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENT, all).await.unwrap();
}

#[tokio::test]
async fn join_once_their_name_is_there_also_if_stale_addresses_are_with_it() {
    let server = DnsServer::start().await;
    server.otherwise(Reply::Code(ResponseCode::NXDomain));
    // One port, as in Kubernetes, so two hosts.
    let first = node("first", "127.0.0.1:0").advertise("127.0.0.1:0".parse().unwrap());
    let first = first.discover(peers(&server)).start().await.unwrap();
    let port = first.local_addr().unwrap().port();
    timeout(PATIENT, first.ready()).await.unwrap();
    assert_eq!(first.members().len(), 1);

    let name = || DnsDiscoverer::new(NAME, port).name_servers([server.address]).timeout(PATIENT);
    let second = node("second", &format!("127.0.0.2:{port}")).discover(name()).start().await.unwrap();
    // Where a replica was once, and where one is; IPv6 is of no use to a node on IPv4.
    server.addresses(NAME, &["127.0.0.3", "127.0.0.1", "::1"]);
    let nodes = [first, second];
    see_each_other(&nodes).await;
    server.addresses(NAME, &[]);
    let third = node("third", &format!("127.0.0.4:{port}")).discover(name()).start().await.unwrap();
    timeout(PATIENT, third.ready()).await.unwrap();
    server.addresses(NAME, &["127.0.0.2"]);
    let [first, second] = nodes;
    see_each_other(&[first, second, third]).await;
}

#[tokio::test]
async fn join_by_service_records_that_carry_their_ports() {
    let server = DnsServer::start().await;
    let first = node("first", "127.0.0.1:0").start().await.unwrap();
    let port = first.local_addr().unwrap().port();
    server.addresses("one.peers.test", &["127.0.0.1"]);
    let records = vec![service(SERVICE, "one.peers.test", port)];
    server.reply(SERVICE, RecordType::SRV, Reply::Records(records, Vec::new()));
    let second = node("second", "127.0.0.1:0").discover(services(&server)).start().await.unwrap();
    see_each_other(&[first, second]).await;
}

#[tokio::test]
async fn join_although_a_target_hangs_for_longer_than_a_round_may_take() {
    let server = DnsServer::start().await;
    let first = node("first", "127.0.0.1:0").start().await.unwrap();
    let port = first.local_addr().unwrap().port();
    server.addresses("one.peers.test", &["127.0.0.1"]);
    let records = vec![service(SERVICE, "one.peers.test", port), service(SERVICE, "silent.test", port)];
    server.reply(SERVICE, RecordType::SRV, Reply::Records(records, Vec::new()));
    server.reply("silent.test", RecordType::A, Reply::Silence);
    server.reply("silent.test", RecordType::AAAA, Reply::Silence);
    // Within the bounds of that setting.
    let services = services(&server).timeout(Duration::from_secs(12));
    let second = node("second", "127.0.0.1:0").discover(services).start().await.unwrap();
    see_each_other(&[first, second]).await;
}

/// Never answers.
struct Hangs;

impl Discoverer for Hangs {
    async fn discover(&self) -> Result<Vec<SocketAddr>, DiscoverError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn know_what_was_spent_when_they_are_ready_although_one_of_their_discoverers_hangs() {
    let first = node("first", "127.0.0.1:0").start().await.unwrap();
    let scope = first.scope("slow", Quota::per_day(10));
    assert!(scope.check_n("user", 10).allowed);
    // What was not told yet will be in its time; it is no part of what a newcomer is given.
    let told = async {
        while first.stats().published < 10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENT, told).await.unwrap();
    let list = StaticDiscoverer::new([first.local_addr().unwrap().to_string()]);
    let second = node("second", "127.0.0.1:0").discover(Hangs).discover(list).start().await.unwrap();
    let scope = second.scope("slow", Quota::per_day(10));
    timeout(PATIENT, second.ready()).await.unwrap();
    assert_eq!(second.members().len(), 2, "it is ready, and has not heard of a peer that is in its list");
    assert!(!scope.allow("user"));
}
