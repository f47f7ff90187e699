//! What the two limiters have in common: a script, a name, and keys.

use std::sync::Arc;

use ::redis::Cmd;

use crate::{
    backend::Policy,
    bucket::{Decision, Quota},
    names,
};

use super::{
    Deciding, Redis, RedisError,
    keys::Keys,
    link::{Link, Request},
    script::{Op, Script, numbers},
};

/// A script that decides on keys of its own.
#[derive(Debug)]
pub(super) struct Scripted {
    link: Arc<Link>,
    script: &'static Script,
    keys: Keys,
    policy: Policy,
}

impl Scripted {
    pub(super) fn new(redis: &Redis, kind: &str, name: &str, quota: Quota, script: &'static Script) -> Self {
        Self {
            link: Arc::clone(&redis.link),
            script,
            keys: Keys::new(&redis.prefix, kind, name),
            policy: Policy { name: names::permanent(name), quota },
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
        &self,
        key: &[u8],
        op: Op,
        arguments: &[u64],
        decision: impl FnOnce(&[u64]) -> Option<Decision> + Send + 'static,
    ) -> Deciding {
        let cmd = self.script.call(&self.keys.of(key), op, arguments);
        let request = Request { cmd, script: Some(self.script), repeatable: op.is_repeatable() };
        let (link, name) = (Arc::clone(&self.link), self.policy.name);
        Deciding::new(async move {
            let answer = link.ask(request).await?;
            let decided = numbers(&answer).and_then(|numbers| decision(&numbers));
            decided
                .map(|decision| decision.by(name))
                .ok_or_else(|| RedisError::Answer { answer: format!("{answer:?}") })
        })
    }

    /// Forgets a key.
    pub(super) async fn reset(&self, key: &[u8]) -> Result<(), RedisError> {
        let mut cmd = Cmd::new();
        cmd.arg("UNLINK").arg(self.keys.of(key));
        self.link.ask(Request { cmd, script: None, repeatable: true }).await.map(drop)
    }
}
