//! Settings from files and the environment.
//!
//! Needs the feature `config`.

mod error;
mod sources;
mod text;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::{
    bucket::Quota,
    discovery::{DnsDiscoverer, StaticDiscoverer},
    gossip::{PartitionPolicy, Sealing, Secrets},
    limiter::{Builder, Limiter, Preset},
};

pub use error::ConfigError;

/// Everything that a [`Builder`] takes, and the quotas of scopes, as it stands in a file or in variables of the
/// environment.
///
/// Each field is called as the builder's method, and what is missing has its default. A field that is not known is an
/// error, so that a misspelt one is noticed. Times are text with units, as `200ms` or `1h 30m`; quotas are text too, as
/// `100/s burst 50` (see [`Quota`]'s `FromStr`).
///
/// ```
/// use peerlimit::config::Config;
///
/// let config = Config::from_toml(
///     r#"
///     quota = "100/s burst 50"
///     bind = "0.0.0.0:7946"
///     dns = "peerlimit.default.svc.cluster.local:7946"
///     sync_interval = "100ms"
///
///     [scopes]
///     login = "5/m"
///     "#,
/// )?;
/// assert_eq!(config.scopes["login"].count(), 5);
/// config.into_builder()?.validate()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The same by the environment, with the prefix `PEERLIMIT`: `PEERLIMIT_QUOTA="100/s burst 50"`,
/// `PEERLIMIT_SCOPES__LOGIN=5/m`. What is within something else stands behind two underscores, a list of peers between
/// commas; names of scopes are lower case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The quota of the default scope. The only field that has to be there.
    #[serde(deserialize_with = "text::parsed")]
    pub quota: Quota,
    /// Further scopes and their quotas.
    #[serde(default, deserialize_with = "text::parsed_values")]
    pub scopes: BTreeMap<String, Quota>,
    /// As [`Builder::preset`]; the fields below count more.
    pub preset: Option<Preset>,
    /// As [`Builder::node`].
    pub node: Option<String>,
    /// As [`Builder::cluster`].
    pub cluster: Option<String>,
    /// As [`Builder::bind`].
    pub bind: Option<SocketAddr>,
    /// As [`Builder::advertise`].
    pub advertise: Option<SocketAddr>,
    /// Peers for a [`StaticDiscoverer`]: `host:port` each.
    #[serde(default, deserialize_with = "text::list")]
    pub peers: Vec<String>,
    /// `name:port` for a [`DnsDiscoverer`], all addresses of which are peers.
    #[serde(default, deserialize_with = "text::optional_name_and_port")]
    pub dns: Option<(String, u16)>,
    /// The name of SRV records for a [`DnsDiscoverer`], in full.
    pub srv: Option<String>,
    /// As [`Builder::discover_interval`].
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub discover_interval: Option<Duration>,
    /// As [`Builder::sync_interval`].
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub sync_interval: Option<Duration>,
    /// As [`Builder::push_gap`].
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub push_gap: Option<Duration>,
    /// As [`Builder::datagram_budget`].
    pub datagram_budget: Option<usize>,
    /// As [`Builder::anti_entropy_interval`].
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub anti_entropy_interval: Option<Duration>,
    /// As [`Builder::probe_interval`].
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub probe_interval: Option<Duration>,
    /// As [`Builder::suspicion_timeout`].
    #[serde(default, deserialize_with = "text::optional_duration")]
    pub suspicion_timeout: Option<Duration>,
    /// As [`Builder::on_partition`]: `available` or `conservative`.
    pub on_partition: Option<PartitionPolicy>,
    /// As [`Builder::evict_idle`].
    pub evict_idle: Option<EvictIdle>,
    /// As [`Builder::max_keys`].
    pub max_keys: Option<usize>,
    /// As [`Builder::secret`].
    pub secret: Option<SecretFile>,
    /// A file whose bytes are what [`Builder::digest_secret`] takes; white space at its end is left out.
    pub digest_secret_file: Option<PathBuf>,
}

/// When idle keys go, as [`Builder::evict_idle`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvictIdle {
    /// How long a key has to be idle.
    #[serde(deserialize_with = "text::parsed_duration")]
    pub key_ttl: Duration,
    /// How often idle keys are looked for.
    #[serde(deserialize_with = "text::parsed_duration")]
    pub sweep_interval: Duration,
}

/// Where the secrets of a cluster are. They are never in the settings themselves, which are shown and copied about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SecretFile {
    /// A file for [`Secrets::from_file`].
    pub file: PathBuf,
    /// How much is sealed: `prepared`, `preferred`, or `required`, the default.
    #[serde(default)]
    pub sealing: Sealing,
}

impl Config {
    /// A builder with these settings. Reads the files of secrets.
    ///
    /// The scopes are not in it; [`start`](Self::start) makes them too.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the field, if a value is outside its bounds or a file of secrets is not good.
    pub fn into_builder(self) -> Result<Builder, ConfigError> {
        let mut builder = Limiter::builder(self.quota);
        builder = set(builder, self.preset, Builder::preset);
        builder = set(builder, self.node, Builder::node);
        builder = set(builder, self.cluster, Builder::cluster);
        builder = set(builder, self.bind, Builder::bind);
        builder = set(builder, self.advertise, Builder::advertise);
        if !self.peers.is_empty() {
            builder = builder.discover(StaticDiscoverer::new(self.peers));
        }
        builder = set(builder, self.dns, |builder, (name, port)| builder.discover(DnsDiscoverer::new(name, port)));
        // The records say the ports.
        builder = set(builder, self.srv, |builder, name| builder.discover(DnsDiscoverer::new(name, 0).srv()));
        builder = set(builder, self.discover_interval, Builder::discover_interval);
        builder = set(builder, self.sync_interval, Builder::sync_interval);
        builder = set(builder, self.push_gap, Builder::push_gap);
        builder = set(builder, self.datagram_budget, Builder::datagram_budget);
        builder = set(builder, self.anti_entropy_interval, Builder::anti_entropy_interval);
        builder = set(builder, self.probe_interval, Builder::probe_interval);
        builder = set(builder, self.suspicion_timeout, Builder::suspicion_timeout);
        builder = set(builder, self.on_partition, Builder::on_partition);
        builder = set(builder, self.evict_idle, |builder, idle| builder.evict_idle(idle.key_ttl, idle.sweep_interval));
        builder = set(builder, self.max_keys, Builder::max_keys);
        if let Some(SecretFile { file, sealing }) = self.secret {
            let secrets = Secrets::from_file(&file).map_err(|source| ConfigError::Secret { file, source })?;
            builder = builder.secret(secrets.at_stage(sealing));
        }
        if let Some(file) = self.digest_secret_file {
            builder = builder.digest_secret(sources::read_digest_secret(file)?.trim_ascii_end());
        }
        builder.validate().map_err(ConfigError::Bounds)?;
        Ok(builder)
    }

    /// Starts a limiter with these settings, and makes its scopes; [`Limiter::scope`] finds them by their names.
    ///
    /// # Errors
    ///
    /// As [`into_builder`](Self::into_builder) and [`Builder::start`].
    pub async fn start(mut self) -> Result<Limiter, ConfigError> {
        let scopes = std::mem::take(&mut self.scopes);
        let limiter = self.into_builder()?.start().await.map_err(ConfigError::Bounds)?;
        for (name, quota) in scopes {
            // A scope stays for the life of the limiter.
            let _scope = limiter.scope(&name, quota);
        }
        Ok(limiter)
    }
}

fn set<T>(builder: Builder, value: Option<T>, set: impl FnOnce(Builder, T) -> Builder) -> Builder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}
