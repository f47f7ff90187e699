//! The example `kubernetes`, as it runs in pods: each in a network namespace with an address of its own, as a user who may nothing,
//! over a file system that is read-only, with a key ring that is replaced as the kubelet replaces it.
//!
//! Needs root, `ip` and `iptables`, as `namespaces.rs` does.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these processes live in real time, and what goes wrong here fails the test"
)]

#[path = "support/dns_server.rs"]
mod dns_server;
#[path = "namespaces/host.rs"]
mod host;
#[path = "kubernetes/pod.rs"]
mod pod;
#[path = "namespaces/switch.rs"]
mod switch;
#[path = "namespaces/turn.rs"]
mod turn;
#[path = "kubernetes/volume.rs"]
mod volume;
#[path = "support/wait.rs"]
mod wait;

use std::process::Command;

use pod::{Connection, Network, Pod, program};
use volume::Volume;
use wait::eventually;

/// So many pass, then nothing for a long time.
const BURST: usize = 5;

const OLD: &str = "8f1c4b1c6d5f8a0e5b1d3c7a9e2f4b6d8f1c4b1c6d5f8a0e5b1d3c7a9e2f4b6d";
const NEW: &str = "0d2e9d3f1b7a4c58961e0f3a5c7b2d4e8f6a1c3e5d7b9a0c2e4f6a8b0d1c3e5f";

/// Two pods that are members of one cluster.
fn two_pods(network: &mut Network, volumes: [&Volume; 2]) -> [Pod; 2] {
    // The name does not exist before the first pod.
    let first = network.pod(1, volumes[0]);
    assert_eq!(first.probe("/ready").0, 200, "a pod that finds nobody is ready at once");
    let second = network.pod(2, volumes[1]);
    let pods = [first, second];
    pods.iter().for_each(|pod| eventually("it is ready", || pod.probe("/ready") == (200, "ready\n".into())));
    are_peers(&pods);
    pods
}

fn are_peers(pods: &[Pod; 2]) {
    for pod in pods {
        eventually("it has a peer", || pod.probe("/health").1.starts_with("ready, 1 peers\n"));
    }
}

/// What is spent at one is spent at the other.
fn share(pods: &[Pod; 2], key: &str) {
    for request in 0..BURST {
        assert_eq!(pods[0].ask(key), 200, "request {request} of {key}");
    }
    eventually("the other one knows", || pods[1].ask(key) == 429);
}

#[test]
fn pods_share_one_limit_and_say_how_they_are() {
    let Some(mut network) = Network::start() else { return };
    let volume = Volume::new(&[OLD]);
    let pods = two_pods(&mut network, [&volume, &volume]);
    assert!(pods.iter().all(Pod::is_restricted));
    share(&pods, "ann");
    assert_eq!(pods[1].ask(""), 400, "a request without a key is nobody's");
    assert_eq!(pods[0].probe("/live").0, 200);
    eventually("metrics name the members", || {
        let (status, figures) = pods[1].probe("/metrics");
        status == 200 && figures.contains("peerlimit_members{node=\"pod-2\"} 2\n")
    });
}

#[test]
fn a_pod_that_is_told_to_end_answers_what_is_under_way_and_takes_no_admission_along() {
    let Some(mut network) = Network::start() else { return };
    let volume = Volume::new(&[OLD]);
    let [mut leaving, staying] = two_pods(&mut network, [&volume, &volume]);
    // A request of which half has arrived.
    let mut under_way = leaving.connect(8080);
    under_way.send("GET / HTTP/1.1\r\nhost: hello\r\n");
    // One that arrives and is answered, so the half before it has arrived too.
    assert_eq!(leaving.ask("bob"), 200);
    let mut probes = leaving.connect(9090);
    assert_eq!(probes.get("/ready", "").0, 200);

    leaving.signal("TERM");
    eventually("its probe says so", || probes.get("/ready", "") == (503, "is leaving\n".into()));
    under_way.send("x-api-key: bob\r\n\r\n");
    assert_eq!(under_way.answer().0, 200);
    assert!(leaving.wait().success());
    assert!(leaving.said("closed"), "it ended without good-bye");

    // Not held down: it said good-bye. Two of five are gone.
    eventually("it is no peer any more", || staying.probe("/health").1.starts_with("ready, 0 peers"));
    let passed = (0..BURST).filter(|_| staying.ask("bob") == 200).count();
    assert_eq!(passed, BURST - 2, "what the pod admitted last is not known, or known twice");
}

