//! Scripts, and what they answer.

use ::redis::{Arg, Cmd, Script as Hashed, Value};

use smallvec::{SmallVec, smallvec};

/// A script as it is called: by its digest, and by its text where the server does not know it.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

/// What a script does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Decide,
    Peek,
    Charge,
    Refund,
}

impl Op {
    const fn word(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Peek => "peek",
            Self::Charge => "charge",
            Self::Refund => "refund",
        }
    }

    /// Whether it may be asked for again when nobody knows whether it was done: at worst more is consumed than was used.
    pub(super) const fn is_repeatable(self) -> bool {
        !matches!(self, Self::Refund)
    }
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, digest: Hashed::new(text).get_hash().to_owned() }
    }

    /// The call by digest: `EVALSHA`, digest, number of keys, the keys, and three arguments: what to do, [`doubles`] that say
    /// what there is to know of the quota, and [`doubles`] with permits for each key. Each argument costs the server a tenth of
    /// a microsecond, so the numbers of one kind are one.
    pub(super) fn call<'a>(
        &self,
        op: Op,
        quota: &[u8],
        decisions: impl ExactSizeIterator<Item = (&'a str, u64)> + Clone,
    ) -> Cmd {
        /// Enough for the words.
        const BESIDES: usize = 32;
        const NAME: usize = 64;
        const ARGS: usize = 6;
        let count = decisions.len();
        let numbers = quota.len() + count * size_of::<f64>();
        let mut cmd = Cmd::with_capacity(ARGS + count, BESIDES + self.digest.len() + count * NAME + numbers);
        cmd.arg("EVALSHA").arg(&self.digest).arg(count);
        for (name, _) in decisions.clone() {
            cmd.arg(name);
        }
        cmd.arg(op.word()).arg(quota).arg(doubles(decisions.map(|(_, permits)| permits)));
        cmd
    }

    /// The same call by text, after which the server knows the script.
    ///
    /// To load it and call it again would be two steps, and it may be forgotten between them.
    pub(super) fn in_full(&self, call: &Cmd) -> Cmd {
        let mut cmd = Cmd::new();
        cmd.arg("EVAL").arg(self.text);
        for arg in call.args_iter().skip(2) {
            if let Arg::Simple(bytes) = arg {
                cmd.arg(bytes);
            }
        }
        cmd
    }
}

/// Numbers as scripts take them: doubles, big-endian, one after the other. They are exact below 2^53.
pub(super) fn doubles(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(|number| (number as f64).to_be_bytes()).collect()
}

/// The numbers that a script answers with: one by itself, or some in a list.
pub(super) fn numbers(answer: &Value) -> Option<SmallVec<[u64; 3]>> {
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    match answer {
        Value::Array(values) => values.iter().map(number).collect(),
        value => number(value).map(|number| smallvec![number]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_full_has_the_same_key_and_arguments() {
        let script = Script::new("return 1");
        assert_eq!(script.digest, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let quota = doubles([2].into_iter());
        assert_eq!(quota, [0x40, 0, 0, 0, 0, 0, 0, 0]);
        let call = script.call(Op::Decide, b"quota", [("k", 0), ("l", 0)].into_iter());
        let args = |cmd: &Cmd| -> Vec<String> {
            let text = |arg| match arg {
                Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => panic!("no argument"),
            };
            cmd.args_iter().map(text).collect()
        };
        assert_eq!(args(&call)[2..], ["2", "k", "l", "decide", "quota", &"\0".repeat(16)]);
        let full = script.in_full(&call);
        assert_eq!(args(&full)[..2], ["EVAL", "return 1"]);
        assert_eq!(args(&full)[2..], args(&call)[2..]);
    }

    #[test]
    fn an_answer_is_a_number_or_a_list_of_some() {
        assert_eq!(numbers(&Value::Int(7)).unwrap()[..], [7]);
        assert_eq!(numbers(&Value::Array(vec![Value::Int(1), Value::Int(2)])).unwrap()[..], [1, 2]);
        let other = Value::Array(vec![Value::Int(1), Value::Nil]);
        for bad in [Value::Okay, Value::Int(-1), other] {
            assert_eq!(numbers(&bad), None, "{bad:?}");
        }
    }
}
