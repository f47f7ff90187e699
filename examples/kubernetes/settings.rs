//! What the manifest says, as environment variables.

use std::{
    env::{self, VarError},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU64,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use peerlimit::{Quota, QuotaError};

/// A port for clients, one for probes and metrics, and one for gossip over UDP and TCP.
const PORT: u16 = 8080;
const ADMIN_PORT: u16 = 9090;
const GOSSIP_PORT: u16 = 7946;

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The pod's own address: never an unspecified one, so nobody has to guess what peers can reach.
    pub(crate) gossip: SocketAddr,
    pub(crate) pod_name: Option<String>,
    /// The name of the headless service.
    pub(crate) peers: Option<String>,
    pub(crate) cluster: String,
    pub(crate) key_ring: Option<PathBuf>,
    pub(crate) quota: Quota,
    pub(crate) max_keys: usize,
}

/// What is wrong with a setting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingError {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{name} is {value:?}, must be {wanted}")]
    Invalid { name: &'static str, value: String, wanted: &'static str },
    #[error("RATE_PER_SECOND and BURST make no quota")]
    Quota(#[from] QuotaError),
}

impl Settings {
    pub(crate) fn from_env() -> Result<Self, SettingError> {
        const WHOLE: &str = "a whole number from 1";
        let pod_ip: IpAddr = parsed("POD_IP", "an IP address")?.ok_or(SettingError::Missing("POD_IP"))?;
        // At all of the pod's addresses, and at loopback, where `kubectl port-forward` comes from.
        let all = if pod_ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let rate = parsed::<NonZeroU64>("RATE_PER_SECOND", WHOLE)?.map_or(100, NonZeroU64::get);
        let burst = parsed::<NonZeroU64>("BURST", WHOLE)?.map_or(50, NonZeroU64::get);
        Ok(Self {
            listen: SocketAddr::new(all, PORT),
            admin: SocketAddr::new(all, ADMIN_PORT),
            gossip: SocketAddr::new(pod_ip, GOSSIP_PORT),
            pod_name: text("POD_NAME")?,
            peers: text("PEERS")?,
            cluster: text("CLUSTER")?.unwrap_or_default(),
            key_ring: text("KEY_RING")?.map(PathBuf::from),
            quota: Quota::new(rate, Duration::from_secs(1))?.with_burst(burst)?,
            max_keys: parsed("MAX_KEYS", WHOLE)?.unwrap_or(100_000),
        })
    }
}

/// An empty variable counts as none: a manifest that is made from a template leaves some.
fn text(name: &'static str) -> Result<Option<String>, SettingError> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => {
            let value = value.to_string_lossy().into_owned();
            Err(SettingError::Invalid { name, value, wanted: "text in UTF-8" })
        }
    }
}

fn parsed<T: FromStr>(name: &'static str, wanted: &'static str) -> Result<Option<T>, SettingError> {
    let Some(value) = text(name)? else { return Ok(None) };
    match value.parse() {
        Ok(parsed) => Ok(Some(parsed)),
        Err(_) => Err(SettingError::Invalid { name, value, wanted }),
    }
}
