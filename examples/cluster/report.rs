//! What the show prints.

use std::{
    io::{self, Write},
    time::Duration,
};

use peerlimit::Quota;

use crate::{
    fleet::{Fleet, Slot},
    tally::Tally,
};

/// Columns of the bar up to the quota.
const BAR_QUOTA: f64 = 10.0;
/// Columns of the bar at most.
const BAR_MOST: usize = 20;

/// One part of the show, as it ended.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) label: &'static str,
    pub(crate) tally: Tally,
    /// How long it took until all nodes agreed on who is a member; `None` if they did not.
    pub(crate) together: Option<Duration>,
}

/// One second of the show.
pub(crate) struct Second<'a> {
    pub(crate) number: u64,
    pub(crate) label: &'a str,
    pub(crate) offered: u64,
    pub(crate) central: u64,
    pub(crate) fleet: &'a Fleet,
}

/// The heading of the lines of seconds. `most` is how many nodes there will be.
pub(crate) fn heading(out: &mut impl Write, most: usize) -> io::Result<()> {
    write!(out, "{:>4}  {:<5}  {:>7}", "time", "phase", "offered")?;
    for number in 1..=most {
        write!(out, "  {:>6}", format!("node-{number}"))?;
    }
    let seen = seen_width(most);
    writeln!(out, "  {:>5}  {:>7}  {:<BAR_MOST$}  {:<seen$}  quota", "total", "central", "", "seen")
}

/// Columns of what `most` nodes see, a digit each for most purposes.
fn seen_width(most: usize) -> usize {
    2 * most - 1
}

/// A line: who admitted how much in this second.
pub(crate) fn second(out: &mut impl Write, second: &Second<'_>, quota: Quota, most: usize) -> io::Result<()> {
    let Second { number, label, offered, central, fleet } = second;
    write!(out, "{:>3}s  {label:<5}  {offered:>7}", number + 1)?;
    let shown = |slot: &Slot| if slot.is_running() { slot.recent.to_string() } else { "-".into() };
    for index in 0..most {
        write!(out, "  {:>6}", fleet.slots.get(index).map_or_else(|| "-".into(), shown))?;
    }
    let total: u64 = fleet.slots.iter().map(|slot| slot.recent).sum();
    let seen: Vec<_> =
        fleet.slots.iter().map(|slot| slot.sees().map_or_else(|| "-".into(), |seen| seen.to_string())).collect();
    let seen = seen.join("/");
    // What a full bucket holds passes at once when the load begins, on top of the rate.
    let burst = if *number == 0 { format!(" (+{} burst)", quota.burst_size()) } else { String::new() };
    let seen_width = seen_width(most);
    let (bar, rate) = (bar(total, quota), quota.count());
    writeln!(out, "  {total:>5}  {central:>7}  {bar:<BAR_MOST$}  {seen:<seen_width$}  {rate}/s{burst}")
}

/// `#` for what was admitted, and `|` where the quota is.
fn bar(total: u64, quota: Quota) -> String {
    let columns = (total as f64 / quota.count() as f64 * BAR_QUOTA).round() as usize;
    let column = |index: usize| match index {
        _ if index == BAR_QUOTA as usize => '|',
        _ if index < columns => '#',
        _ => ' ',
    };
    // The mark takes a column of its own.
    let columns = columns + usize::from(columns > BAR_QUOTA as usize);
    (0..BAR_MOST.min(columns.max(BAR_QUOTA as usize + 1))).map(column).collect::<String>().trim_end().to_owned()
}

/// Both tables at the end.
pub(crate) fn summary(out: &mut impl Write, parts: &[Part], fleet: &Fleet, quota: Quota) -> io::Result<()> {
    writeln!(out, "\nSummary, quota {}/s with a burst of {}", quota.count(), quota.burst_size())?;
    writeln!(
        out,
        "  {:<8}{:>9}{:>10}{:>9}{:>8}{:>13}{:>15}{:>15}",
        "phase", "offered", "admitted", "central", "ratio", "above burst", "refused alone", "members after"
    )?;
    let mut all = Tally::default();
    for Part { label, tally, together } in parts {
        all.add(tally);
        let together = together.map_or_else(|| "never".into(), |took| format!("{} ms", took.as_millis()));
        tally_row(out, label, tally, &together)?;
    }
    tally_row(out, "all", &all, "-")?;
    writeln!(
        out,
        "  central:       passed by one bucket that was asked right after each node, for the same requests\n  \
           above burst:   most permits above burst + rate * t, over any span of time t, in bursts\n  \
           refused alone: refused by a node, passed by the central bucket. Above the quota somebody is refused in any\n  \
           {:<15}case, and which of two requests a millisecond apart it is may differ; below it, nobody may be.\n  \
           members after: time until all nodes that run saw each other and nobody else",
        ""
    )?;

    writeln!(
        out,
        "\n  {:<8}{:>9}{:>10}{:>14}{:>14}{:>15}",
        "node", "up", "admitted", "frames sent/s", "bytes sent/s", "bytes a frame"
    )?;
    for slot in &fleet.slots {
        let traffic = slot.traffic();
        let up = traffic.up.as_secs_f64().max(0.001);
        writeln!(
            out,
            "  {:<8}{:>7.1} s{:>10}{:>14.1}{:>14.0}{:>15.0}",
            slot.name,
            up,
            slot.admitted,
            traffic.frames as f64 / up,
            traffic.bytes as f64 / up,
            traffic.bytes as f64 / traffic.frames.max(1) as f64
        )?;
    }
    writeln!(out, "  frames: datagrams, and the few frames of streams; bytes without the headers of IP, UDP and TCP\n")
}

fn tally_row(out: &mut impl Write, label: &str, tally: &Tally, together: &str) -> io::Result<()> {
    let ratio = if tally.central == 0 { "-".into() } else { format!("{:.3}", tally.ratio()) };
    writeln!(
        out,
        "  {:<8}{:>9}{:>10}{:>9}{:>8}{:>13.2}{:>15}{:>15}",
        label, tally.offered, tally.admitted, tally.central, ratio, tally.above, tally.refused_alone, together
    )
}
