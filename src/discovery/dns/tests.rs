//! The system's configuration, against a DNS server that stands in for the system's.

#[path = "../../../tests/support/dns_server.rs"]
mod dns_server;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use dns_server::{DnsServer, Reply};
use hickory_server::proto::{op::ResponseCode, rr::RecordType};

use super::{system::Files, *};

/// An `/etc` of the test's own.
struct Etc(PathBuf);

impl Etc {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("peerlimit-etc-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(file), text).unwrap();
    }

    /// A discoverer that takes this for the system's, with name servers at the port of `server`.
    fn discoverer(&self, name: &str, server: &DnsServer) -> DnsDiscoverer {
        DnsDiscoverer {
            system: System::with_files(Files {
                resolv_conf: self.0.join("resolv.conf"),
                hosts: self.0.join("hosts"),
                port: server.address.port(),
            }),
            ..DnsDiscoverer::new(name, 1).timeout(Duration::from_secs(20))
        }
    }
}

impl Drop for Etc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all::<&Path>(&self.0);
    }
}

async fn round(discoverer: &DnsDiscoverer) -> Vec<String> {
    let mut found = discoverer.discover().await.unwrap();
    found.sort();
    found.iter().map(ToString::to_string).collect()
}

/// The names that were asked for, in order.
fn names_asked(server: &DnsServer) -> Vec<String> {
    let mut names: Vec<String> =
        server.asked().iter().filter_map(|question| Some(question.split_once(' ')?.0.to_owned())).collect();
    names.dedup();
    names
}

#[tokio::test]
async fn a_short_name_is_completed_by_the_search_list_in_order() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test two.test three.test\noptions ndots:5\n");
    server.addresses("peers.svc.two.test", &["192.0.2.1", "2001:db8::1"]);
    server.addresses("peers.svc.three.test", &["192.0.2.3"]);
    server.addresses("peers.svc", &["192.0.2.4"]);
    let peers = etc.discoverer("peers.svc", &server);
    assert_eq!(round(&peers).await, ["192.0.2.1:1", "[2001:db8::1]:1"]);
    assert_eq!(names_asked(&server), ["peers.svc.one.test", "peers.svc.two.test"]);
}

#[tokio::test]
async fn a_name_with_enough_dots_is_asked_for_as_it_is_first() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test\n");
    server.addresses("peers.svc.one.test", &["192.0.2.1"]);
    let peers = etc.discoverer("peers.svc", &server);
    assert_eq!(round(&peers).await, ["192.0.2.1:1"]);
    assert_eq!(names_asked(&server), ["peers.svc", "peers.svc.one.test"]);
}

#[tokio::test]
async fn a_name_with_a_final_dot_is_asked_for_as_it_is_only() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test\noptions ndots:5\n");
    server.addresses("peers.svc.one.test", &["192.0.2.1"]);
    assert_eq!(round(&etc.discoverer("peers.svc.", &server)).await, [] as [&str; 0]);
    assert_eq!(names_asked(&server), ["peers.svc"]);
}

#[tokio::test]
async fn both_families_are_taken_from_one_search_domain() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test two.test\n");
    server.addresses("peers.one.test", &["192.0.2.1"]);
    server.addresses("peers.two.test", &["2001:db8::2"]);
    assert_eq!(round(&etc.discoverer("peers", &server)).await, ["192.0.2.1:1"]);
}

