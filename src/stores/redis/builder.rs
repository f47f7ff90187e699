//! Settings of a connection.

use std::{sync::Arc, time::Duration};

use ::redis::{Client, IntoConnectionInfo as _, cluster::ClusterClient, io::tcp::TcpSettings};

use super::{
    BuildError, Redis,
    keys::check_prefix,
    link::{Link, Settings},
    servers::Servers,
};

const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_secs(60);

/// Builds a [`Redis`]. Made by [`Redis::builder`] and [`Redis::cluster`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    urls: Urls,
    prefix: String,
    settings: Settings,
}

#[derive(Clone)]
enum Urls {
    Single(Vec<String>),
    Cluster(Vec<String>),
}

impl std::fmt::Debug for Urls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // They may have passwords.
        match self {
            Self::Single(urls) => write!(f, "Single({})", urls.len()),
            Self::Cluster(urls) => write!(f, "Cluster({})", urls.len()),
        }
    }
}

impl Builder {
    pub(super) fn single(url: String) -> Self {
        Self::new(Urls::Single(vec![url]))
    }

    pub(super) fn cluster(urls: Vec<String>) -> Self {
        Self::new(Urls::Cluster(urls))
    }

    fn new(urls: Urls) -> Self {
        Self { urls, prefix: "peerlimit".into(), settings: Settings::default() }
    }

    /// Another server with the same data, a replica: the servers are tried in turn when the one in use is gone, or says that
    /// it is read-only. For a cluster: another server to ask for it. Default: none.
    pub fn or(mut self, url: impl Into<String>) -> Self {
        match &mut self.urls {
            Urls::Single(urls) | Urls::Cluster(urls) => urls.push(url.into()),
        }
        self
    }

    /// What the names of all keys begin with: 1 to 64 characters of graphic ASCII without braces. Limiters of one prefix, kind
    /// and name share their counts, wherever they run. Default: `peerlimit`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Longest time of one attempt to connect, from 1 ms to 60 s; a cluster, of which several servers are asked, has four times
    /// as long. More helps where servers are far away; with less a dead one is given up sooner. Default: 50 ms.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Longest time that a decision takes, from 1 ms to 60 s, whatever it waits for: a connection, the answer, another attempt.
    /// After it comes [`RedisError::Timeout`](super::RedisError::Timeout). More gives a slow server a chance, and lets requests
    /// wait for a dead one. Default: 50 ms.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self
    }

    /// Longest pause between two attempts to connect, from 1 ms to 60 s. Pauses begin at 10 ms, double with each failure up to
    /// this, and are shortened at random by up to a half. A server that is back is used again at most this much later.
    /// Default: 1 s.
    pub fn reconnect_pause(mut self, longest: Duration) -> Self {
        self.settings.reconnect_pause = longest;
        self
    }

    /// Whether decisions that are asked for at the same time share a call, which costs server and client half as much. Default:
    /// true. Not for a proxy that looks only at the first key of a call and spreads keys over several servers by that, as Envoy
    /// and twemproxy do: it would send the others to a server that does not have them. A proxy that refuses such calls is
    /// asked for each key alone, and a cluster never gets any.
    pub fn shared_calls(mut self, shared: bool) -> Self {
        self.settings.shared_calls = shared;
        self
    }

    /// The connection. It is made when it is first needed, so that a service starts while its Redis is away; see
    /// [`Redis::ping`].
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the setting, its value and its bound.
    pub fn build(self) -> Result<Redis, BuildError> {
        check_prefix(&self.prefix)?;
        for (field, value) in [
            ("connect_timeout", self.settings.connect_timeout),
            ("response_timeout", self.settings.response_timeout),
            ("reconnect_pause", self.settings.reconnect_pause),
        ] {
            if !(LEAST..=MOST).contains(&value) {
                return Err(BuildError::Duration { field, value, least: LEAST, most: MOST });
            }
        }
        let link = Link::new(servers(&self.urls, &self.settings)?, self.settings);
        Ok(Redis { link: Arc::new(link), prefix: self.prefix.into() })
    }
}

fn servers(urls: &Urls, settings: &Settings) -> Result<Servers, BuildError> {
    // A request is small and waited for.
    let tcp = || TcpSettings::default().set_nodelay(true);
    let infos = match urls {
        Urls::Single(urls) | Urls::Cluster(urls) => urls.iter().enumerate().map(|(index, url)| {
            let failed = |reason: String| BuildError::Url { index, reason };
            let info = url.as_str().into_connection_info().map_err(|error| failed(error.to_string()))?;
            if !info.addr().is_supported() {
                return Err(failed("neither TLS nor this kind of address is supported".into()));
            }
            Ok(info.set_tcp_settings(tcp()))
        }),
    };
    let infos = infos.collect::<Result<Vec<_>, _>>()?;
    match urls {
        Urls::Single(_) => {
            let client = |(index, info)| {
                Client::open(info).map_err(|error| BuildError::Url { index, reason: error.to_string() })
            };
            infos.into_iter().enumerate().map(client).collect::<Result<_, _>>().map(Servers::Single)
        }
        Urls::Cluster(_) => ClusterClient::builder(infos)
            .connection_timeout(settings.connect_timeout)
            // One answer is waited for twice as long as the decision, so that its own timeout is what ends it.
            .response_timeout(settings.response_timeout * 2)
            .overall_response_timeout(None)
            .tcp_settings(tcp())
            .build()
            .map(|client| Servers::Cluster(Box::new(client)))
            .map_err(|error| BuildError::Cluster { reason: error.to_string() }),
    }
}
