//! A cluster on this machine, under ten times its quota, while a node crashes, comes back, and another one joins:
//! `cargo run --release --example cluster`.
//!
//! The nodes are real: each has its own UDP and TCP port on loopback, and they talk through nothing else. Their
//! settings are the defaults, but for three intervals in `fleet.rs` that let the crash be noticed within the show.
//! Every request goes to one node at random, and right after it to one central bucket that nobody shares; the summary
//! sets one beside the other.
//!
//! Exits with 1 where they are more than 5 % apart, where a node refuses below the quota, or where membership does
//! not come together in time, so that it can serve as a smoke test.

#![allow(clippy::disallowed_methods, reason = "a program of its own: it measures real time")]

mod fleet;
mod report;
mod tally;

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use peerlimit::Quota;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use fleet::{DISCOVER_INTERVAL, Fleet, PROBE_INTERVAL, SUSPICION_TIMEOUT};
use report::{Part, Second};
use tally::{Judge, Tally};

const KEY: &str = "hot";
/// How far the cluster may be from the central bucket.
const TOLERANCE: f64 = 0.05;
/// The share of the quota that is offered in the part where nobody may be refused.
const CALM: f64 = 0.8;
/// How much longer than planned a part may take, in seconds, while membership has not come together.
const PATIENCE: u64 = 10;
/// Load that could not be offered in time is offered late, but no later than this.
const MOST_LATE: Duration = Duration::from_millis(200);

/// Runs a cluster on loopback under load, while nodes crash, come back and join.
#[derive(Debug, Parser)]
struct Args {
    /// Nodes at the start; one more joins later
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=16))]
    nodes: u64,
    /// Permits per second of the quota
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// Permits that may be taken at once
    #[arg(long, default_value_t = 50)]
    burst: u64,
    /// Requests per second that all nodes together get, in units of the rate
    #[arg(long, default_value_t = 10.0, value_parser = load_factor)]
    load: f64,
    /// Seconds of each of the five phases
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of the choice of nodes
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn load_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.0..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("must be a number from 0 to 1000".into()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let quota = Quota::new(args.rate, Duration::from_secs(1))?.with_burst(args.burst)?;
    let nodes = args.nodes as usize;
    let mut out = io::stdout();

    let mut fleet = Fleet::new(quota);
    for _ in 0..nodes {
        fleet.add().await?;
    }
    writeln!(
        out,
        "{nodes} nodes on loopback, quota {}/s (+{} burst) on one key, {} requests/s offered to all of them together",
        quota.count(),
        quota.burst_size(),
        args.rate as f64 * args.load
    )?;
    writeln!(
        out,
        "Settings: the defaults, but discover_interval {DISCOVER_INTERVAL:?}, probe_interval {PROBE_INTERVAL:?}, \
         suspicion_timeout {SUSPICION_TIMEOUT:?}"
    )?;
    let together = first_meeting(&fleet).await;
    match together {
        Some(took) => writeln!(out, "All nodes see each other after {} ms\n", took.as_millis())?,
        None => writeln!(out, "The nodes did not find each other within {PATIENCE} s\n")?,
    }

    let mut show = Show::new(&args, quota, fleet, out);
    report::heading(&mut show.out, nodes + 1)?;

    show.announce(&format!("load on all {nodes} nodes"))?;
    show.play("load", args.load, args.seconds).await?;

    let victim = nodes - 1;
    show.fleet.crash(victim);
    show.announce(&format!("node-{nodes} is killed, without good-bye"))?;
    show.play("crash", args.load, args.seconds).await?;

    let addr = show.fleet.restart(victim).await?;
    show.announce(&format!("node-{nodes} is back on {addr}"))?;
    show.play("back", args.load, args.seconds).await?;

    let name = show.fleet.add().await?;
    show.announce(&format!("{name} joins"))?;
    show.play("join", args.load, args.seconds).await?;

    let refill = quota.refill_time().as_nanos().div_ceil(1_000_000_000) as u64;
    if refill <= args.seconds {
        show.announce("no load, so that the bucket is full again")?;
        show.play("rest", 0.0, refill).await?;
        show.announce(&format!("load at {CALM} of the quota, where nobody may be refused"))?;
        show.play("calm", CALM, args.seconds).await?;
    } else {
        show.announce("no calm phase: the bucket takes longer than a phase to be full again")?;
    }

    report::summary(&mut show.out, &show.parts, &show.fleet, quota)?;
    show.fleet.close().await;
    verdict(&mut show.out, &show.parts, together.is_some())
}

