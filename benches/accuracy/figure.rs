//! The figure: a flash over time, and how far each scenario goes above the envelope.

use crate::{
    contest::{Contest, Curve},
    sim::scenario::Scenario,
    svg::{Anchor, Svg},
    table::{RULES, Rows},
};

/// The scenario that is drawn over time.
const FLASH: &str = "ten_nodes_10x_over";

/// Classes of the rules, in the order of [`RULES`].
const CLASSES: [&str; 3] = ["library", "peer", "alone"];

const WIDTH: f64 = 800.0;
const STYLE: &str = "\
text { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 }
.title { font-size: 20px; font-weight: 600 }
.head { font-size: 15px; font-weight: 600 }
.small, .soft { font-size: 12px }
.value { font-size: 11px }
.soft { fill: #59636e }
.back { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
.line { fill: none; stroke-width: 3; stroke-linejoin: round }
.band { opacity: 0.2 }
.central.line { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 5 4 }
.library { fill: #0969da } .library.line { fill: none; stroke: #0969da; stroke-width: 5 }
.peer { fill: #bc4c00 } .peer.line { fill: none; stroke: #bc4c00 }
.alone { fill: #8250df } .alone.line { fill: none; stroke: #8250df }
.bold { font-weight: 600 }
.far { opacity: 0.45 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.soft { fill: #9198a1 }
.back { fill: #0d1117 }
.grid { stroke: #3d444d }
.axis { stroke: #9198a1 }
.central.line { stroke: #f0f6fc }
.library { fill: #4493f8 } .library.line { stroke: #4493f8 }
.peer { fill: #f0883e } .peer.line { stroke: #f0883e }
.alone { fill: #ab7df8 } .alone.line { stroke: #ab7df8 }
}
";

/// Draws what came of `played`: by scenario, and then by seed.
pub fn draw(scenarios: &[Scenario], played: &[Vec<Contest>], rows: &[Rows]) -> String {
    let flash = scenarios.iter().position(|scenario| scenario.name == FLASH).expect("the catalogue has the flash");
    let seeds = played[flash].len();
    let [library, peer, alone] = rows[flash].rules.each_ref().map(|row| short(row.above));
    let bars = Bars::new(rows, 440.0);

    let title = "On a LAN this library admits what one central bucket would";
    let found = format!(
        "Ten nodes, one key at ten times its quota: {library} bursts too much, not {peer} (one random peer) or {alone} (alone)."
    );
    let height = bars.bottom() + 70.0;
    let mut svg = Svg::new(WIDTH, height, title, STYLE);
    svg.rect((0.0, 0.0), WIDTH, height, "back");
    svg.text((20.0, 34.0), "title", Anchor::Start, title);
    svg.text((20.0, 58.0), "", Anchor::Start, found);
    over_time(&mut svg, &scenarios[flash], &played[flash]);
    bars.draw(&mut svg, seeds);
    svg.finish()
}

/// A frame, and the numbers along its sides.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    most_x: f64,
    most_y: f64,
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = (self.right - self.left) / self.most_x;
        let down = (self.bottom - self.top) / self.most_y;
        (self.left + x * across, self.bottom - y * down)
    }
}

/// Permits admitted since the flash began, under each rule.
fn over_time(svg: &mut Svg, scenario: &Scenario, contests: &[Contest]) {
    let quota = scenario.quota;
    let rate = quota.count() as f64 / quota.period().as_secs_f64();
    let burst = quota.burst_size() as f64;
    let span = Curve::SPAN.as_secs_f64();
    let most_y = 12.0 * burst;
    let frame = Frame { left: 70.0, right: 780.0, top: 110.0, bottom: 350.0, most_x: span, most_y };

    svg.text((20.0, 94.0), "head", Anchor::Start, "Permits admitted since the flash began");
    for step in 0..=6 {
        let permits = f64::from(step) * most_y / 6.0;
        let (x, y) = frame.at(0.0, permits);
        svg.line((x, y), (frame.right, y), "grid");
        svg.text((x - 8.0, y + 4.0), "soft", Anchor::End, permits);
        let seconds = f64::from(step) * span / 6.0;
        let (x, y) = frame.at(seconds, 0.0);
        svg.text((x, y + 18.0), "soft", Anchor::Middle, format_args!("{seconds} s"));
    }
    for (rule, class) in RULES.iter().zip(CLASSES).rev() {
        let curves = contests.iter().map(|contest| (rule.played)(contest).curve.cumulated());
        let curves = Curves::of(curves);
        svg.polygon(curves.band(&frame), &format!("{class} band"));
        svg.polyline(curves.mean(&frame), &format!("{class} line"));
    }
    let central = Curves::of(contests.iter().map(|contest| contest.central.cumulated()));
    svg.polyline(central.mean(&frame), "central line");
    let (x, y) = frame.at(0.0, 0.0);
    svg.line((x, y), (frame.right, y), "axis");

    let alone = Curves::of(contests.iter().map(|contest| contest.alone.curve.cumulated()));
    let mut label = |seconds: f64, bursts: f64, class: &str, text: &str| {
        svg.text(frame.at(seconds, bursts * burst), class, Anchor::Start, text);
    };
    label(0.66, 11.1, "alone bold", &format!("every node alone: {:.0} after {span} s", alone.last()));
    label(0.42, 6.0, "peer bold", "one random peer, every 200 ms");
    label(0.42, 4.3, "soft", "then nothing until it is paid back");
    label(2.05, 3.7, "library bold", "this library");
    label(2.05, 2.9, "", "dashed: one central bucket");
    label(2.05, 2.1, "soft", &format!("at most {burst} + {rate} × t"));
    let (x, y) = frame.at(0.0, 0.0);
    let note = format!(
        "{} nodes, {rate} permits/s, burst {burst}; {} requests/s; 1 ms one way. Lines: mean of {} seeds; bands: all.",
        scenario.nodes,
        scenario.load.iter().map(|load| load.rate).sum::<f64>(),
        contests.len()
    );
    svg.text((x, y + 38.0), "soft", Anchor::Start, note);
}

/// Curves of all seeds, cut off where they leave the frame.
struct Curves {
    /// Least, mean and most, at the end of each step.
    steps: Vec<(f64, f64, f64)>,
}

impl Curves {
    fn of(seeds: impl Iterator<Item = Vec<u64>>) -> Self {
        let seeds: Vec<Vec<u64>> = seeds.collect();
        let steps = seeds.first().map_or(0, Vec::len);
        let step = |step: usize| {
            let at = seeds.iter().map(|seed| seed[step]);
            let sum: u64 = at.clone().sum();
            let least = at.clone().min().unwrap_or_default() as f64;
            (least, sum as f64 / seeds.len() as f64, at.max().unwrap_or_default() as f64)
        };
        // Nothing was admitted before the first request.
        Self { steps: std::iter::once((0.0, 0.0, 0.0)).chain((0..steps).map(step)).collect() }
    }

    fn last(&self) -> f64 {
        self.steps.last().map_or(0.0, |(_, mean, _)| *mean)
    }

    fn mean(&self, frame: &Frame) -> Vec<(f64, f64)> {
        let inside = self.steps.iter().filter(|step| step.1 <= frame.most_y).count();
        let drawn = self.steps.iter().enumerate().take(inside + 1);
        drawn.map(|(index, step)| frame.at(time(index), step.1.min(frame.most_y))).collect()
    }

    fn band(&self, frame: &Frame) -> Vec<(f64, f64)> {
        let inside = self.steps.iter().filter(|step| step.0 <= frame.most_y).count();
        let drawn = &self.steps[..self.steps.len().min(inside + 1)];
        let at = |index: usize, permits: f64| frame.at(time(index), permits.min(frame.most_y));
        let below = drawn.iter().enumerate().map(|(index, step)| at(index, step.0));
        let above = drawn.iter().enumerate().rev().map(|(index, step)| at(index, step.2));
        below.chain(above).collect()
    }
}

fn time(step: usize) -> f64 {
    step as f64 * Curve::STEP.as_secs_f64()
}

/// Bursts above the envelope, a group of bars a scenario.
struct Bars<'a> {
    rows: &'a [Rows],
    top: f64,
    /// Bursts at the right edge. Only nodes that are alone go further.
    most: f64,
}

impl<'a> Bars<'a> {
    const LEFT: f64 = 255.0;
    const RIGHT: f64 = 735.0;
    const BAR: f64 = 10.0;
    const GROUP: f64 = 38.0;

    fn new(rows: &'a [Rows], top: f64) -> Self {
        let most = rows.iter().map(|rows| rows.rules[0].above.max(rows.rules[1].above)).fold(1.0, f64::max);
        Self { rows, top, most: (most / 2.0).ceil() * 2.0 }
    }

    fn bottom(&self) -> f64 {
        self.top + 64.0 + self.rows.len() as f64 * Self::GROUP
    }

    fn draw(&self, svg: &mut Svg, seeds: usize) {
        svg.text((20.0, self.top), "head", Anchor::Start, "Burst above the envelope, in units of the burst");
        let mut x = 20.0;
        for (rule, class) in RULES.iter().zip(CLASSES) {
            svg.rect((x, self.top + 15.0), 12.0, 12.0, class);
            svg.text((x + 18.0, self.top + 26.0), "", Anchor::Start, rule.name);
            x += 160.0;
        }
        let top = self.top + 48.0;
        let bottom = self.bottom();
        let scale = (Self::RIGHT - Self::LEFT) / self.most;
        for bursts in (0..=self.most as u32).step_by(2) {
            let x = Self::LEFT + f64::from(bursts) * scale;
            svg.line((x, top), (x, bottom), "grid");
            svg.text((x, bottom + 18.0), "soft", Anchor::Middle, bursts);
        }
        svg.text((Self::RIGHT + 14.0, bottom + 18.0), "soft", Anchor::Start, "bursts");
        for (index, rows) in self.rows.iter().enumerate() {
            let top = top + 8.0 + index as f64 * Self::GROUP;
            let name = rows.scenario.replace('_', " ");
            svg.text((Self::LEFT - 10.0, top + 1.5 * Self::BAR + 4.0), "small", Anchor::End, name);
            for (place, (row, class)) in rows.rules.iter().zip(CLASSES).enumerate() {
                let y = top + place as f64 * Self::BAR;
                let length = row.above.min(self.most) * scale;
                let (far, label) = match short(row.above) {
                    bursts if row.above > self.most => (" far", format!("▸ {bursts}")),
                    bursts => ("", bursts),
                };
                svg.rect((Self::LEFT, y + 0.5), length, Self::BAR - 1.0, &format!("{class}{far}"));
                svg.text((Self::LEFT + length + 5.0, y + Self::BAR - 1.0), "value", Anchor::Start, label);
            }
        }
        svg.line((Self::LEFT, top), (Self::LEFT, bottom), "axis");
        let note = format!(
            "Most permits above burst + rate × t, over any span of time, over the burst; worst of {seeds} seeds. ▸ leaves the frame."
        );
        svg.text((20.0, bottom + 40.0), "soft", Anchor::Start, note);
        let note = "With loss: 10 % of datagrams. At 20 ms: one way; else 1 ms. A wide quota: 10,000/s, burst 1,000.";
        svg.text((20.0, bottom + 57.0), "soft", Anchor::Start, note);
    }
}

/// Two digits that count.
fn short(bursts: f64) -> String {
    match bursts {
        ..0.005 => "0".to_owned(),
        ..1.0 => format!("{bursts:.2}"),
        ..20.0 => format!("{bursts:.1}"),
        _ => format!("{bursts:.0}"),
    }
}
