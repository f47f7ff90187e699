//! Requests, many at a time.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::LocalSet};

/// Keys, so many that none is asked for all the time.
pub const KEYS: usize = 1_000;

/// Names of keys, as services have them.
pub fn keys() -> Rc<[String]> {
    (0..KEYS).map(|index| format!("user:{index:06}")).collect()
}

/// How long `requests` take with `width` of them on their way at a time. `ask` makes the one of a number.
pub fn run<F>(runtime: &Runtime, requests: usize, width: usize, ask: impl Fn(usize) -> F + Clone + 'static) -> Duration
where
    F: Future<Output = ()> + 'static,
{
    let tasks = LocalSet::new();
    let next = Rc::new(Cell::new(0));
    let begin = Instant::now();
    for _ in 0..width {
        let (next, ask) = (Rc::clone(&next), ask.clone());
        tasks.spawn_local(async move {
            while next.get() < requests {
                let mine = next.replace(next.get() + 1);
                ask(mine).await;
            }
        });
    }
    runtime.block_on(tasks);
    begin.elapsed()
}
