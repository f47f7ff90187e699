//! Redis: a decision beside a script that does nothing, through the same client.

use std::{sync::Arc, time::Duration};

use ::redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo as _, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use peerlimit::{
    Quota, RateLimiter,
    stores::redis::{Redis, SlidingLog, TokenBucket},
};
use tokio::runtime::Runtime;

use crate::{
    load,
    servers::{Server, free_port, is_installed},
    support::{
        options::Options,
        rounds::{Contestant, interleave},
    },
};

/// At least as much of the bare script's throughput should be left.
const BAR: f64 = 0.9;
const WIDTHS: [usize; 3] = [1, 16, 256];
/// More than a key is asked for, and a window of a tenth of a second, so that logs have the length of busy ones.
const QUOTA: Quota = Quota::per_second(100_000).burst(10_000);

/// A server with all that is asked of it.
pub struct Subject {
    pub log: SlidingLog,
    pub bucket: TokenBucket,
    /// Does nothing.
    pub bare: Bare,
    /// Does the least that a decision can do.
    least: Bare,
    pub keys: Arc<[String]>,
    _server: Server,
}

/// What every decision does: it asks for the time, reads, and writes something that expires. One that decides has no way
/// around it.
const LEAST: &str = "redis.call('TIME') redis.call('GET', KEYS[1]) \
    redis.call('SET', KEYS[1], '1234567890123456', 'PX', '100') return 1";

/// A script that decides nothing, called as its client calls scripts.
#[derive(Clone)]
pub struct Bare {
    connection: MultiplexedConnection,
    digest: Arc<str>,
}

impl Bare {
    async fn connect(url: &str, script: &str) -> Self {
        // As the store connects.
        let info = url.into_connection_info().unwrap().set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let config = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(512)
            .set_response_timeout(Some(Duration::from_secs(10)));
        let client = Client::open(info).unwrap();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let digest: String = ::redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await.unwrap();
        Self { connection, digest: digest.into() }
    }

    pub async fn ask(mut self, key: &str) {
        let mut cmd = Cmd::new();
        cmd.arg("EVALSHA").arg(&*self.digest).arg(1_u8).arg(key);
        let one: u64 = cmd.query_async(&mut self.connection).await.unwrap();
        assert_eq!(one, 1);
    }
}

/// Asks for one permit, which is there.
pub async fn pass<R: RateLimiter>(limiter: &R, key: &str) {
    let decision = limiter.decide(key.as_bytes(), 1).await.expect("a decision");
    assert!(decision.allowed);
}

impl Subject {
    /// None where there is no Redis.
    pub fn start(runtime: &Runtime) -> Option<Self> {
        if !is_installed("redis-server") {
            return None;
        }
        let port = free_port();
        let args = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()];
        let server = Server::start("redis-server", args, port);
        let url = format!("redis://{}/", server.addr());
        let timeout = Duration::from_secs(10);
        let redis = Redis::builder(&url).connect_timeout(timeout).response_timeout(timeout).build().unwrap();
        let (log, bucket) = (redis.sliding_log("log", QUOTA), redis.token_bucket("bucket", QUOTA));
        let (bare, least) = runtime.block_on(async {
            pass(&log, "first").await;
            pass(&bucket, "first").await;
            (Bare::connect(&url, "return 1").await, Bare::connect(&url, LEAST).await)
        });
        Some(Self { log, bucket, bare, least, keys: load::keys(), _server: server })
    }

    /// Requests a second, and how much of the bare script's that is.
    pub fn throughput(&self, threads: &str, options: &Options, runtime: &Runtime) {
        for width in WIDTHS {
            let name = format!("redis throughput, {threads}, {width} at a time");
            if !options.wants(&name) {
                continue;
            }
            let requests = options.size(40_000, 4_000) * if width == 1 { 1 } else { 5 };
            let rate = |took: Duration| requests as f64 / took.as_secs_f64();
            let mut contestants: Vec<Contestant<'_, f64>> = vec![
                Box::new(|| rate(self.called(&self.bare, runtime, requests, width))),
                Box::new(|| rate(self.called(&self.least, runtime, requests, width))),
                Box::new(|| rate(self.decided(&self.log, runtime, requests, width))),
                Box::new(|| rate(self.decided(&self.bucket, runtime, requests, width))),
            ];
            let measured = interleave(options.rounds(), &mut contestants);
            let a_second = |index| measured.median(index, |rate| *rate);
            println!("{name}: {:.0}/s of a script that does nothing", a_second(0));
            for (index, what) in [(1, "the least"), (2, "log"), (3, "bucket")] {
                let [of_nothing, of_least] = [0, 1].map(|of| measured.ratio(index, of, |rate| *rate));
                let verdict = if of_nothing >= BAR || index == 1 { "" } else { ", BELOW THE BAR" };
                let (rate, of_nothing, of_least) = (a_second(index), of_nothing * 100.0, of_least * 100.0);
                println!("  {what:9} {rate:>8.0}/s: {of_nothing:.1} % of it{verdict}, {of_least:.1} % of the least");
            }
        }
    }

    fn called(&self, script: &Bare, runtime: &Runtime, requests: usize, width: usize) -> Duration {
        let (script, keys) = (script.clone(), Arc::clone(&self.keys));
        load::run(runtime, requests, width, move |index| {
            let (script, keys) = (script.clone(), Arc::clone(&keys));
            async move { script.ask(&keys[index % load::KEYS]).await }
        })
    }

    fn decided<R: RateLimiter<Deciding: Send> + Clone + Send + Sync + 'static>(
        &self,
        limiter: &R,
        runtime: &Runtime,
        requests: usize,
        width: usize,
    ) -> Duration {
        let (limiter, keys) = (limiter.clone(), Arc::clone(&self.keys));
        load::run(runtime, requests, width, move |index| {
            let (limiter, keys) = (limiter.clone(), Arc::clone(&keys));
            async move { pass(&limiter, &keys[index % load::KEYS]).await }
        })
    }
}