/// Waits until all nodes see each other. Returns how long it took.
async fn first_meeting(fleet: &Fleet) -> Option<Duration> {
    let start = Instant::now();
    while !fleet.together() {
        if start.elapsed() > Duration::from_secs(PATIENCE) {
            return None;
        }
        sleep(Duration::from_millis(10)).await;
    }
    Some(start.elapsed())
}

struct Show<W> {
    out: W,
    quota: Quota,
    most_nodes: usize,
    fleet: Fleet,
    judge: Judge,
    rng: StdRng,
    ticks: Interval,
    start: Instant,
    /// When load was last offered.
    last: Duration,
    /// Requests that are due and were not offered yet.
    due: f64,
    /// Lines printed, which is the seconds played.
    seconds: u64,
    parts: Vec<Part>,
}

impl<W: Write> Show<W> {
    fn new(args: &Args, quota: Quota, fleet: Fleet, out: W) -> Self {
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            out,
            quota,
            most_nodes: fleet.slots.len() + 1,
            fleet,
            judge: Judge::new(quota),
            rng: StdRng::seed_from_u64(args.seed),
            ticks,
            start: Instant::now(),
            last: Duration::ZERO,
            due: 0.0,
            seconds: 0,
            parts: Vec::new(),
        }
    }

    fn announce(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "--- {text}")
    }

    /// Offers `load` times the rate for `seconds`, or longer while the nodes do not agree on who is a member.
    async fn play(&mut self, label: &'static str, load: f64, seconds: u64) -> io::Result<()> {
        let began = self.start.elapsed();
        let end = self.seconds + seconds;
        let mut part = Part { label, tally: Tally::default(), together: None };
        loop {
            self.ticks.tick().await;
            self.offer(load);
            if part.together.is_none() && self.fleet.together() {
                part.together = Some(self.start.elapsed().saturating_sub(began));
            }
            if self.start.elapsed() >= Duration::from_secs(self.seconds + 1) {
                part.tally.add(&self.line(label)?);
                // Only whole seconds, so that each line belongs to one part.
                if self.seconds >= end && (part.together.is_some() || self.seconds >= end + PATIENCE) {
                    break;
                }
            }
        }
        self.parts.push(part);
        Ok(())
    }

    /// Offers what is due by now. One task asks one node after the other, so the central bucket sees the same
    /// requests in the same order, a fraction of a microsecond later.
    fn offer(&mut self, load: f64) {
        let now = self.start.elapsed();
        let rate = load * self.quota.count() as f64;
        self.due += now.saturating_sub(self.last).min(MOST_LATE).as_secs_f64() * rate;
        self.last = now;
        let serving = self.fleet.serving();
        if serving.is_empty() {
            self.due = 0.0;
        }
        while self.due >= 1.0 {
            self.due -= 1.0;
            let node = serving[self.rng.random_range(0..serving.len())];
            let at = self.start.elapsed();
            let admitted = self.fleet.slots[node].allow(KEY);
            self.judge.arrival(at, KEY, admitted);
        }
    }

    /// Prints the line of the second that has passed. Returns what came of its requests.
    fn line(&mut self, label: &str) -> io::Result<Tally> {
        let tally = std::mem::take(&mut self.judge.tally);
        let second =
            Second { number: self.seconds, label, offered: tally.offered, central: tally.central, fleet: &self.fleet };
        report::second(&mut self.out, &second, self.quota, self.most_nodes)?;
        for slot in &mut self.fleet.slots {
            slot.recent = 0;
        }
        self.seconds += 1;
        Ok(tally)
    }
}

/// The last line, and the exit code.
fn verdict(out: &mut impl Write, parts: &[Part], met: bool) -> Result<ExitCode, Box<dyn Error>> {
    let mut all = Tally::default();
    for part in parts {
        all.add(&part.tally);
    }
    let mut faults = Vec::new();
    let tolerance = TOLERANCE * 100.0;
    if (all.ratio() - 1.0).abs() > TOLERANCE {
        faults.push(format!("the ratio of {:.3} is off by more than {tolerance} %", all.ratio()));
    }
    let apart: Vec<_> = parts.iter().filter(|part| part.together.is_none()).map(|part| part.label).collect();
    if !met || !apart.is_empty() {
        let phases = if apart.is_empty() { "start".into() } else { apart.join(", ") };
        faults.push(format!("membership did not come together in time (phases: {phases})"));
    }
    let calm = parts.iter().find(|part| part.label == "calm").map_or(0, |part| part.tally.refused_alone);
    if calm > 0 {
        faults.push(format!("{calm} requests were refused below the quota"));
    }
    if faults.is_empty() {
        writeln!(
            out,
            "OK: the cluster admitted {:.3} of what one central bucket would have, and membership came together each time",
            all.ratio()
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "FAILED: {}", faults.join("; "))?;
    Ok(ExitCode::FAILURE)
}
