//! Redis: a decision beside a script that does nothing, through the same client.

use std::{rc::Rc, time::Duration};

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
    pub bare: Bare,
    pub keys: Rc<[String]>,
    _server: Server,
}

/// A script that does nothing, called as its client calls scripts.
#[derive(Clone)]
pub struct Bare {
    connection: MultiplexedConnection,
    digest: Rc<str>,
}

impl Bare {
    async fn connect(url: &str) -> Self {
        // As the store connects.
        let info = url.into_connection_info().unwrap().set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let config = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(512)
            .set_response_timeout(Some(Duration::from_secs(10)));
        let client = Client::open(info).unwrap();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let digest: String =
            ::redis::cmd("SCRIPT").arg("LOAD").arg("return 1").query_async(&mut connection).await.unwrap();
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
        let bare = runtime.block_on(async {
            pass(&log, "first").await;
            pass(&bucket, "first").await;
            Bare::connect(&url).await
        });
        Some(Self { log, bucket, bare, keys: load::keys(), _server: server })
    }

    /// Requests a second, and how much of the bare script's that is.
    pub fn throughput(&self, options: &Options, runtime: &Runtime) {
        for width in WIDTHS {
            let name = format!("redis throughput {width}");
            if !options.wants(&name) {
                continue;
            }
            let requests = options.size(40_000, 4_000) * if width == 1 { 1 } else { 3 };
            let rate = |took: Duration| requests as f64 / took.as_secs_f64();
            let mut contestants: Vec<Contestant<'_, f64>> = vec![
                Box::new(|| {
                    let (bare, keys) = (self.bare.clone(), Rc::clone(&self.keys));
                    rate(load::run(runtime, requests, width, move |index| {
                        let (bare, keys) = (bare.clone(), Rc::clone(&keys));
                        async move { bare.ask(&keys[index % load::KEYS]).await }
                    }))
                }),
                Box::new(|| rate(self.decided(&self.log, runtime, requests, width))),
                Box::new(|| rate(self.decided(&self.bucket, runtime, requests, width))),
            ];
            let measured = interleave(options.rounds(), &mut contestants);
            println!("{name}: {:.0}/s bare", measured.median(0, |rate| *rate));
            for (index, limiter) in [(1, "log"), (2, "bucket")] {
                let (rate, ratio) = (measured.median(index, |rate| *rate), measured.ratio(index, 0, |rate| *rate));
                let verdict = if ratio >= BAR { "ok" } else { "BELOW THE BAR" };
                println!("  {limiter:8} {rate:>8.0}/s, {:.1} % of bare: {verdict}", ratio * 100.0);
            }
        }
    }

    fn decided<R: RateLimiter + Clone + 'static>(
        &self,
        limiter: &R,
        runtime: &Runtime,
        requests: usize,
        width: usize,
    ) -> Duration {
        let (limiter, keys) = (limiter.clone(), Rc::clone(&self.keys));
        load::run(runtime, requests, width, move |index| {
            let (limiter, keys) = (limiter.clone(), Rc::clone(&keys));
            async move { pass(&limiter, &keys[index % load::KEYS]).await }
        })
    }
}
