//! The layers of this crate, enforced over its sources.
//!
//! `names, bucket < crdt < table < gossip < net, discovery < limiter`: a layer uses only those before it. `backend` says what
//! a limiter is, over `bucket`; `stores` are other limiters, and `http` puts any limiter in front of a service. Time,
//! sockets, tasks and randomness enter in the last ones; what is below takes them as arguments.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

struct Layer {
    name: &'static str,
    /// Modules of the crate that it may use besides itself.
    uses: &'static [&'static str],
    /// Words that must not occur in its code.
    never: &'static [&'static str],
}

/// Clocks, sockets, tasks, and randomness of the system.
const OUTSIDE: &[&str] = &[
    "Instant",
    "SystemTime",
    "tokio",
    "UdpSocket",
    "TcpListener",
    "TcpStream",
    "socket2",
    "getrandom",
    "rand::rng",
    "ThreadRng",
    "SysRng",
    "SystemRandom",
    "std::thread",
];
const IO: &[&str] = &["std::io", "std::fs", "std::net", "std::env", "std::process"];
const LOCKS: &[&str] = &["Mutex", "RwLock", "parking_lot", "atomic", "AtomicU64", "AtomicBool", "OnceLock", "LazyLock"];
const RANDOM: &[&str] = &["rand", "RandomState"];
/// What may switch tasks: where none of it is, no lock is held across a switch. Above that clippy sees to it, by
/// `await_holding_lock`.
const SWITCHES: &[&str] = &["async", "await", "Future"];

const LAYERS: &[Layer] = &[
    Layer { name: "names", uses: &[], never: &["IO", "OUTSIDE", "RANDOM", "SWITCHES"] },
    Layer { name: "bucket", uses: &[], never: &["LOCKS", "IO", "OUTSIDE", "RANDOM", "SWITCHES"] },
    Layer { name: "backend", uses: &["bucket"], never: &["LOCKS", "IO", "OUTSIDE", "RANDOM"] },
    // Addresses are of `std::net`.
    Layer { name: "http", uses: &["bucket", "backend"], never: &["LOCKS", "OUTSIDE", "RANDOM"] },
    Layer { name: "crdt", uses: &["bucket"], never: &["LOCKS", "IO", "OUTSIDE", "RANDOM", "SWITCHES"] },
    Layer { name: "table", uses: &["names", "bucket", "crdt"], never: &["IO", "OUTSIDE", "RANDOM", "SWITCHES"] },
    Layer { name: "gossip", uses: &["bucket", "crdt", "table"], never: &["OUTSIDE", "SWITCHES"] },
    Layer { name: "discovery", uses: &[], never: &["getrandom", "rand::rng", "SystemTime"] },
    Layer { name: "net", uses: &["bucket", "crdt", "table", "gossip", "discovery"], never: &[] },
    // What waits for a server has timeouts.
    Layer {
        name: "stores",
        uses: &["names", "bucket", "backend", "net"],
        never: &["Instant", "SystemTime", "getrandom", "rand::rng", "ThreadRng", "SysRng", "std::thread"],
    },
    Layer {
        name: "config",
        uses: &["bucket", "discovery", "gossip", "limiter"],
        never: &["LOCKS", "OUTSIDE", "RANDOM"],
    },
    Layer {
        name: "limiter",
        uses: &["bucket", "backend", "crdt", "table", "gossip", "discovery", "net"],
        never: &["OUTSIDE"],
    },
];

/// What a file may say in spite of its layer, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Whether there is a runtime is asked where a start can still fail with an error.
    ("limiter/builder.rs", "tokio::runtime::Handle"),
];

fn words(layer: &Layer) -> Vec<&'static str> {
    let mut words = Vec::new();
    for word in layer.never {
        match *word {
            "LOCKS" => words.extend(LOCKS),
            "IO" => words.extend(IO),
            "OUTSIDE" => words.extend(OUTSIDE),
            "RANDOM" => words.extend(RANDOM),
            "SWITCHES" => words.extend(SWITCHES),
            word => words.push(word),
        }
    }
    words
}

