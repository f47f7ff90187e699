//! One replica as a process of its own, driven by lines on standard input: `cargo run --example node -- --help`.
//!
//! Prints `listening on ADDR` first. Each command is answered before the next one is read, with lines of `key=value`
//! words, or with one line that begins with `error:`. The end of the input is a `quit`; a signal is a crash, without
//! good-bye.

#![allow(clippy::disallowed_methods, reason = "a program of its own: it measures real time")]

use std::{
    error::Error,
    io::{self, BufRead, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant, SystemTime},
};

use clap::Parser;
use peerlimit::{Decision, DnsDiscoverer, Limiter, MemberState, Quota, Secrets, StaticDiscoverer, Stats};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

const HELP: &str = "\
check KEY [N]               decide on N permits of KEY (1), and take them
peek KEY                    what a check would say, without taking anything
load KEY RATE SECONDS [MS]  offer RATE requests per second, whatever becomes of them; report each second, or
                            each MS milliseconds with the Unix times of the first and the last request in them
members                     who is alive
stats                       counters and sizes
ready                       wait until this node knows what the cluster knows
help                        this text
quit                        say good-bye and end";

/// Runs one replica. Times are like 200ms, 10s, 5m or 1h.
#[derive(Debug, Parser)]
struct Args {
    /// Address for UDP and TCP; port 0 picks one that is free
    #[arg(long, default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// Address at which peers reach this node, if it is another
    #[arg(long)]
    advertise: Option<SocketAddr>,
    /// Address of a peer; may be given several times
    #[arg(long = "peer", value_name = "HOST:PORT")]
    peers: Vec<String>,
    /// DNS name whose addresses are the peers, and their port
    #[arg(long, value_name = "NAME:PORT", value_parser = dns_name)]
    dns: Option<(String, u16)>,
    /// DNS name whose SRV records are the peers
    #[arg(long, value_name = "NAME")]
    srv: Option<String>,
    /// File with the secrets of the cluster, one a line, the first of which seals [default: none, nothing is sealed]
    #[arg(long, value_name = "FILE")]
    secrets: Option<PathBuf>,
    /// Label of this node [default: the host name]
    #[arg(long)]
    name: Option<String>,
    /// Permits per second, or per unit: 100/s, 300/m, 1000/h, 50/d
    #[arg(long, default_value = "100/s", value_parser = rate)]
    rate: Quota,
    /// Permits that may be taken at once [default: the count of the rate]
    #[arg(long)]
    burst: Option<u64>,
    /// How often everything that peers were not told is told to them [default: the library's]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    sync_interval: Option<Duration>,
    /// How often peers are looked for [default: the library's]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    discover_interval: Option<Duration>,
    /// How often one member is probed [default: the library's]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    probe_interval: Option<Duration>,
    /// How long a member that does not answer may take to contradict [default: the library's]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    suspicion_timeout: Option<Duration>,
    /// How long a key that is full stays after its last use
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    key_ttl: Duration,
    /// How often idle keys are looked for
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    sweep_interval: Duration,
}

fn dns_name(text: &str) -> Result<(String, u16), String> {
    let (name, port) = text.rsplit_once(':').ok_or("must be NAME:PORT")?;
    let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    Ok((name.to_owned(), port))
}

/// A number and a unit; milliseconds where there is none.
fn duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is no time such as 200ms, 10s, 5m or 1h");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return Err(problem()),
    };
    let number: u64 = number.parse().map_err(|_| problem())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(problem)
}

fn rate(text: &str) -> Result<Quota, String> {
    let (count, unit) = text.split_once('/').unwrap_or((text, "s"));
    let period = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(format!("{unit:?} is no unit, must be s, m, h or d")),
    };
    let count = count.parse().map_err(|_| format!("{count:?} is no count"))?;
    Quota::new(count, Duration::from_secs(period)).map_err(|error| error.to_string())
}

#[tokio::main]
async fn main() -> ExitCode {
    let Err(error) = run().await else { return ExitCode::SUCCESS };
    // Most errors have their reason in their source.
    let mut source = error.source();
    let mut text = error.to_string();
    while let Some(reason) = source {
        text += &format!(": {reason}");
        source = reason.source();
    }
    eprintln!("error: {text}");
    ExitCode::FAILURE
}

async fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();

    let limiter = start(args).await?;
    if let Some(addr) = limiter.local_addr() {
        say(&format!("listening on {addr}"))?;
    }
    let mut lines = input();
    while let Some(line) = lines.recv().await {
        match Command::parse(&line) {
            Ok(Command::Quit) => break,
            Ok(Command::Nothing) => {}
            Ok(command) => command.run(&limiter).await?,
            Err(usage) => say(&format!("error: {usage}"))?,
        }
    }
    limiter.close().await;
    Ok(())
}

async fn start(args: Args) -> Result<Limiter, Box<dyn Error>> {
    let quota = match args.burst {
        Some(burst) => args.rate.with_burst(burst)?,
        None => args.rate,
    };
    let mut builder = Limiter::builder(quota).bind(args.bind).evict_idle(args.key_ttl, args.sweep_interval);
    if let Some(addr) = args.advertise {
        builder = builder.advertise(addr);
    }
    if !args.peers.is_empty() {
        builder = builder.discover(StaticDiscoverer::try_new(args.peers)?);
    }
    if let Some((name, port)) = args.dns {
        builder = builder.discover(DnsDiscoverer::new(name, port));
    }
    if let Some(name) = args.srv {
        // SRV records say the port.
        builder = builder.discover(DnsDiscoverer::new(name, 0).srv());
    }
    if let Some(path) = args.secrets {
        builder = builder.secret(Secrets::from_file(path)?);
    }
    if let Some(name) = args.name {
        builder = builder.node(name);
    }
    if let Some(interval) = args.sync_interval {
        builder = builder.sync_interval(interval);
    }
    if let Some(interval) = args.discover_interval {
        builder = builder.discover_interval(interval);
    }
    if let Some(interval) = args.probe_interval {
        builder = builder.probe_interval(interval);
    }
    if let Some(timeout) = args.suspicion_timeout {
        builder = builder.suspicion_timeout(timeout);
    }
    Ok(builder.start().await?)
}

/// The lines of standard input. They are read by a thread of their own, since a runtime cannot end while it waits for
/// a line.
fn input() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if sender.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A line for whoever reads our output. Unlike `println!` it does not panic when nobody does any more.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[derive(Debug)]
enum Command {
    Check { key: String, cost: u64 },
    Peek { key: String },
    Load { key: String, rate: f64, time: Duration, step: Option<Duration> },
    Members,
    Stats,
    Ready,
    Help,
    Quit,
    Nothing,
}

impl Command {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// How the command is used, in one line.
    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let key = |key: &str| key.to_owned();
        match words[..] {
            [] => Ok(Self::Nothing),
            ["check", name] => Ok(Self::Check { key: key(name), cost: 1 }),
            ["check", name, cost] => match cost.parse() {
                Ok(cost) => Ok(Self::Check { key: key(name), cost }),
                Err(_) => Err("usage: check KEY [N], where N is a whole number".into()),
            },
            ["check", ..] => Err("usage: check KEY [N]".into()),
            ["peek", name] => Ok(Self::Peek { key: key(name) }),
            ["peek", ..] => Err("usage: peek KEY".into()),
            ["load", name, rate, seconds, ref step @ ..] => {
                let (rate, seconds) = (rate.parse().unwrap_or(f64::NAN), seconds.parse().unwrap_or(f64::NAN));
                let step = match step {
                    [] => Some(None),
                    [millis] => millis.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis).map(Some),
                    _ => None,
                };
                match step {
                    Some(step) if (0.0..=1e6).contains(&rate) && (0.0..=86400.0).contains(&seconds) => {
                        Ok(Self::Load { key: key(name), rate, time: Duration::from_secs_f64(seconds), step })
                    }
                    _ => Err("usage: load KEY RATE SECONDS [MS], where RATE is at most 1000000, SECONDS 86400 and MS \
                              not 0"
                        .into()),
                }
            }
            ["load", ..] => Err("usage: load KEY RATE SECONDS [MS]".into()),
            ["members"] => Ok(Self::Members),
            ["stats"] => Ok(Self::Stats),
            ["ready"] => Ok(Self::Ready),
            ["help"] => Ok(Self::Help),
            ["quit"] => Ok(Self::Quit),
            [word @ ("members" | "stats" | "ready" | "help" | "quit"), ..] => Err(format!("usage: {word}")),
            [word, ..] => Err(format!("unknown command {word:?}, try help")),
        }
    }

    async fn run(self, limiter: &Limiter) -> io::Result<()> {
        match self {
            Self::Check { key, cost } => say(&decision("check", &key, &limiter.check_n(&key, cost))),
            Self::Peek { key } => say(&decision("peek", &key, &limiter.peek(&key))),
            Self::Load { key, rate, time, step } => load(limiter, &key, rate, time, step).await,
            Self::Members => members(limiter),
            Self::Stats => say(&stats(&limiter.stats())),
            Self::Ready => {
                limiter.ready().await;
                say("ready")
            }
            Self::Help => say(HELP),
            Self::Quit | Self::Nothing => Ok(()),
        }
    }
}

