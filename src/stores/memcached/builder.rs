//! Settings, checked before anything starts.

use std::{net::SocketAddr, time::Duration};

use tokio::runtime::Handle;

use crate::{
    bucket::Quota,
    names::permanent,
    net::{Clock, wall_millis},
    stores::key,
};

use super::{
    client::Client,
    command::Expiry,
    error::BuildError,
    pipeline::Limits,
    rule::Rule,
    window::{FixedWindow, Shared},
};

/// Settings of a [`FixedWindow`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    name: String,
    quota: Quota,
    prefix: String,
    servers: Vec<String>,
    timeout: Duration,
    connect_timeout: Duration,
    max_waiting: usize,
}

impl Builder {
    /// Longest prefix, and longest name. With both and a key of the longest form, less than the 250 bytes of a key.
    const MAX_TEXT: usize = 64;
    const MAX_SERVERS: usize = 64;
    const TIMES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(60));
    const WAITING: (usize, usize) = (1, 1 << 20);

    pub(super) fn new(name: String, quota: Quota) -> Self {
        Self {
            name,
            quota,
            prefix: "peerlimit".to_owned(),
            servers: Vec::new(),
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_millis(80),
            max_waiting: 16 * 1024,
        }
    }

    /// Adds a server, `host:port`. A name is looked up anew for each connection.
    ///
    /// Where several are given, each key lives on one of them, the same for all who are given the same texts, in any
    /// order. While that one is down, its keys have no decisions: another one would begin their windows anew. Up to 64.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// What each key on the servers begins with, before the name. Default `peerlimit`; 1 to 64 graphic ASCII characters
    /// without braces.
    ///
    /// Services that share servers and are not to share limits need one each.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a decision may take, whatever servers do. Default 50 ms, from 1 ms to 60 s.
    ///
    /// Less makes callers wait less for a server that hangs; more bears longer pauses. It is too short where
    /// [`MemcachedError::Timeout`](super::MemcachedError::Timeout) is seen of servers that are well. A server that has
    /// not answered for three times as long is connected to anew.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long making a connection may take, its name's look-up included. Default 80 ms, from 1 ms to 60 s.
    ///
    /// Callers wait for it at most as long as for any [decision](Self::timeout). It is too short where
    /// [`MemcachedError::Unreachable`](super::MemcachedError::Unreachable) says that it timed out, and servers are
    /// well.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How many decisions of one server may be waited for at once. Default 16,384, from 1 to 1,048,576.
    ///
    /// Each takes some 300 bytes while it waits. What comes on top is told that it is
    /// [busy](super::MemcachedError::Busy): more than it, or the servers, can do.
    pub fn max_waiting(mut self, most: usize) -> Self {
        self.max_waiting = most;
        self
    }

    /// The limiter. Spawns one task for each server, which connects when it is needed: a server that is down now does
    /// no harm.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the setting, its value and the bound, or [`BuildError::NoRuntime`].
    pub fn build(self) -> Result<FixedWindow, BuildError> {
        let rule = checked_rule(&self.name, self.quota)?;
        check_text("prefix", &self.prefix, |_| true)?;
        let count = self.servers.len();
        if !(1..=Self::MAX_SERVERS).contains(&count) {
            return Err(BuildError::Servers { count, most: Self::MAX_SERVERS });
        }
        self.servers.iter().try_for_each(|server| check_server(server))?;
        check_time("timeout", self.timeout)?;
        check_time("connect_timeout", self.connect_timeout)?;
        let (least, most) = Self::WAITING;
        if !(least..=most).contains(&self.max_waiting) {
            return Err(BuildError::Number { field: "max_waiting", value: self.max_waiting, least, most });
        }
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let clock = Clock::system();
        let start = |server: &String| {
            let limits = Limits { server: server.as_str().into(), timeout: self.timeout, most: self.max_waiting };
            Client::start(limits, self.connect_timeout, &clock, &runtime)
        };
        Ok(FixedWindow::new(Shared {
            clients: self.servers.iter().map(start).collect(),
            rule,
            prefix: self.prefix.into(),
        }))
    }
}

/// The rule of that name and quota, if there can be one.
pub(super) fn checked_rule(name: &str, quota: Quota) -> Result<Rule, BuildError> {
    check_quota(&quota, wall_millis() / 1_000)?;
    check_text("name", name, |byte| byte != b':')?;
    Ok(Rule { name: permanent(name), quota })
}

fn check_quota(quota: &Quota, wall_seconds: u64) -> Result<(), BuildError> {
    let (burst, count, period) = (quota.burst_size(), quota.count(), quota.period());
    if burst != count {
        return Err(BuildError::Burst { burst, count });
    }
    let most = Expiry::most_seconds(wall_seconds);
    if period.subsec_nanos() != 0 || !(1..=most).contains(&period.as_secs()) {
        return Err(BuildError::Period { period, most: Duration::from_secs(most) });
    }
    Ok(())
}

fn check_text(field: &'static str, value: &str, also: impl Fn(u8) -> bool) -> Result<(), BuildError> {
    let fits = (1..=Builder::MAX_TEXT).contains(&value.len());
    if fits && value.bytes().all(|byte| key::is_plain(byte) && also(byte)) {
        return Ok(());
    }
    Err(BuildError::Text { field, value: value.to_owned(), most: Builder::MAX_TEXT })
}

fn check_server(server: &str) -> Result<(), BuildError> {
    let fits = server.rsplit_once(':').is_some_and(|(host, port)| {
        let named = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic()) && !host.contains([':', '[']);
        (named || server.parse::<SocketAddr>().is_ok()) && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if fits { Ok(()) } else { Err(BuildError::Server { value: server.to_owned() }) }
}

fn check_time(field: &'static str, value: Duration) -> Result<(), BuildError> {
    let (least, most) = Builder::TIMES;
    if (least..=most).contains(&value) { Ok(()) } else { Err(BuildError::Duration { field, value, least, most }) }
}

#[cfg(test)]
mod tests;
