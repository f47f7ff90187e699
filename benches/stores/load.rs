//! Requests, many at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinSet};

/// Keys, so many that none is asked for all the time.
pub const KEYS: usize = 1_000;

/// Names of keys, as services have them.
pub fn keys() -> Arc<[String]> {
    (0..KEYS).map(|index| format!("user:{index:06}")).collect()
}

/// How long `requests` take with `width` of them on their way at a time. `ask` makes the one of a number.
pub fn run<F>(
    runtime: &Runtime,
    requests: usize,
    width: usize,
    ask: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..width {
            let (next, ask) = (Arc::clone(&next), ask.clone());
            tasks.spawn(async move {
                loop {
                    let mine = next.fetch_add(1, Relaxed);
                    if mine >= requests {
                        break;
                    }
                    ask(mine).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
    begin.elapsed()
}