#[test]
fn a_key_ring_is_replaced_step_by_step_and_no_peer_is_lost() {
    let Some(mut network) = Network::start() else { return };
    let volumes = [Volume::new(&[OLD]), Volume::new(&[OLD])];
    let pods = two_pods(&mut network, [&volumes[0], &volumes[1]]);
    for (step, ring) in [vec![OLD, NEW], vec![NEW, OLD], vec![NEW]].into_iter().enumerate() {
        for (pod, volume) in pods.iter().zip(&volumes) {
            let before = pod.count("uses the key ring");
            volume.replace(&ring);
            eventually("the pod uses it", || pod.count("uses the key ring") > before);
            share(&pods, &format!("{}, step {step}", pod.name));
        }
        are_peers(&pods);
    }
    for pod in &pods {
        let figures = pod.probe("/metrics").1;
        let dropped =
            figures.lines().filter(|line| line.starts_with("peerlimit_drops_total") && line.contains("secret"));
        let dropped: Vec<_> = dropped.collect();
        assert!(!dropped.is_empty() && dropped.iter().all(|line| line.ends_with(" 0")), "{dropped:?}");
    }

    // One that holds no secret changes nothing, and is complained of once.
    volumes[0].replace(&["nonsense"]);
    eventually("the pod complains", || pods[0].said("no key ring"));
    share(&pods, "with a ring of nonsense in the volume");
    assert_eq!(pods[0].count("no key ring"), 1);

    // Whoever comes with the secret that was removed stays outside.
    let late = network.pod(3, &Volume::new(&[OLD]));
    eventually("it is ready alone", || late.probe("/ready").0 == 200);
    assert!(late.probe("/health").1.starts_with("ready, 0 peers"), "{}", late.probe("/health").1);
    are_peers(&pods);
}

#[test]
fn a_setting_that_is_wrong_is_named_and_no_pod_starts() {
    let Some(mut network) = Network::start() else { return };
    let volume = Volume::new(&[OLD]);
    for (name, value, complaint) in [
        ("POD_IP", "", "POD_IP is not set"),
        ("POD_IP", "here", "POD_IP is \"here\", must be an IP address"),
        ("BURST", "0", "BURST is \"0\", must be a whole number from 1"),
        ("MAX_KEYS", "1", "max_keys is 1, must be from 1024"),
        ("KEY_RING", "/nowhere", "file of secrets cannot be read: No such file"),
    ] {
        let said = network.fails(&volume, name, value);
        assert!(said.contains(complaint), "{name}={value}: {said}");
    }
}

#[test]
fn the_program_links_to_nothing_that_its_image_lacks() {
    // `distroless/cc` has the packages libc6 and libgcc-s1.
    const THERE: [&str; 7] = ["linux-vdso.", "ld-linux-", "libc.", "libm.", "libdl.", "libpthread.", "libgcc_s."];
    let listed = Command::new("ldd").arg(program()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files = listed.lines().filter_map(|line| line.split_whitespace().next()?.rsplit('/').next());
    let files: Vec<_> = files.collect();
    assert!(files.iter().any(|file| file.starts_with("libc.")), "{listed}");
    let lacks = files.iter().find(|file| !THERE.iter().any(|there| file.starts_with(there)));
    assert_eq!(lacks, None, "{listed}");
}

/// Requests take turns on one connection, so what is under way is known.
#[test]
fn a_request_that_never_ends_does_not_keep_a_pod_for_longer_than_the_manifest_allows() {
    let Some(mut network) = Network::start() else { return };
    let mut pod = network.pod(1, &Volume::new(&[OLD]));
    let mut stuck: Connection = pod.connect(8080);
    stuck.send("GET / HTTP/1.1\r\n");
    assert_eq!(pod.ask("bob"), 200);
    pod.signal("TERM");
    assert!(pod.wait().success());
    assert!(pod.said("were cut off") && pod.said("closed"));
}
