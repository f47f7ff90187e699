//! Servers of Redis, and a look into them that bypasses the library.

use std::time::Duration;

use ::redis::{FromRedisValue, aio::MultiplexedConnection};
use peerlimit::stores::redis::{Builder, Redis};

use crate::servers::{Server, free_port, is_installed};

/// A server that keeps nothing on disk. None where there is no Redis to test with.
pub fn start() -> Option<Server> {
    start_with(&[])
}

/// As [`start`], with more arguments.
pub fn start_with(more: &[&str]) -> Option<Server> {
    if !is_installed("redis-server") {
        return None;
    }
    let port = free_port();
    let mut args: Vec<String> = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"].map(String::from).to_vec();
    args.extend(["--port".into(), port.to_string()]);
    args.extend(more.iter().map(ToString::to_string));
    Some(Server::start("redis-server", args, port))
}

pub fn url(server: &Server) -> String {
    format!("redis://{}/", server.addr())
}

pub fn builder(server: &Server) -> Builder {
    Redis::builder(url(server))
}

/// A connection that waits as long as a busy host may need.
pub fn patient(server: &Server) -> Redis {
    patiently(builder(server)).build().unwrap()
}

pub fn patiently(builder: Builder) -> Builder {
    builder.connect_timeout(Duration::from_secs(10)).response_timeout(Duration::from_secs(20))
}

/// A client of the test's own.
pub struct Raw(MultiplexedConnection);

impl Raw {
    pub async fn of(server: &Server) -> Self {
        let client = ::redis::Client::open(url(server)).unwrap();
        let config = ::redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        Self(client.get_multiplexed_async_connection_with_config(&config).await.unwrap())
    }

    /// The answer to a command given as words.
    pub async fn ask<T: FromRedisValue>(&mut self, words: &str) -> T {
        let mut words = words.split_whitespace();
        let mut cmd = ::redis::cmd(words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        cmd.query_async(&mut self.0).await.unwrap()
    }

    /// Sets a key to bytes.
    pub async fn set(&mut self, key: &str, value: &[u8], how: &str) {
        let _set: String = ::redis::cmd("SET").arg(key).arg(value).arg(how).query_async(&mut self.0).await.unwrap();
    }

    /// How often a command was called since `CONFIG RESETSTAT`.
    pub async fn calls(&mut self, command: &str) -> u64 {
        let stats: String = self.ask("INFO commandstats").await;
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    pub fn connection(&mut self) -> &mut MultiplexedConnection {
        &mut self.0
    }

    /// All keys with the milliseconds until they expire: -1 where they never do.
    pub async fn expiries(&mut self) -> Vec<(String, i64)> {
        let mut expiries = Vec::new();
        for key in self.ask::<Vec<String>>("KEYS *").await {
            let left: i64 = ::redis::cmd("PTTL").arg(&key).query_async(&mut self.0).await.unwrap();
            // -2: it has expired since.
            if left != -2 {
                expiries.push((key, left));
            }
        }
        expiries
    }
}
