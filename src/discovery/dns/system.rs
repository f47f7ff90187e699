//! How the system resolves names.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use hickory_resolver::{
    config::{ResolverConfig, ResolverOpts},
    net::NetError,
    proto::rr::Name,
};
use parking_lot::Mutex;

use super::plan::Plan;

/// Name servers that are taken from the configuration, as in glibc (`MAXNS`).
const MAX_NAME_SERVERS: usize = 3;
/// The most dots that may be asked for before a name is tried as it is, as in glibc (`RES_MAXNDOTS`).
const MAX_NDOTS: usize = 15;

/// Reads the system's configuration anew for every round, and reports what is wrong with it once.
#[derive(Debug, Default)]
pub(super) struct System {
    files: Files,
    seen: Mutex<Option<Seen>>,
}

/// Where the configuration is. Other places, and another port, are for tests.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) resolv_conf: PathBuf,
    pub(super) hosts: PathBuf,
    /// The port of name servers, for which the file has no room.
    pub(super) port: u16,
}

impl Default for Files {
    fn default() -> Self {
        #[cfg(windows)]
        let hosts =
            PathBuf::from(std::env::var_os("SystemRoot").unwrap_or_default()).join("System32\\drivers\\etc\\hosts");
        #[cfg(not(windows))]
        let hosts = PathBuf::from("/etc/hosts");
        Self { resolv_conf: PathBuf::from("/etc/resolv.conf"), hosts, port: 53 }
    }
}

/// The configuration as it was when last read. Only a change is parsed, and so only a change is reported: hickory also
/// warns of every line that it does not understand.
#[derive(Debug)]
struct Seen {
    text: Result<String, io::ErrorKind>,
    plan: Plan,
    faulty: bool,
}

impl System {
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn with_files(files: Files) -> Self {
        Self { files, seen: Mutex::default() }
    }

    /// What the system's resolver would go by now. Always something: see [`understand`].
    pub(super) async fn plan(&self) -> Plan {
        let files = self.files.clone();
        let read = move || (source::read(&files.resolv_conf), fs::read(&files.hosts));
        let (text, hosts) = match tokio::task::spawn_blocking(read).await {
            // Many containers have no hosts file, and no need of one.
            Ok((text, hosts)) => (text, hosts.unwrap_or_default()),
            Err(error) => (Err(error.into()), Vec::new()),
        };
        Plan { hosts: String::from_utf8_lossy(&hosts).into_owned(), ..self.refresh(text) }
    }

    fn refresh(&self, text: io::Result<Vec<u8>>) -> Plan {
        let mut seen = self.seen.lock();
        let key = match &text {
            Ok(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            Err(error) => Err(error.kind()),
        };
        if let Some(seen) = seen.as_ref().filter(|seen| seen.text == key) {
            return seen.plan.clone();
        }
        let (plan, fault) = understand(text, self.files.port);
        let was_faulty = seen.as_ref().is_some_and(|seen| seen.faulty);
        match &fault {
            Some(fault) => {
                let servers = &plan.servers;
                tracing::warn!(%fault, ?servers, "the system's DNS configuration is not usable as it is");
            }
            None if was_faulty => tracing::info!("the system's DNS configuration is usable again"),
            None => {}
        }
        *seen = Some(Seen { text: key, plan: plan.clone(), faulty: fault.is_some() });
        plan
    }
}

/// Makes the best of the configuration, and returns what is wrong with it.
///
/// Without a name server, the one on this machine is asked, as by glibc. A search domain that is none is passed over;
/// hickory gives up the whole file for it.
fn understand(text: io::Result<Vec<u8>>, port: u16) -> (Plan, Option<NetError>) {
    let local = b"\nnameserver 127.0.0.1\n";
    let (text, unreadable) = match text {
        Ok(text) => (text, None),
        Err(error) => (Vec::new(), Some(NetError::from(error))),
    };
    let fault = match source::parse(&text) {
        Ok(parsed) => return (plan(parsed, port), unreadable),
        Err(error) => unreadable.or(Some(error)),
    };
    let searchable = without_bad_domains(&text);
    let complete = [searchable.as_slice(), local].concat();
    let plan = [searchable, complete]
        .iter()
        .find_map(|text| source::parse(text).ok())
        .map_or_else(|| local_plan(port), |parsed| plan(parsed, port));
    (plan, fault)
}

fn local_plan(port: u16) -> Plan {
    Plan { servers: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)], ndots: 1, ..Plan::default() }
}

