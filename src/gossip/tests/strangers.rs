//! What an outsider can make a node without a secret send: little, and not often.

use super::*;
use crate::gossip::{
    strangers::Strangers,
    wire::{HEADER_LEN, Identity, SwimCodec},
};
use foca::Codec;

/// An announcement to `to` that names `addr` and `run` as its sender's.
fn announcement(to: SocketAddr, addr: SocketAddr, run: u64) -> Bytes {
    let run = RunId::from_raw(run);
    let src = Identity { addr, run, started: 5, renewals: 0, name: NodeName::default() };
    let message = foca::Message::Announce;
    let header = foca::Header { src, src_incarnation: 0, dst: Identity::unknown(to), message };
    let mut body = Vec::new();
    SwimCodec::default().encode_header(&header, &mut body).expect("fits");
    encode_frame(cluster(), run, Tag::Swim, &body)
}

fn sent(node: &mut Node) -> Vec<Transmit> {
    std::iter::from_fn(|| node.engine.poll_transmit()).collect()
}

#[test]
fn announcements_that_name_one_address_are_answered_some_times_a_second() {
    let mut net = Net::pair(|_| {});
    let (now, node) = (net.now, &mut net.nodes[0]);
    let _before = sent(node);
    let victim = SocketAddr::from(([192, 0, 2, 1], 80));
    // By one run, by many, and by the name of a member at another address.
    for run in (100..400).chain([2; 300]).chain([900; 400]) {
        node.engine.handle_datagram(now, &announcement(node.addr, victim, run));
    }
    let answers = sent(node).iter().filter(|transmit| transmit.to == victim).count();
    let most = Strangers::ADDRESS_BURST as usize;
    assert!(answers <= 2 * most, "{answers} datagrams to an address that never asked");
    assert_eq!(node.engine.stats().drops.strangers, 1_000 - most as u64);
    // A second later, a second's worth.
    let later = now.saturating_add(Duration::from_secs(1));
    for _ in 0..1_000 {
        node.engine.handle_datagram(later, &announcement(node.addr, victim, 900));
    }
    assert_eq!(node.engine.stats().drops.strangers, 2_000 - most as u64 - u64::from(Strangers::PER_ADDRESS));
}

#[test]
fn announcements_of_a_whole_network_are_answered_so_often_as_a_large_cluster_needs() {
    let mut node = Node::new(1, at(1_000), |_| {});
    let now = at(1_000);
    for number in 0..10_000_u32 {
        let addr = SocketAddr::from(((0x0b00_0000 + number).to_be_bytes(), 7946));
        node.engine.handle_datagram(now, &announcement(node.addr, addr, u64::from(number) + 10));
    }
    let stats = node.engine.stats();
    assert_eq!(stats.drops.strangers, 10_000 - u64::from(Strangers::HEARD));
    assert!(stats.peers <= u64::from(Strangers::HEARD));
}

#[test]
fn a_member_is_heard_whatever_strangers_do() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    for number in 0..5_000_u32 {
        let addr = SocketAddr::from(((0x0b00_0000 + number).to_be_bytes(), 7946));
        let to = net.nodes[0].addr;
        net.nodes[0].engine.handle_datagram(now, &announcement(to, addr, u64::from(number) + 10));
        let _answers = sent(&mut net.nodes[0]);
    }
    let before = net.nodes[0].engine.stats().drops;
    assert!(before.strangers > 2_000, "{before:?}");
    assert!(net.nodes[1].check(now, 1, 3).allowed);
    net.nodes[1].engine.handle_timeout(now.saturating_add(Duration::from_millis(250)));
    let news = sent(&mut net.nodes[1]);
    news.iter().for_each(|transmit| net.nodes[0].engine.handle_datagram(now, &transmit.payload));
    assert_eq!(net.nodes[0].engine.log().cells(), 1);
    assert_eq!(net.nodes[0].engine.stats().drops, before);
}

#[test]
fn with_a_secret_an_outsider_is_answered_by_nothing() {
    let secrets = |config: &mut EngineConfig| config.secrets = Some(Secrets::new([[7; 32]]).expect("one"));
    let mut node = Node::new(1, at(1_000), secrets);
    for run in 10..1_000 {
        let addr = SocketAddr::from(([192, 0, 2, 1], 80));
        let plain = announcement(node.addr, addr, run);
        node.engine.handle_datagram(at(1_000), &plain);
        let mut sealed = plain.to_vec();
        sealed[HEADER_LEN - 1] = Tag::Sealed as u8;
        node.engine.handle_datagram(at(1_000), &sealed);
    }
    assert_eq!(node.outputs(), Vec::<String>::new());
    let stats = node.engine.stats();
    assert_eq!((stats.drops.unsealed, stats.drops.unknown_secret, stats.drops.total()), (990, 990, 1_980));
    assert_eq!((stats.peers, stats.runs), (0, 1));
}

#[test]
fn a_member_cannot_have_us_knock_at_any_number_of_doors() {
    let mut net = Net::pair(|_| {});
    let now = net.now;
    let identity = |node: &Node| Identity {
        addr: node.addr,
        run: node.run(),
        started: 0,
        renewals: 0,
        name: NodeName::try_from(node.engine.identity().name).expect("short enough"),
    };
    let (src, dst) = (identity(&net.nodes[1]), identity(&net.nodes[0]));
    let node = &mut net.nodes[0];
    let _before = sent(node);
    for number in 0..5_000_u32 {
        let target = Identity::unknown(SocketAddr::from(((0x0b00_0000 + number).to_be_bytes(), 7946)));
        let message = foca::Message::PingReq { target, probe_number: 1 };
        let header = foca::Header { src: src.clone(), src_incarnation: 0, dst: dst.clone(), message };
        let mut body = Vec::new();
        SwimCodec::default().encode_header(&header, &mut body).expect("fits");
        node.engine.handle_datagram(now, &encode_frame(cluster(), src.run, Tag::Swim, &body));
    }
    let told = sent(node).len() as u64;
    let untold = node.engine.stats().drops.untold;
    assert!(untold > 2_000 && told <= u64::from(Strangers::TOLD), "{told} told, {untold} not");
    assert_eq!(told + untold, 5_000);
}
