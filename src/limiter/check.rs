//! What a builder makes of single settings.

use std::{net::SocketAddr, time::Duration};

use crate::{gossip::wire::MAX_NAME_LEN, net::Sockets};

use super::StartError;

pub(super) fn check_duration(
    field: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), StartError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(StartError::Duration { field, value, least, most }) }
}

pub(super) fn check_number(field: &'static str, value: usize, least: usize, most: usize) -> Result<(), StartError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(StartError::Number { field, value, least, most }) }
}

/// The host's name, cut to what a label may hold. Nothing depends on it, so a host without one is no error.
pub(super) fn host_name() -> String {
    let mut name = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    while name.len() > MAX_NAME_LEN {
        name.pop();
    }
    name
}

pub(super) fn advertised(wanted: Option<SocketAddr>, sockets: &Sockets) -> Result<SocketAddr, StartError> {
    let Some(mut addr) = wanted else {
        return sockets.default_advertise().map_err(|_| StartError::AdvertiseUnknown { bind: sockets.local_addr() });
    };
    if addr.port() == 0 {
        addr.set_port(sockets.local_addr().port());
    }
    if addr.ip().is_unspecified() || addr.ip().is_multicast() {
        return Err(StartError::Advertise { addr });
    }
    Ok(addr)
}
