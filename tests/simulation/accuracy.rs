//! How close the cluster stays to one central bucket.

use std::time::Duration;

use peerlimit::Quota;

use crate::sim::{
    network::Link,
    play,
    scenario::{Load, Scenario, Spread},
};

macro_rules! exp {
    ($name:ident, $s:expr) => {
        #[test]
        fn $name() {
            let mut s: Scenario = $s;
            s.check = |o| {
                let t = o.tally();
                let secs = 20.0;
                println!(
                    "{} {} ratio {:.4} excess {:.3} wrong {} dg {:.0} by {:.0}",
                    stringify!($name),
                    o.seed,
                    t.ratio(),
                    t.excess,
                    t.refused_wrongly as f64 / t.offered as f64,
                    o.cluster.traffic.datagrams as f64 / secs / o.cluster.size() as f64,
                    o.cluster.traffic.bytes as f64 / secs / o.cluster.size() as f64
                );
            };
            play(&s);
        }
    };
}

fn flash(nodes: usize, per_node: f64) -> Scenario {
    Scenario::new("flash", nodes, 20).load(Load::even("key", per_node * nodes as f64, 5, 20))
}
fn with(s: Scenario, link: Link) -> Scenario {
    Scenario { link, ..s }
}

exp!(x_3x300, flash(3, 300.0));
exp!(x_10x100, flash(10, 100.0));
exp!(x_10x1000, flash(10, 1000.0));
exp!(x_50x20, flash(50, 20.0));
exp!(x_10x3000_big, Scenario { quota: Quota::per_second(10_000).burst(1000), ..flash(10, 3000.0) });
exp!(x_3x300_loss, with(flash(3, 300.0), Link::LAN.with_loss(0.1)));
exp!(x_10x100_loss, with(flash(10, 100.0), Link::LAN.with_loss(0.1)));
exp!(x_50x20_loss, with(flash(50, 20.0), Link::LAN.with_loss(0.1)));
exp!(x_10x100_20ms, with(flash(10, 100.0), Link::LAN.with_delay(Duration::from_millis(20))));
exp!(x_10x1000_20ms, with(flash(10, 1000.0), Link::LAN.with_delay(Duration::from_millis(20))));
exp!(x_one_busy, Scenario::new("", 10, 20).load(Load::even("key", 1000.0, 5, 20).spread(Spread::Node(3))));
exp!(
    x_moving,
    Scenario::new("", 10, 20).load(Load::even("key", 1000.0, 5, 20).spread(Spread::Moving(Duration::from_secs(1))))
);
exp!(x_90, flash(10, 9.0));
