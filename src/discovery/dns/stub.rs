//! One question to several name servers.

use std::{fmt::Display, net::SocketAddr, time::Duration};

use hickory_resolver::{
    Resolver, TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{DnsError, NetError, NoRecords, runtime::TokioRuntimeProvider},
    proto::{
        op::{Message, ResponseCode},
        rr::{Name, RecordType},
    },
};
use tokio::{task::JoinSet, time::timeout};

use super::plan::Plan;

/// How long a name server may keep silent before the next one is asked as well.
const SERVER_PATIENCE: Duration = Duration::from_secs(1);

/// What became of a question.
#[derive(Debug)]
pub(super) enum Answer {
    /// Records of the type asked for.
    Records(Message),
    /// The name does not exist: it has no records of any type.
    NoSuchName,
    /// The name has no records of this type.
    NoRecords,
    /// No server could tell. This is what the last of them said.
    Failed(NetError),
    /// No server answered in time.
    Silent,
}

impl Answer {
    /// Whether the question is settled: asking elsewhere would be asking somebody who knows less.
    fn is_settled(&self) -> bool {
        matches!(self, Self::Records(_) | Self::NoSuchName | Self::NoRecords)
    }

    /// Whether the search may go on with the next domain, as glibc has it: after a denial, and after SERVFAIL, but not
    /// after silence. A name that is silent may be the right one, and the next domain's name that of another cluster.
    pub(super) fn lets_search_go_on(&self) -> bool {
        match self {
            Self::NoSuchName | Self::NoRecords => true,
            Self::Failed(NetError::Dns(DnsError::ResponseCode(code))) => *code == ResponseCode::ServFail,
            Self::Records(_) | Self::Failed(_) | Self::Silent => false,
        }
    }

    fn new(outcome: Result<Lookup, NetError>, kind: RecordType) -> Self {
        match outcome {
            Ok(lookup) if lookup.answers().iter().any(|record| record.record_type() == kind) => {
                Self::Records(lookup.into())
            }
            Ok(_) => Self::NoRecords,
            Err(NetError::Dns(DnsError::NoRecordsFound(NoRecords { response_code, .. }))) => match response_code {
                ResponseCode::NXDomain => Self::NoSuchName,
                _ => Self::NoRecords,
            },
            Err(NetError::Timeout) => Self::Silent,
            Err(error) => Self::Failed(error),
        }
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Records(_) => f.write_str("found"),
            Self::NoSuchName => f.write_str("no such name"),
            Self::NoRecords => f.write_str("no records"),
            Self::Failed(error) => error.fmt(f),
            Self::Silent => f.write_str("no answer"),
        }
    }
}

/// Asks the name servers of a plan.
///
/// Each has a hickory resolver of its own, because a pool of hickory's takes SERVFAIL and REFUSED from one server for
/// the answer of all, and lets two dead servers use up the time of a third.
#[derive(Clone, Debug)]
pub(super) struct Stub {
    servers: Vec<TokioResolver>,
    patience: Duration,
}

impl Stub {
    /// Prepares for questions that may take as long as `limit`. Nothing is sent yet.
    pub(super) fn new(plan: &Plan, limit: Duration) -> Result<Self, NetError> {
        let mut options = ResolverOpts::default();
        // One attempt is enough: within it, hickory sends three packets in the first second, and waits for an answer to
        // any of them until the time is up. With several, a server that is slower than one attempt is never heard.
        options.timeout = limit;
        options.attempts = 0;
        options.edns0 = plan.edns0;
        // A resolver lives for one round, in which no question comes twice.
        options.cache_size = 0;
        // Names are complete and were looked for in the hosts file before they come here.
        options.use_hosts_file = ResolveHosts::Never;
        let servers = plan
            .servers
            .iter()
            .map(|server| {
                let provider = TokioRuntimeProvider::default();
                let mut builder = Resolver::builder_with_config(server_config(*server), provider);
                *builder.options_mut() = options.clone();
                builder.build()
            })
            .collect::<Result<Vec<_>, _>>()?;
        // Every server gets its turn within the limit.
        let turns = u32::try_from(servers.len()).unwrap_or(u32::MAX).saturating_add(1);
        Ok(Self { servers, patience: SERVER_PATIENCE.min(limit / turns) })
    }

    /// Asks for the records of one type of a complete name.
    ///
    /// Servers get the question in order: the next one when the one before failed, or has been silent for a while. The
    /// answer of a slow server still counts when it comes in before that of a later one.
    pub(super) async fn ask(self, name: Name, kind: RecordType) -> Answer {
        let mut waiting = self.servers.into_iter();
        let mut asked = JoinSet::new();
        let mut unsettled = Answer::Silent;
        loop {
            if let Some(server) = waiting.next() {
                let name = name.clone();
                asked.spawn(async move { Answer::new(server.lookup(name, kind).await, kind) });
            } else if asked.is_empty() {
                return unsettled;
            }
            let answered = if waiting.len() > 0 {
                match timeout(self.patience, asked.join_next()).await {
                    Ok(answered) => answered,
                    Err(_) => continue,
                }
            } else {
                asked.join_next().await
            };
            match answered {
                Some(Ok(answer)) if answer.is_settled() => return answer,
                Some(Ok(answer @ Answer::Failed(_))) => unsettled = answer,
                // Silent, or a task that ended in a panic.
                _ => {}
            }
        }
    }
}

fn server_config(server: SocketAddr) -> ResolverConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = server.port();
    }
    ResolverConfig::from_name_servers(vec![NameServerConfig::new(server.ip(), true, connections)])
}
