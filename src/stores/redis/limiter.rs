//! What the two limiters have in common: a script, a name, and keys.

use std::sync::Arc;

use ::redis::{Cmd, Value};
use tokio::task;

use crate::{
    backend::Policy,
    bucket::{Decision, Quota, Timestamp},
    names,
};

use super::{
    Deciding, Redis, RedisError,
    batch::{Answer, Batch, Batches, Joined},
    keys::Keys,
    link::{Link, Request},
    script::{Op, Script, doubles, numbers},
};

/// A script that decides on keys of its own.
#[derive(Debug)]
pub(super) struct Scripted {
    link: Arc<Link>,
    script: &'static Script,
    /// As the script takes it.
    quota: Vec<u8>,
    keys: Keys,
    policy: Policy,
    batches: Batches,
}

impl Scripted {
    /// `terms` are what the script has to know of the quota.
    pub(super) fn new(
        redis: &Redis,
        kind: &str,
        name: &str,
        quota: Quota,
        script: &'static Script,
        terms: &[u64],
    ) -> Self {
        Self {
            link: Arc::clone(&redis.link),
            script,
            quota: doubles(terms.iter().copied()),
            keys: Keys::new(&redis.prefix, kind, name),
            policy: Policy { name: names::permanent(name), quota },
            batches: Batches::default(),
        }
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    /// Most permits that one request may ask for.
    pub(super) fn most(&self) -> u64 {
        if self.policy.quota.refuses_all() { 0 } else { self.policy.quota.burst_size() }
    }

    /// Asks the script, and makes a decision of its numbers, unless they are not what it answers.
    pub(super) fn ask(
        self: &Arc<Self>,
        key: &[u8],
        op: Op,
        permits: u64,
        decision: impl FnOnce(&[u64]) -> Option<Decision> + Send + 'static,
    ) -> Deciding {
        let (this, name) = (Arc::clone(self), self.keys.of(key));
        Deciding::new(async move {
            let answer = match op {
                Op::Decide => this.decide(&name, permits).await?,
                _ => this.link.ask(this.request(op, [(&*name, permits)].into_iter()), this.link.deadline()).await?,
            };
            let decided = numbers(&answer).and_then(|numbers| decision(&numbers));
            decided.map(|decision| decision.by(this.policy.name)).ok_or_else(|| RedisError::no_decision(&answer))
        })
    }

    /// Together with others where some wait, else alone.
    async fn decide(self: &Arc<Self>, name: &str, permits: u64) -> Answer {
        let deadline = self.link.deadline();
        let waiting = self.batches.wait();
        if !waiting.alone
            && self.link.shares_calls()
            && let Some(answer) = self.decide_together(name, permits, deadline).await
        {
            return answer;
        }
        self.link.ask(self.request(Op::Decide, [(name, permits)].into_iter()), deadline).await
    }

    /// None where nothing came of it, and it is to be asked for alone.
    async fn decide_together(self: &Arc<Self>, name: &str, permits: u64, deadline: Timestamp) -> Option<Answer> {
        let Joined { number, answer, full } = self.batches.join(name, permits, deadline);
        let batch = match full {
            Some(batch) => Some(batch),
            None => {
                task::yield_now().await;
                self.batches.close(number)
            }
        };
        if let Some(batch) = batch {
            // By a task: whoever gives up takes nobody along.
            self.link.spawn(Arc::clone(self).send(batch));
        }
        match self.link.in_time(answer, deadline).await {
            Ok(Ok(Ok(Value::Nil)) | Err(_)) => None,
            Ok(Ok(answer)) => Some(answer),
            Err(timeout) => Some(Err(timeout)),
        }
    }

    async fn send(self: Arc<Self>, mut batch: Batch) {
        batch.leave_out_dropped();
        if batch.len() == 0 {
            return;
        }
        let request = self.request(Op::Decide, batch.decisions());
        match self.link.ask(request, batch.deadline()).await {
            // It may be about one key, or about the call being about several. As the batch is dropped, all ask alone.
            Err(RedisError::Server { cause }) if batch.len() > 1 => {
                if cause.crosses_slots() {
                    self.link.share_no_calls();
                }
            }
            answer => batch.answer(answer),
        }
    }

    fn request<'a>(&self, op: Op, decisions: impl ExactSizeIterator<Item = (&'a str, u64)> + Clone) -> Request {
        let cmd = self.script.call(op, &self.quota, decisions);
        Request { cmd, script: Some(self.script), repeatable: op.is_repeatable() }
    }

    /// Forgets a key.
    pub(super) async fn reset(&self, key: &[u8]) -> Result<(), RedisError> {
        let mut cmd = Cmd::new();
        cmd.arg("UNLINK").arg(self.keys.of(key));
        let request = Request { cmd, script: None, repeatable: true };
        self.link.ask(request, self.link.deadline()).await.map(drop)
    }
}