/// The offences in one file of `layer`, as `file:line: what`. `file` is its path under `src`.
fn offences(layer: &Layer, file: &str, source: &str) -> Vec<String> {
    let mut code = code_only(source);
    for (_, said) in EXCEPTIONS.iter().filter(|(path, _)| *path == file) {
        code = code.replace(said, &" ".repeat(said.len()));
    }
    let mut offences = Vec::new();
    let mut offend = |at: usize, what: String| {
        let line = code[..at].matches('\n').count() + 1;
        offences.push(format!("src/{file}:{line}: {what}"));
    };
    for (at, module) in crate_paths(&code, depth(file)) {
        if module != layer.name && !layer.uses.contains(&module.as_str()) {
            offend(at, format!("`{}` must not use `crate::{module}`", layer.name));
        }
    }
    for word in words(layer) {
        for at in occurrences(&code, word) {
            offend(at, format!("`{}` must not mention `{word}`", layer.name));
        }
    }
    offences.sort();
    offences
}

/// How many modules deep the items of a file are: 1 in `table/mod.rs`, 2 in `table/shard.rs`.
fn depth(file: &str) -> usize {
    let parts = file.split('/').count();
    if file.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// Every first segment after `crate::`, or after as many `super::` as lead to the root, with its place.
fn crate_paths(code: &str, depth: usize) -> Vec<(usize, String)> {
    let root = "super::".repeat(depth);
    let mut paths = Vec::new();
    for prefix in ["crate::", root.as_str()] {
        for at in occurrences(code, prefix) {
            let start = at + prefix.len();
            if code[start..].trim_start().starts_with('{') {
                let open = start + code[start..].find('{').unwrap_or_default();
                paths.extend(first_segments(code, open));
            } else {
                paths.push((at, ident(&code[start..])));
            }
        }
    }
    // `super::super::x` is also found inside a longer chain; that one is the parent's business.
    paths.retain(|(_, module)| !module.is_empty() && module != "super");
    paths
}

/// The first segments in the braces that open at `open`, not those in braces within.
fn first_segments(code: &str, open: usize) -> Vec<(usize, String)> {
    let (mut segments, mut nested, mut fresh) = (Vec::new(), 0, true);
    for (offset, char) in code[open..].char_indices() {
        match char {
            '{' => nested += 1,
            '}' if nested == 1 => break,
            '}' => nested -= 1,
            ',' if nested == 1 => fresh = true,
            _ if nested == 1 && fresh && !char.is_whitespace() => {
                segments.push((open + offset, ident(&code[open + offset..])));
                fresh = false;
            }
            _ => {}
        }
    }
    segments
}

fn is_ident(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn ident(text: &str) -> String {
    text.trim_start().chars().take_while(|char| is_ident(*char)).collect()
}

/// Where `word` stands by itself. `rand::rng` is not in `rand::rngs`, and `crate::` is not in `mycrate::`.
fn occurrences(code: &str, word: &str) -> Vec<usize> {
    let bounded = |at: &usize| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let open_ended = word.ends_with("::");
        before.is_none_or(|char| !is_ident(char) && (open_ended || char != '$'))
            && (open_ended || after.is_none_or(|char| !is_ident(char)))
    };
    code.match_indices(word).map(|(at, _)| at).filter(bounded).collect()
}

/// The source with comments, strings and test modules blanked out. Lines keep their numbers.
fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(char) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if char == '"' {
            string_end(rest)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            code.push(char);
            rest = &rest[char.len_utf8()..];
            continue;
        };
        code.extend(rest[..skipped].chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
        rest = &rest[skipped..];
    }
    blank_tests(code)
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Blanks every item under `#[cfg(test)]`, up to its end.
fn blank_tests(mut code: String) -> String {
    while let Some(start) = code.find("#[cfg(test)]") {
        let (mut nested, mut end) = (0, code.len());
        for (offset, char) in code[start..].char_indices() {
            match char {
                '{' => nested += 1,
                '}' => nested -= 1,
                _ => {}
            }
            if nested == 0 && (char == '}' || char == ';') {
                end = start + offset + 1;
                break;
            }
        }
        let blank: String = code[start..end].chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// All sources under `dir`, without those of tests.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    // A directory that cannot be read has no sources, which fails the test.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path));
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn a_layer_uses_only_those_below_it() {
    let root = source_root();
    let mut found = String::new();
    for layer in LAYERS {
        let files = sources(&root.join(layer.name));
        assert!(!files.is_empty(), "layer {} has no sources", layer.name);
        for path in files {
            let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let file = path.strip_prefix(&root).expect("is below it").to_string_lossy().replace('\\', "/");
            for offence in offences(layer, &file, &source) {
                let _infallible = writeln!(found, "{offence}");
            }
        }
    }
    assert!(found.is_empty(), "layers are broken:\n{found}");
}

#[test]
fn an_exception_that_nobody_needs_goes() {
    for (file, said) in EXCEPTIONS {
        let path = source_root().join(file);
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(code_only(&source).contains(said), "src/{file} does not say `{said}` any more");
    }
}

/// What the checker says of a file of a layer.
fn said(layer: &str, file: &str, source: &str) -> Vec<String> {
    LAYERS.iter().filter(|known| known.name == layer).flat_map(|layer| offences(layer, file, source)).collect()
}

#[test]
fn a_planted_offence_is_found_with_its_file_and_line() {
    let up = said("crdt", "crdt/log.rs", "//! Docs.\n\nuse crate::bucket::Tat;\nuse crate::table::Table;\n");
    assert_eq!(up, ["src/crdt/log.rs:4: `crdt` must not use `crate::table`"]);

    let grouped = "use crate::{\n    bucket::{Gcra, Tat},\n    crdt::Digest,\n    gossip::{Engine, wire::{Tag}},\n};\n";
    assert_eq!(said("table", "table/mod.rs", grouped), ["src/table/mod.rs:4: `table` must not use `crate::gossip`"]);

    let inline = "fn f() {\n    let x = crate::net::Clock::new();\n}\n";
    assert_eq!(said("gossip", "gossip/push.rs", inline), ["src/gossip/push.rs:2: `gossip` must not use `crate::net`"]);
    // A re-export of the root hides a layer.
    assert_eq!(said("table", "table/mod.rs", "use crate::Quota;").len(), 1);

    let around = "use super::super::gossip::Engine;\n";
    assert_eq!(said("table", "table/shard.rs", around), ["src/table/shard.rs:1: `table` must not use `crate::gossip`"]);
    assert_eq!(said("table", "table/mod.rs", "use super::gossip::Engine;").len(), 1);
    assert!(said("table", "table/shard.rs", "use super::Rule;").is_empty());

    for (layer, line) in [
        ("bucket", "use std::time::{Duration, Instant};"),
        ("bucket", "use std::sync::atomic::Ordering;"),
        ("crdt", "x: parking_lot::Mutex<u64>,"),
        ("crdt", "use std::sync::RwLock;"),
        ("table", "use std::fs::File;"),
        ("table", "let socket = std::net::UdpSocket::bind(addr);"),
        ("gossip", "let now = std::time::SystemTime::now();"),
        ("gossip", "tokio::spawn(f());"),
        ("gossip", "let mut rng = rand::rng();"),
        ("gossip", "let frame = stream.read().await;"),
        ("table", "pub async fn sweep(&self) {"),
        ("gossip", "getrandom::fill(&mut bytes)"),
        ("gossip", "use tokio::net::TcpListener;"),
        ("limiter", "tokio::spawn(f());"),
        ("discovery", "use crate::gossip::Engine;"),
        ("net", "use crate::limiter::Limiter;"),
        ("http", "use crate::limiter::Limiter;"),
        ("http", "let now = std::time::Instant::now();"),
    ] {
        let file = format!("{layer}/x.rs");
        let found = said(layer, &file, &format!("\n{line}\n"));
        assert!(!found.is_empty(), "{line:?} in `{layer}` is not found");
        assert!(found.iter().all(|offence| offence.starts_with(&format!("src/{file}:2: "))), "{found:?}");
    }
}

#[test]
fn what_is_no_code_is_no_offence() {
    let source = r##"
//! [`Engine`](crate::gossip::Engine) and tokio.
/* crate::net */
/// An Instant, a Mutex.
use rand::rngs::Xoshiro256PlusPlus;
const TEXT: &str = "use crate::net; \" tokio";
const RAW: &str = r#"crate::limiter "tokio" "#;
fn f() -> char { '"' }
struct InstantNoodles(mycrate::net::X);

#[cfg(test)]
mod tests;

#[cfg(test)]
mod inline {
    use crate::limiter::Limiter;
    fn g() { if true { tokio::spawn(h()); } }
}
"##;
    assert_eq!(said("gossip", "gossip/engine.rs", source), Vec::<String>::new());
    // And what follows a test module is code again.
    let after = format!("{source}use crate::net::Clock;\n");
    let line = after.lines().count();
    let found = said("gossip", "gossip/engine.rs", &after);
    assert_eq!(found, [format!("src/gossip/engine.rs:{line}: `gossip` must not use `crate::net`")]);
    // An exception holds for its file alone.
    let handle = "tokio::runtime::Handle::try_current()";
    assert!(said("limiter", "limiter/builder.rs", handle).is_empty());
    assert_eq!(said("limiter", "limiter/mod.rs", handle).len(), 1);
}
