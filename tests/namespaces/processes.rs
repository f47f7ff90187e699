//! Processes are stopped and continued, and restart all at once.

use std::{
    env,
    fmt::Debug,
    str::FromStr,
    time::{Duration, Instant},
};

use crate::cluster::{ABOVE, ALL, BELOW, BURST, Cluster, Loads, RATE, REFILL};

/// The last one is stopped; load goes to those before it meanwhile.
const OTHERS: usize = ALL - 1;

fn setting<T: FromStr<Err: Debug>>(name: &str, otherwise: T) -> T {
    env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|error| panic!("{name}: {error:?}")))
}

fn stop_seconds() -> f64 {
    setting("PEERLIMIT_STOP_SECONDS", 6.0)
}

/// Stops the last node for as long as is set, while the others are offered load: what became of it before, and
/// meanwhile.
fn stop(cluster: &mut Cluster, rate: u32) -> [Loads; 2] {
    let before = cluster.offer_to(OTHERS, rate, 0.5);
    cluster.nodes[OTHERS].signal("STOP");
    let begin = Instant::now();
    let mut meanwhile =
        cluster.offer_to_until("the others hold it down", OTHERS, rate, |cluster| cluster.sees(0..OTHERS, 0..OTHERS));
    println!("held down after {:.1} s", meanwhile.all().seconds());
    let left = Duration::from_secs_f64(stop_seconds()).saturating_sub(begin.elapsed());
    meanwhile.add(cluster.offer_to(OTHERS, rate, left.as_secs_f64().max(0.5)));
    cluster.nodes[OTHERS].signal("CONT");
    [before, meanwhile]
}

#[test]
fn a_stopped_process_comes_back_without_more_than_its_own_envelope() {
    let Some(mut cluster) = Cluster::start() else { return };
    // What the node cannot ask for while it is stopped it makes up for at once when it continues.
    cluster.begin_offer(OTHERS, ABOVE, stop_seconds());
    let [mut all, meanwhile] = stop(&mut cluster, ABOVE);
    all.add(meanwhile.clone());
    let meanwhile = meanwhile.all();
    let ratio = meanwhile.admitted() as f64 / (RATE * meanwhile.seconds());
    println!("the others for {:.1} s: {ratio:.4} of the quota", meanwhile.seconds());
    assert!((0.95..=1.05).contains(&ratio), "the others admitted {ratio} of the quota");

    let mut back = cluster.offer_to(OTHERS, ABOVE, 0.5);
    back.add(cluster.end_offer(OTHERS));
    back.add(cluster.offer_until("everybody sees everybody again", ABOVE, Cluster::is_whole));
    let apart = back.all().after(meanwhile.last_us()).seconds();
    let own = back.of(OTHERS).excess(RATE, BURST);
    all.add(back);
    let excess = all.all().excess(RATE, BURST);
    println!(
        "one again after {apart:.1} s; {:.2} bursts above its own envelope, all together {:.2} above one",
        own / BURST,
        excess / BURST,
    );
    // Until it hears what the others spent it has a whole bucket, and until they take it back it is a part of its own.
    assert!(own <= 0.0, "{own} permits above its own envelope");
    let most = BURST + RATE * apart;
    assert!(excess <= most, "{excess} permits above the envelope, where one more part admits {most}");
    cluster.keeps_its_quota();
}

#[test]
fn a_stopped_process_that_is_back_refuses_nobody_below_the_quota() {
    let Some(mut cluster) = Cluster::start() else { return };
    let [_, meanwhile] = stop(&mut cluster, BELOW);
    meanwhile.is_not_refused("while one is stopped");
    let mut back = cluster.offer_until("everybody sees everybody again", BELOW, Cluster::is_whole);
    back.add(cluster.offer(BELOW, 2.0 * REFILL));
    back.is_not_refused("while it came back");
    cluster.offer(BELOW, 3.0).is_not_refused("after it came back");
}

#[test]
fn all_processes_that_restart_within_two_seconds_find_each_other_again() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut load = Loads::default();
    for round in 0..setting("PEERLIMIT_RESTART_ROUNDS", 5) {
        let begin = Instant::now();
        for index in 0..ALL {
            cluster.restart(index, round + 1);
            // All at once and one after the other, in turns.
            if round % 2 == 1 {
                load.add(cluster.offer(BELOW, 0.25));
            }
        }
        let restarted = begin.elapsed();
        cluster.meets();
        println!("round {round}: restarted within {restarted:.1?}, one cluster after {:.1?}", begin.elapsed());
        load.add(cluster.offer(BELOW, 0.25));
    }
    load.is_not_refused("while processes restart");
    cluster.keeps_its_quota();
}