#[tokio::test]
async fn the_search_goes_on_after_servfail_but_not_after_refusal_or_silence() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test two.test\n");
    server.addresses("peers.two.test", &["192.0.2.2"]);
    let set = |kind, reply: Reply| server.reply("peers.one.test", kind, reply);

    set(RecordType::A, Reply::Code(ResponseCode::ServFail));
    set(RecordType::AAAA, Reply::Code(ResponseCode::NoError));
    assert_eq!(round(&etc.discoverer("peers", &server)).await, ["192.0.2.2:1"]);

    // That the name does not exist holds for both families.
    set(RecordType::A, Reply::Code(ResponseCode::NXDomain));
    set(RecordType::AAAA, Reply::Silence);
    assert_eq!(round(&etc.discoverer("peers", &server)).await, ["192.0.2.2:1"]);

    set(RecordType::A, Reply::Code(ResponseCode::Refused));
    set(RecordType::AAAA, Reply::Code(ResponseCode::NoError));
    assert_eq!(round(&etc.discoverer("peers", &server)).await, [] as [&str; 0]);

    set(RecordType::A, Reply::Silence);
    let brief = etc.discoverer("peers", &server).timeout(Duration::from_millis(400));
    assert_eq!(round(&brief).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_service_name_is_completed_by_the_search_list_too() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test\noptions ndots:5\n");
    let name = "_gossip._udp.peers.one.test";
    let records = vec![dns_server::service(name, "a.test", 1001)];
    server.reply(name, RecordType::SRV, Reply::Records(records, Vec::new()));
    server.addresses("a.test", &["192.0.2.1"]);
    let peers = etc.discoverer("_gossip._udp.peers", &server).srv();
    assert_eq!(round(&peers).await, ["192.0.2.1:1001"]);
}

#[tokio::test]
async fn a_name_in_the_hosts_file_is_taken_from_there() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test\noptions ndots:5\n");
    etc.write("hosts", "192.0.2.7 peers.test alias\n2001:db8::7 peers.test\n");
    server.addresses("peers.test", &["192.0.2.1"]);
    let peers = etc.discoverer("peers.test", &server);
    assert_eq!(round(&peers).await, ["192.0.2.7:1", "[2001:db8::7]:1"]);
    assert_eq!(names_asked(&server), [] as [&str; 0]);

    etc.write("hosts", "");
    assert_eq!(round(&peers).await, ["192.0.2.1:1"]);
}

#[tokio::test]
async fn without_a_configuration_the_name_server_of_this_machine_is_asked() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    server.addresses("peers.test", &["192.0.2.1"]);
    let peers = etc.discoverer("peers.test.", &server);
    assert_eq!(round(&peers).await, ["192.0.2.1:1"]);
}

#[tokio::test]
async fn what_is_sound_in_an_odd_configuration_is_used() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    server.addresses("peers.one.test", &["192.0.2.1"]);
    let too_long = "x".repeat(64);
    let odd: [&[u8]; 5] = [
        b"search one.test\n",
        b"nameserver\nnameserver nonsense\nsearch one.test\noptions ndots:x timeout\n",
        b"\xff\xfe\0 nameserver\nnameserver 127.0.0.1 # local\nsearch one.test\n",
        &[b"nameserver 127.0.0.1\nsearch ", too_long.as_bytes(), b" one.test\n"].concat(),
        b"domain elsewhere.test\r\nfrobnicate yes\r\nnameserver 127.0.0.1\r\nsearch one.test\r\n",
    ];
    for text in odd {
        etc.write("resolv.conf", text);
        let peers = etc.discoverer("peers", &server);
        assert_eq!(round(&peers).await, ["192.0.2.1:1"], "{}", text.escape_ascii());
    }
    assert!(!names_asked(&server).contains(&"peers.elsewhere.test".to_owned()));
}

#[tokio::test]
async fn a_configuration_that_changes_counts_from_the_next_round() {
    let (server, etc) = (DnsServer::start().await, Etc::new());
    server.addresses("peers.one.test", &["192.0.2.1"]);
    let peers = etc.discoverer("peers", &server);
    assert_eq!(round(&peers).await, [] as [&str; 0]);
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch one.test\n");
    assert_eq!(round(&peers).await, ["192.0.2.1:1"]);
    etc.write("resolv.conf", "nameserver 127.0.0.1\nsearch two.test\n");
    assert_eq!(round(&peers).await, [] as [&str; 0]);
}
