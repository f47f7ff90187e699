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

    /// The call by digest, on one key.
    pub(super) fn call(&self, key: &str, op: Op, numbers: &[u64]) -> Cmd {
        /// Enough for the numbers and the words.
        const BESIDES: usize = 128;
        const ARGS: usize = 10;
        let mut cmd = Cmd::with_capacity(ARGS, BESIDES + self.digest.len() + key.len());
        cmd.arg("EVALSHA").arg(&self.digest).arg(1_u8).arg(key).arg(op.word());
        for number in numbers {
            cmd.arg(*number);
        }
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
        let call = script.call("k", Op::Decide, &[7, u64::MAX]);
        let args = |cmd: &Cmd| -> Vec<String> {
            let text = |arg| match arg {
                Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => panic!("no argument"),
            };
            cmd.args_iter().map(text).collect()
        };
        assert_eq!(args(&call)[2..], ["1", "k", "decide", "7", "18446744073709551615"]);
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
