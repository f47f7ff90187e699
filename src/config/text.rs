//! Values that are text in a file: durations, quotas, lists, names with ports.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// Whatever can be parsed.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: std::error::Error>>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

/// Names and what can be parsed.
pub(super) fn parsed_values<'de, D, T>(from: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::error::Error>,
{
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    let parse = |(name, text): (String, String)| match parse(&text) {
        Ok(value) => Ok((name, value)),
        Err(reason) => Err(D::Error::custom(format!("{name}: {reason}"))),
    };
    texts.into_iter().map(parse).collect()
}

/// With the cause, as these errors are shown as text.
fn parse<T: FromStr<Err: std::error::Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}

/// `200ms`, `1h 30m`.
pub(super) fn parsed_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format!("{text:?} is no time, write a number and a unit as in \"200ms\": {error}"))
    })
}

pub(super) fn optional_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    parsed_duration(from).map(Some)
}

/// `name:port`.
pub(super) fn optional_name_and_port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(String, u16)>, D::Error> {
    let text = String::deserialize(from)?;
    let parts = text.rsplit_once(':').and_then(|(name, port)| Some((name.to_owned(), port.parse().ok()?)));
    let parts = parts.filter(|(name, port)| !name.is_empty() && *port != 0);
    let parts =
        parts.ok_or_else(|| D::Error::custom(format!("{text:?} is no name with a port, as in \"peers:7946\"")))?;
    Ok(Some(parts))
}

/// A list, or a text with commas, as a variable of the environment is.
pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of texts, or a text with commas")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Ok(parts.map(str::to_owned).collect())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                list.push(item);
            }
            Ok(list)
        }
    }

    from.deserialize_any(List)
}
