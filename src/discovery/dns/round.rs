//! One round of questions, and the time that it has.

use std::{
    net::{IpAddr, SocketAddr},
    pin::Pin,
    time::Duration,
};

use hickory_resolver::{
    net::NetError,
    proto::{
        op::Message,
        rr::{Name, RData, Record, RecordType},
    },
};
use tokio::{
    task::JoinSet,
    time::{Sleep, sleep, timeout},
};

use super::{
    super::found::Found,
    plan::Plan,
    stub::{Answer, Stub},
};

/// The types of records that hold addresses.
pub(super) const FAMILIES: [RecordType; 2] = [RecordType::A, RecordType::AAAA];

/// How long the other family is waited for once one has told that the name has addresses, or that it does not exist.
/// Some firewalls and forwarders drop every question for AAAA; each round would last its full time.
pub(super) const FAMILY_PATIENCE: Duration = Duration::from_secs(2);

/// The means of one round.
pub(super) struct Round {
    pub(super) plan: Plan,
    pub(super) stub: Stub,
    deadline: Pin<Box<Sleep>>,
}

impl Round {
    /// Starts a round that lasts for `limit` at most.
    pub(super) fn start(plan: Plan, limit: Duration) -> Result<Self, NetError> {
        Ok(Self { stub: Stub::new(&plan, limit)?, plan, deadline: Box::pin(sleep(limit)) })
    }

    /// Adds the addresses of `name`, which was written as `text`, or returns why there are none.
    pub(super) async fn addresses(
        &mut self,
        text: &str,
        name: Name,
        port: u16,
        found: &mut Found,
    ) -> Result<(), String> {
        let mut add = |ip| found.add(SocketAddr::new(ip, port));
        let listed = self.plan.in_hosts_file(text);
        if !listed.is_empty() {
            listed.into_iter().for_each(add);
            return Ok(());
        }
        self.search(&name, &FAMILIES, |answer| {
            ips(&answer.answers).for_each(&mut add);
        })
        .await?;
        if found.is_empty() {
            return Err(format!("{name}: nobody can be reached at its addresses"));
        }
        Ok(())
    }

    /// Asks for records of the given types at the names that `name` may stand for, up to the first that has any.
    /// Returns why there is none.
    pub(super) async fn search(
        &mut self,
        name: &Name,
        kinds: &[RecordType],
        mut take: impl FnMut(&Message),
    ) -> Result<(), String> {
        let (mut reason, mut told_something) = (String::new(), false);
        for candidate in self.plan.candidates(name) {
            let answers = self.ask(&candidate, kinds, &mut take).await;
            if answers.iter().any(|answer| matches!(answer, Answer::Records(_))) {
                return Ok(());
            }
            let denied = answers.iter().any(|answer| matches!(answer, Answer::NoSuchName));
            // That a name does not exist says the least, and most domains of the search list say it.
            if !denied || !told_something {
                reason = describe(&candidate, kinds, &answers);
                told_something = !denied;
            }
            if !denied && !answers.iter().all(Answer::lets_search_go_on) {
                break;
            }
        }
        Err(reason)
    }

    /// Asks one complete name for records of several types, side by side. Returns one answer for each.
    async fn ask(&mut self, name: &Name, kinds: &[RecordType], mut take: impl FnMut(&Message)) -> Vec<Answer> {
        let mut asked = JoinSet::new();
        for (index, kind) in kinds.iter().enumerate() {
            let answer = self.stub.clone().ask(name.clone(), *kind);
            asked.spawn(async move { (index, answer.await) });
        }
        let mut answers: Vec<Answer> = kinds.iter().map(|_| Answer::Silent).collect();
        let mut patience = Duration::MAX;
        while let Some((index, answer)) = self.next(&mut asked, patience).await {
            if let Answer::Records(message) = &answer {
                take(message);
            }
            if matches!(answer, Answer::Records(_) | Answer::NoSuchName) {
                patience = FAMILY_PATIENCE;
            }
            answers[index] = answer;
        }
        answers
    }

    /// The outcome of the next task to end. `None` when all have ended, and when the round or `patience` is over first.
    pub(super) async fn next<T: 'static>(&mut self, tasks: &mut JoinSet<T>, patience: Duration) -> Option<T> {
        loop {
            // What is there already is taken, even when time is up.
            tokio::select! {
                biased;
                joined = timeout(patience, tasks.join_next()) => match joined {
                    Ok(Some(Ok(outcome))) => return Some(outcome),
                    // A task that panicked has no answer.
                    Ok(Some(Err(_))) => {}
                    Ok(None) | Err(_) => return None,
                },
                () = &mut self.deadline => return None,
            }
        }
    }
}

/// The addresses that records hold.
pub(super) fn ips(records: &[Record]) -> impl Iterator<Item = IpAddr> {
    records.iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    })
}

/// What the answers were, for the log.
pub(super) fn describe(name: &Name, kinds: &[RecordType], answers: &[Answer]) -> String {
    let mut text = name.to_string();
    for (index, (kind, answer)) in kinds.iter().zip(answers).enumerate() {
        let separator = if index == 0 { ":" } else { "," };
        text.push_str(&format!("{separator} {kind} {answer}"));
    }
    text
}
