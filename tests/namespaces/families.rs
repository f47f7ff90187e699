//! Addresses of both families, and which of them a node tells its peers.

use std::{
    io::Write as _,
    net::{IpAddr, SocketAddr},
    process::Stdio,
};

use crate::{
    host::{CABLE, Host},
    node_process::{self, eventually},
    pods::{Pod, Pods, Publish, are_whole},
    switch::{Families, Switch},
    turn::{or_skipped, turn},
};

/// What one pod takes all others hear of.
fn share_one_bucket(pods: &mut [Pod]) {
    eventually("they see each other", || are_whole(pods));
    pods.iter_mut().for_each(|pod| assert_eq!(pod.node.ask("ready"), "ready"));
    let spent = pods[0].node.ask("check shared 50");
    assert!(spent.starts_with("check shared allowed=true remaining=0 "), "{spent}");
    // It refills by 100 a second. News that did not come would leave all 50.
    let most = 45;
    for pod in &mut pods[1..] {
        eventually("the news is there", || {
            let peeked = pod.node.ask("peek shared");
            let remaining = peeked.split(' ').find_map(|word| word.strip_prefix("remaining=")).unwrap();
            remaining.parse::<u32>().unwrap() <= most
        });
    }
}

#[test]
fn pods_that_have_ipv6_alone_are_one_cluster() {
    let Some(mut pods) = Pods::start(Publish::NotReadyToo, Families::V6) else { return };
    // Nobody says what to advertise.
    let mut all: Vec<_> =
        (1..=3).map(|number| pods.pod_with(number, |_| vec!["--bind".into(), "[::]:7946".into()])).collect();
    share_one_bucket(&mut all);
    for pod in &mut all {
        assert!(pod.node.members().iter().all(|addr| addr.starts_with("[fd00:78::1:")), "{:?}", pod.node.members());
    }
}

#[test]
fn pods_that_have_both_families_are_one_cluster_whichever_of_them_they_advertise() {
    for advertised in [
        ["10.78.1.1:7946", "10.78.1.2:7946", "10.78.1.3:7946"],
        ["10.78.1.1:7946", "[fd00:78::1:2]:7946", "[fd00:78::1:3]:7946"],
    ] {
        let Some(mut pods) = Pods::start(Publish::NotReadyToo, Families::Both) else { return };
        // Each is found at two addresses, one of which is its own in the eyes of no other.
        let mut all: Vec<_> = (1..)
            .zip(advertised)
            .map(|(number, addr)| {
                let words = ["--bind", "[::]:7946", "--advertise", addr];
                pods.pod_with(number, |_| words.map(String::from).to_vec())
            })
            .collect();
        share_one_bucket(&mut all);
        for pod in &mut all {
            let mut members = pod.node.members();
            members.sort_unstable();
            assert_eq!(members, advertised, "{} sees somebody at an address that was not said", pod.name);
        }
    }
}

/// What a node advertises that is bound to this on a host, or what it says where it does not start.
fn advertised(host: &Host, bind: &str) -> Result<IpAddr, String> {
    let mut command = host.command(node_process::binary());
    command.args(["--bind", bind]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    // One that does not start has closed it.
    let _closed = process.stdin.take().unwrap().write_all(b"members\n");
    let output = process.wait_with_output().unwrap();
    let (said, complained) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let own = said.lines().find_map(|line| line.strip_prefix("member addr=")?.split(' ').next());
    match own {
        Some(addr) => Ok(addr.parse::<SocketAddr>().unwrap().ip()),
        None => Err(complained),
    }
}

#[test]
fn a_node_that_is_bound_to_everything_advertises_where_its_route_leads_from() {
    use Families::{Both, V4, V6};
    let _turn = turn();
    let Some(switch) = or_skipped(Switch::start()) else { return };
    let cases = [
        ("0.0.0.0:7946", V4, V4),
        ("0.0.0.0:7946", Both, V4),
        ("[::]:7946", V6, V6),
        ("[::]:7946", Both, V6),
        // There is no way to the outside by IPv6.
        ("[::]:7946", V4, V4),
    ];
    for (number, (bind, has, expected)) in (1..).zip(cases) {
        let host = switch.plug(number, has).unwrap();
        switch.route(&host, has).unwrap();
        let expected = expected.addrs(number)[0].0;
        assert_eq!(advertised(&host, bind).as_ref(), Ok(&expected), "bound to {bind}, with {has:?}");
    }
}

#[test]
fn an_address_that_only_means_something_on_the_own_link_is_not_advertised() {
    let _turn = turn();
    let Some(switch) = or_skipped(Switch::start()) else { return };
    let host = switch.plug(1, Families::V4).unwrap();
    // As where a router announces itself, and no prefix.
    host.run(["ip", "addr", "add", "fe80::1:1/64", "dev", CABLE, "nodad"]).unwrap();
    host.run(["ip", "route", "add", "default", "via", "fe80::1", "dev", CABLE]).unwrap();
    let problem = advertised(&host, "[::]:7946").unwrap_err();
    assert!(problem.contains("set advertise"), "{problem}");
    switch.route(&host, Families::V4).unwrap();
    assert_eq!(advertised(&host, "[::]:7946"), Ok(Families::V4.addrs(1)[0].0));
}

#[test]
fn a_node_that_cannot_know_its_address_does_not_start_and_says_what_to_set() {
    let _turn = turn();
    let Some(switch) = or_skipped(Switch::start()) else { return };
    let (one, other) = (switch.plug(1, Families::Both).unwrap(), switch.plug(2, Families::V6).unwrap());
    // Bound to IPv4 alone, it is not reached where its only route leads.
    switch.route(&other, Families::V6).unwrap();
    for (host, bind) in [(&one, "0.0.0.0:7946"), (&one, "[::]:7946"), (&other, "0.0.0.0:7946")] {
        let problem = advertised(host, bind).unwrap_err();
        assert!(problem.contains(bind) && problem.contains("set advertise"), "{problem}");
    }
}
