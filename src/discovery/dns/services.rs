//! SRV records: peers with a name and a port each.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_resolver::proto::{
    op::Message,
    rr::{Name, RData, RecordType},
};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    super::{found::Found, name_log::NameLog},
    round::{FAMILIES, FAMILY_PATIENCE, Round, describe, ips},
    stub::Answer,
};

/// Questions about targets that are under way at once. Each takes a socket.
const QUESTIONS_AT_ONCE: usize = 128;

impl Round {
    /// Adds the addresses of the targets of `name`, which was written as `text`, or returns why there are none.
    pub(super) async fn services(
        &mut self,
        text: &str,
        name: Name,
        log: &NameLog,
        found: &mut Found,
    ) -> Result<(), String> {
        let mut targets = BTreeMap::new();
        self.search(&name, &[RecordType::SRV], |answer| {
            targets = read_targets(answer);
        })
        .await?;
        if targets.is_empty() {
            return Err(format!("{name}: the service is not on offer"));
        }
        self.look_up(&mut targets).await;

        let mut names = BTreeSet::from([text.to_owned()]);
        for (name, target) in &targets {
            let label = name.to_string();
            if target.ips.is_empty() {
                log.failed(&label, describe(name, &FAMILIES, &target.answers));
            } else {
                log.resolved(&label);
            }
            for port in &target.ports {
                found.extend(target.ips.iter().map(|ip| SocketAddr::new(*ip, *port)));
            }
            names.insert(label);
        }
        log.retain(|name| names.contains(name));
        if found.is_empty() {
            return Err(format!("none of the {} targets has an address", targets.len()));
        }
        Ok(())
    }

    /// Asks for the addresses that did not come along with the SRV records.
    async fn look_up(&mut self, targets: &mut BTreeMap<Name, Target>) {
        let in_use = FAMILIES.map(|family| targets.values().any(|target| target.has(family)));
        let permits = Arc::new(Semaphore::new(QUESTIONS_AT_ONCE));
        let mut asked = JoinSet::new();
        for (name, target) in targets.iter() {
            for (index, family) in FAMILIES.into_iter().enumerate() {
                // A server that adds addresses adds those of both families, as far as the answer has room. So what is
                // missing everywhere does not exist, and what is missing here but not there did not fit.
                let complete = !target.ips.is_empty() && !in_use[index];
                if complete || target.has(family) {
                    continue;
                }
                let question = self.stub.clone().ask(name.clone(), family);
                let (name, permits) = (name.clone(), Arc::clone(&permits));
                asked.spawn(async move {
                    // The semaphore is never closed; if it were, a question too many at once does no harm.
                    let _permit = permits.acquire().await;
                    (name, index, question.await)
                });
            }
        }
        let mut unknown = targets.values().filter(|target| target.ips.is_empty()).count();
        loop {
            let patience = if unknown == 0 { FAMILY_PATIENCE } else { Duration::MAX };
            let Some((name, index, answer)) = self.next(&mut asked, patience).await else {
                return;
            };
            let Some(target) = targets.get_mut(&name) else {
                continue;
            };
            if let Answer::Records(message) = &answer {
                let was_unknown = target.ips.is_empty();
                target.ips.extend(ips(&message.answers));
                if was_unknown && !target.ips.is_empty() {
                    unknown -= 1;
                }
            }
            target.answers[index] = answer;
        }
    }
}

/// Where one SRV target listens, as far as known.
#[derive(Debug)]
struct Target {
    ports: BTreeSet<u16>,
    ips: BTreeSet<IpAddr>,
    /// What became of the questions about it, by family.
    answers: [Answer; FAMILIES.len()],
}

impl Target {
    fn has(&self, family: RecordType) -> bool {
        self.ips.iter().any(|ip| ip.is_ipv4() == (family == RecordType::A))
    }
}

/// The targets of SRV records, with the addresses that came along.
fn read_targets(answer: &Message) -> BTreeMap<Name, Target> {
    let mut targets: BTreeMap<Name, Target> = BTreeMap::new();
    for record in &answer.answers {
        let RData::SRV(service) = &record.data else {
            continue;
        };
        // The root as the target says that there is no such service here (RFC 2782).
        if service.target.is_root() || service.port == 0 {
            continue;
        }
        let target = targets.entry(service.target.clone()).or_insert_with(|| Target {
            ports: BTreeSet::new(),
            ips: BTreeSet::new(),
            answers: FAMILIES.map(|_| Answer::Silent),
        });
        target.ports.insert(service.port);
    }
    for record in &answer.additionals {
        if let Some(target) = targets.get_mut(&record.name) {
            target.ips.extend(ips(std::slice::from_ref(record)));
        }
    }
    targets
}
