//! Discovery against a real DNS server and the system's own resolver.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped here fails the test")]

#[path = "discovery/a_dns_name.rs"]
mod a_dns_name;
#[path = "discovery/a_static_list.rs"]
mod a_static_list;
#[path = "support/dns_server.rs"]
mod dns_server;
#[path = "discovery/nodes.rs"]
mod nodes;
#[path = "discovery/service_records.rs"]
mod service_records;

use std::{error::Error as _, net::SocketAddr, time::Duration};

use dns_server::{DnsServer, Reply, alias, records, service};
use hickory_server::proto::{op::ResponseCode, rr::RecordType};
use peerlimit::{DiscoverError, Discoverer, DnsDiscoverer, StaticDiscoverer};
use tokio::time::timeout;

const NAME: &str = "peers.test";
const SERVICE: &str = "_gossip._udp.peers.test";

/// Long for a round in which every question is answered, on a busy machine too.
const PATIENT: Duration = Duration::from_secs(20);
/// Short, for rounds that are to run into it.
const BRIEF: Duration = Duration::from_millis(400);

fn peers(server: &DnsServer) -> DnsDiscoverer {
    DnsDiscoverer::new(NAME, 7946).name_servers([server.address]).timeout(PATIENT)
}

fn services(server: &DnsServer) -> DnsDiscoverer {
    DnsDiscoverer::new(SERVICE, 0).srv().name_servers([server.address]).timeout(PATIENT)
}

/// One round, sorted: the order of the families is that of the answers.
async fn round(discoverer: &impl Discoverer) -> Vec<SocketAddr> {
    let mut found = discoverer.discover().await.unwrap();
    found.sort();
    found
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn an_error_of_a_users_own_is_found_as_the_source() {
    let error = DiscoverError::new(std::io::Error::other("the catalog is closed"));
    let source = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.to_string(), "the catalog is closed");
}
