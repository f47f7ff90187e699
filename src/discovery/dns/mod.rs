//! Peers behind a DNS name.

mod plan;
mod round;
mod services;
mod stub;
mod system;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::{net::SocketAddr, time::Duration};

use hickory_resolver::proto::rr::Name;

use self::{plan::Plan, round::Round, system::System};
use super::{DiscoverError, Discoverer, found::Found, name_log::NameLog, peer::check_host};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Less is not enough for a question and its answer to travel far.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// More would outlast the intervals at which nodes ask.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Name servers that one discoverer may be given. They are asked one after the other within the round's timeout.
const MAX_NAME_SERVERS: usize = 8;

/// Discovers the peers behind one DNS name.
///
/// In every round, the name's A and AAAA records are asked for anew: nothing is remembered from the round before, so
/// an answer that changes is seen at the next round. (A server on the way may cache; that is what its TTLs are for.)
/// The two families are asked for side by side, and one that fails or gets no answer does not hide the other. An
/// answer that is truncated over UDP is fetched over TCP.
///
/// Unless [`name_servers`](Self::name_servers) are given, the system is asked the way its own programs ask it. A name
/// in the hosts file is taken from there. The name servers, the search list and `ndots` come from `/etc/resolv.conf`
/// (or what the platform has in its place), which is read in every round. Name servers are asked in the order listed,
/// at most three of them, the next one when one fails or lets a second pass. If the file is missing, unreadable or
/// odd, a warning says so once, and what it lacks is made up for: a name server on `127.0.0.1`, no search list. Its
/// options other than `ndots` and `edns0` are not honoured; nor are the scopes of link-local name servers, so those
/// cannot be asked.
///
/// A name that does not exist, has no addresses, or whose name servers fail or keep silent gives an empty list, and a
/// warning when that begins. Peers of a cluster that is just being started look just so.
///
/// In Kubernetes, use the name of a *headless* service with `publishNotReadyAddresses: true`, so that pods find each
/// other before they are ready. Write it out in full, with a dot at the end, to spare the queries for the search list:
///
/// ```
/// use peerlimit::{Discoverer, DnsDiscoverer};
///
/// let peers = DnsDiscoverer::new("peerlimit.default.svc.cluster.local.", 7946);
/// assert!(peers.validate().is_ok());
/// ```
#[derive(Debug)]
pub struct DnsDiscoverer {
    name: String,
    port: u16,
    services: bool,
    name_servers: Option<Vec<SocketAddr>>,
    timeout: Duration,
    system: System,
    log: NameLog,
}

impl DnsDiscoverer {
    /// Looks for the addresses of `name`; peers listen at `port` there.
    ///
    /// A name without a final dot may be completed by the system's search list. A name that is none (an IP address,
    /// say) or a port of 0 is for [`validate`](Discoverer::validate) to refuse, which a node calls before it starts.
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self {
            name: name.into(),
            port,
            services: false,
            name_servers: None,
            timeout: DEFAULT_TIMEOUT,
            system: System::default(),
            log: NameLog::default(),
        }
    }

    /// Asks these name servers instead of the system's.
    ///
    /// Takes addresses with a port, which is asked over UDP and, for long answers, over TCP; from one to eight of them,
    /// in the order of preference. None are given by default: the system's configuration counts. With some, nothing of
    /// the system is used at all: the hosts file and the search list are not read, and the name counts as complete,
    /// final dot or not. More servers help while some of them are down, and all must know the name: one that answers
    /// that there is no such name is believed. Wrongly set if rounds find nothing while `dig @server name` does.
    #[must_use]
    pub fn name_servers(mut self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.name_servers = Some(servers.into_iter().collect());
        self
    }

    /// Asks for SRV records, which say at which port each peer listens; the port given to [`new`](Self::new) is then
    /// not used.
    ///
    /// The name is that of the service, as in `_gossip._udp.peers.example.com`. Every target is a peer, whatever its
    /// priority and weight. Addresses that come along with the answer are used as they are. A target that came without
    /// is looked up, and so is one for which a family is missing that others have. One that gives no addresses does
    /// not hide the others.
    #[must_use]
    pub fn srv(mut self) -> Self {
        self.services = true;
        self
    }

    /// The most that one round may take, all queries, retries and fallbacks included.
    ///
    /// Five seconds by default; from 100 milliseconds to one minute. When it has passed, the round gives what has been
    /// found by then. More helps with slow or distant name servers; less lets a node start sooner while its name
    /// server hangs, since it waits for one round. Wrongly set if warnings say `no answer` although `dig` gets one.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Discoverer for DnsDiscoverer {
    /// Returns each address that the name has now once, in no particular order.
    async fn discover(&self) -> Result<Vec<SocketAddr>, DiscoverError> {
        self.validate()?;
        let name = Name::from_ascii(&self.name).map_err(DiscoverError::new)?;
        let plan = match &self.name_servers {
            Some(servers) => Plan::explicit(servers),
            None => self.system.plan().await,
        };
        let mut round = Round::start(plan, self.timeout).map_err(DiscoverError::new)?;
        let mut found = Found::default();
        let outcome = if self.services {
            round.services(&self.name, name, &self.log, &mut found).await
        } else {
            round.addresses(&self.name, name, self.port, &mut found).await
        };
        match outcome {
            Ok(()) => self.log.resolved(&self.name),
            Err(reason) => self.log.failed(&self.name, reason),
        }
        Ok(found.into_vec())
    }

    /// Refuses a name that is none, a port of 0, an empty list of name servers and a timeout out of its bounds.
    fn validate(&self) -> Result<(), DiscoverError> {
        if let Err(problem) = check_host(&self.name) {
            return Err(DiscoverError::invalid("dns name", &*self.name, problem));
        }
        if self.port == 0 && !self.services {
            let problem = "the port of the peers must be from 1 to 65535, unless SRV records say it";
            return Err(DiscoverError::invalid("dns port", "0", problem));
        }
        if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&self.timeout) {
            let problem = "must be from 100 milliseconds to one minute";
            return Err(DiscoverError::invalid("dns timeout", format!("{:?}", self.timeout), problem));
        }
        let Some(servers) = &self.name_servers else {
            return Ok(());
        };
        if !(1..=MAX_NAME_SERVERS).contains(&servers.len()) {
            let problem = "there must be from 1 to 8 of them";
            let count = servers.len().to_string();
            return Err(DiscoverError::invalid("dns name servers", count, problem));
        }
        for server in servers {
            if server.port() == 0 {
                let problem = "its port must be from 1 to 65535";
                return Err(DiscoverError::invalid("dns name server", server.to_string(), problem));
            }
        }
        Ok(())
    }
}