fn plan((config, options): (ResolverConfig, ResolverOpts), port: u16) -> Plan {
    let (domain, search, servers) = config.into_parts();
    // hickory puts the `domain` line, or else the domain of the machine's own name, before the search list. For glibc,
    // the last of `search` and `domain` is the search list, and the machine's domain takes its place if there is none.
    let search = if search.is_empty() { domain.into_iter().collect() } else { search };
    Plan {
        servers: servers.iter().take(MAX_NAME_SERVERS).map(|server| SocketAddr::new(server.ip, port)).collect(),
        search,
        ndots: options.ndots.min(MAX_NDOTS),
        edns0: options.edns0,
        hosts: String::new(),
    }
}

/// Leaves out the words of `search` and `domain` lines that are no domain.
fn without_bad_domains(text: &[u8]) -> Vec<u8> {
    let mut kept = String::new();
    for line in String::from_utf8_lossy(text).lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(keyword @ ("search" | "domain")) => {
                kept.push_str(keyword);
                for domain in words.filter(|domain| Name::from_str_relaxed(domain).is_ok()) {
                    kept.push(' ');
                    kept.push_str(domain);
                }
            }
            _ => kept.push_str(line),
        }
        kept.push('\n');
    }
    kept.into_bytes()
}

/// Where the system keeps its configuration in a file.
#[cfg(all(unix, not(any(target_os = "android", target_vendor = "apple"))))]
mod source {
    use std::{fs, io, path::Path};

    pub(super) use hickory_resolver::system_conf::parse_resolv_conf as parse;

    pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }
}

/// Where the system has to be asked for its configuration. The text of it only serves to notice a change.
#[cfg(not(all(unix, not(any(target_os = "android", target_vendor = "apple")))))]
mod source {
    use std::{io, path::Path};

    use hickory_resolver::{
        config::{ResolverConfig, ResolverOpts},
        net::NetError,
        system_conf::read_system_conf,
    };

    pub(super) fn read(_: &Path) -> io::Result<Vec<u8>> {
        let config = read_system_conf().map_err(io::Error::other)?;
        Ok(format!("{config:?}").into_bytes())
    }

    pub(super) fn parse(text: &[u8]) -> Result<(ResolverConfig, ResolverOpts), NetError> {
        if text.is_empty() {
            return Err(NetError::from("there is no configuration"));
        }
        read_system_conf()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn read(text: &str) -> (Plan, Option<NetError>) {
        understand(Ok(text.as_bytes().to_vec()), 53)
    }

    fn search(plan: &Plan) -> Vec<String> {
        plan.search.iter().map(Name::to_ascii).collect()
    }

    #[test]
    fn the_configuration_of_a_pod_is_understood() {
        let (plan, fault) = read(
            "nameserver 10.96.0.10\n\
             search default.svc.cluster.local svc.cluster.local cluster.local\n\
             options ndots:5\n",
        );
        assert!(fault.is_none());
        assert_eq!(plan.servers, ["10.96.0.10:53".parse().unwrap()]);
        assert_eq!(search(&plan), ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
        assert_eq!((plan.ndots, plan.edns0), (5, false));
    }

    #[test]
    fn bounds_are_those_of_glibc() {
        let (plan, _) = read(
            "nameserver 192.0.2.1\nnameserver ::1\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n\
             options ndots:99 edns0\n",
        );
        assert_eq!(plan.servers.len(), 3);
        assert_eq!((plan.ndots, plan.edns0), (15, true));
    }

    #[test]
    fn the_last_of_search_and_domain_counts() {
        let search_of = |text: &str| search(&read(&format!("nameserver ::1\n{text}")).0);
        assert_eq!(search_of("domain a.test\nsearch b.test c.test\n"), ["b.test", "c.test"]);
        assert_eq!(search_of("search b.test c.test\ndomain a.test\n"), ["a.test"]);
    }

    #[test]
    fn a_configuration_that_cannot_be_read_leaves_the_local_name_server() {
        for text in [
            Err(io::ErrorKind::NotFound.into()),
            Err(io::ErrorKind::PermissionDenied.into()),
            Ok(Vec::new()),
            Ok(b"\0\xff\0".to_vec()),
        ] {
            let (plan, fault) = understand(text, 53);
            assert!(fault.is_some());
            assert_eq!(plan.servers, ["127.0.0.1:53".parse().unwrap()]);
            assert_eq!(plan.ndots, 1);
        }
    }

    #[test]
    fn a_fault_is_noted_until_the_configuration_is_sound() {
        let system = System::default();
        let faulty = || system.seen.lock().as_ref().is_some_and(|seen| seen.faulty);
        system.refresh(Err(io::ErrorKind::NotFound.into()));
        assert!(faulty());
        system.refresh(Err(io::ErrorKind::NotFound.into()));
        assert!(faulty());
        system.refresh(Ok(b"nameserver ::1\n".to_vec()));
        assert!(!faulty());
    }
}