fn decision(what: &str, key: &str, decision: &Decision) -> String {
    let Decision { allowed, remaining, limit, reset_after, .. } = decision;
    let retry = match decision.retry_after {
        Some(wait) => format!("{}", wait.as_millis()),
        None if decision.is_impossible() => "never".into(),
        None => "0".into(),
    };
    let reset = reset_after.as_millis();
    format!("{what} {key} allowed={allowed} remaining={remaining} limit={limit} reset_ms={reset} retry_ms={retry}")
}

fn members(limiter: &Limiter) -> io::Result<()> {
    let members = limiter.members();
    let mut text = format!("members {}", members.len());
    for member in members {
        let state = match member.state {
            MemberState::Alive => "alive",
            MemberState::Suspect => "suspect",
            _ => "other",
        };
        text += &format!("\nmember addr={} state={state} self={} name={}", member.addr, member.is_self, member.name);
    }
    say(&text)
}

fn stats(stats: &Stats) -> String {
    let fields = [
        ("keys", stats.keys),
        ("cells", stats.cells),
        ("runs", stats.runs),
        ("members", stats.members),
        ("frames_in", stats.frames_in),
        ("frames_out", stats.frames_out),
        ("bytes_in", stats.bytes_in),
        ("bytes_out", stats.bytes_out),
        ("send_errors", stats.send_errors),
        ("merges", stats.merges),
        ("gaps", stats.gaps),
        ("published", stats.published),
        ("pushes", stats.pushes),
        ("syncs", stats.syncs),
        ("syncs_failed", stats.syncs_failed),
        ("drops", stats.drops.total()),
        ("evicted_idle", stats.evictions.idle),
        ("evicted_recycled", stats.evictions.recycled),
        ("evicted_untracked", stats.evictions.untracked),
        ("evicted_cells", stats.evictions.cells),
    ];
    fields.into_iter().fold("stats".to_owned(), |text, (name, value)| text + &format!(" {name}={value}"))
}

/// Offers load at a steady rate: what is late is made up for, and nothing waits for an answer.
async fn load(limiter: &Limiter, key: &str, rate: f64, time: Duration, step: Option<Duration>) -> io::Result<()> {
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let start = Instant::now();
    // One look at the wall clock: it may be set meanwhile.
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_us = || (started + start.elapsed()).as_micros();
    let length = step.unwrap_or(Duration::from_secs(1));
    let whole = (rate * time.as_secs_f64()).round() as u64;
    let (mut offered, mut admitted) = (0, 0);
    let (mut steps, mut offered_before, mut admitted_before) = (0, 0, 0);
    let (mut first_us, mut last_us) = (0, 0);
    loop {
        ticks.tick().await;
        let elapsed = start.elapsed().min(time);
        let due = if elapsed < time { (elapsed.as_secs_f64() * rate) as u64 } else { whole };
        if offered < due {
            if offered == offered_before {
                first_us = unix_us();
            }
            while offered < due {
                offered += 1;
                admitted += u64::from(limiter.allow(key));
            }
            last_us = unix_us();
        }
        let ended = elapsed >= time;
        let new = offered - offered_before;
        if elapsed >= length.saturating_mul(steps + 1) || (ended && new > 0) {
            steps += 1;
            let passed = admitted - admitted_before;
            let counts = format!("offered={new} admitted={passed} refused={}", new - passed);
            match step {
                None => say(&format!("load {key} second={steps} {counts}"))?,
                Some(_) if new > 0 => say(&format!("load {key} first_us={first_us} last_us={last_us} {counts}"))?,
                Some(_) => {}
            }
            (offered_before, admitted_before) = (offered, admitted);
        }
        if ended {
            let refused = offered - admitted;
            return say(&format!("load {key} total offered={offered} admitted={admitted} refused={refused}"));
        }
    }
}
