//! How often a decision allocates, the client's work included: all of it is on this thread.

use allocation_counter::measure;
use tokio::runtime::Runtime;

use crate::{
    redis::{Subject, pass},
    support::options::Options,
};

const REQUESTS: u32 = 1_000;

pub fn run(options: &Options, runtime: &Runtime, redis: &Subject) {
    if !options.wants("allocations") {
        return;
    }
    let each = |ask: &dyn Fn()| {
        // What grows once has grown.
        ask();
        let counted = measure(|| (0..REQUESTS).for_each(|_| ask()));
        (counted.count_total as f64 / f64::from(REQUESTS), counted.bytes_total as f64 / f64::from(REQUESTS))
    };
    let rows = [
        ("bare EVALSHA", each(&|| runtime.block_on(redis.bare.clone().ask("user:123")))),
        ("Redis log", each(&|| runtime.block_on(pass(&redis.log, "user:123")))),
        ("Redis bucket", each(&|| runtime.block_on(pass(&redis.bucket, "user:123")))),
    ];
    println!("allocations of a decision:");
    for (name, (count, bytes)) in rows {
        println!("  {name:14} {count:.1}, {bytes:.0} bytes");
    }
}
