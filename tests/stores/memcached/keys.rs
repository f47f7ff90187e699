//! Keys that somebody else chooses.

use std::collections::HashSet;

use peerlimit::Quota;

use super::*;

const QUOTA: Quota = Quota::per_hour(1_000);

fn hostile_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b""[..],
        b" ",
        b"a b",
        b"a\r\nflush_all\r\n",
        b"\r\nflush_all\r\n",
        b"x N0 J0\r\nflush_all\r\nmg x",
        b"x\nflush_all\n",
        b"\r\nset canary 0 0 1\r\n0\r\n",
        b"\r\nshutdown\r\n",
        b"\r\nquit\r\n",
        b"a\0b",
        b"\x7f",
        b"\t",
        b"\x1b[2J",
        b"{a}",
        b"\xff\xfe",
        "\u{e4}\u{20ac}".as_bytes(),
        b"#36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a43",
        b"=a",
    ]
    .map(Vec::from)
    .into();
    for len in [64, 65, 249, 250, 251, 1_000, 1 << 20] {
        keys.push(vec![b'k'; len]);
        keys.push(vec![b' '; len]);
    }
    keys.extend((0..=255).map(|byte| vec![b'c', byte]));
    keys
}

#[tokio::test]
async fn keys_of_any_length_and_bytes_work_and_none_is_another() {
    let Some(server) = start() else { return };
    let limiter = builder("api", QUOTA, &server).prefix("p".repeat(64)).build().unwrap();
    let keys = hostile_keys();
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for (uses, key) in keys.iter().enumerate() {
        let cost = uses as u64 + 1;
        assert_eq!(limiter.check_n(key, cost).await.unwrap().remaining, 1_000 - cost, "{key:?}");
    }
    // Each was used by itself alone.
    for (uses, key) in keys.iter().enumerate() {
        assert_eq!(limiter.remaining(key).await.unwrap(), 1_000 - (uses as u64 + 1), "{key:?}");
        assert_eq!(limiter.refund(key, 1).await.unwrap().remaining, 1_000 - uses as u64, "{key:?}");
        limiter.reset(key).await.unwrap();
        assert_eq!(limiter.remaining(key).await.unwrap(), 1_000, "{key:?}");
    }
}

#[tokio::test]
async fn nothing_can_be_injected_by_a_key() {
    let Some(server) = start() else { return };
    raw(&server, "set canary 0 0 3\r\nyes");
    let limiter = limiter("api", QUOTA, &server);
    let keys = hostile_keys();
    for key in &keys {
        assert!(limiter.allow(key).await.unwrap());
        assert!(limiter.peek(key).await.unwrap().allowed);
        let _state = limiter.charge(key, 1).await.unwrap();
        let _state = limiter.refund(key, 1).await.unwrap();
    }
    assert_eq!(raw(&server, "mg canary v"), "VA 3\nyes\n");
    let stats = raw(&server, "stats");
    let stat = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {stats}")).parse::<usize>().unwrap()
    };
    assert_eq!(stat("cmd_flush"), 0);
    assert_eq!(stat("curr_items"), keys.len() + 1);
    for key in &keys {
        limiter.reset(key).await.unwrap();
    }
    assert_eq!(raw(&server, "mg canary v"), "VA 3\nyes\n");
}

#[tokio::test]
async fn no_counter_is_left_without_an_expiry() {
    let Some(server) = start() else { return };
    let limiter = limiter("api", Quota::per_hour(10), &server);
    for key in (0..50).map(|key| format!("user:{key}")) {
        let _state = limiter.peek(&key).await.unwrap();
        let _state = limiter.refund(&key, 5).await.unwrap();
        let _state = limiter.charge(&key, 3).await.unwrap();
        let _state = limiter.check_n(&key, 8).await.unwrap();
        let _state = limiter.refund(&key, 20).await.unwrap();
        let _state = limiter.check_n(&key, 99).await.unwrap();
    }
    let dump = raw_until(&server, "lru_crawler metadump all", "END");
    let counters: Vec<&str> = dump.lines().filter(|line| line.starts_with("key=")).collect();
    assert_eq!(counters.len(), 50, "{dump}");
    assert!(counters.iter().all(|line| !line.contains("exp=-1") && !line.contains("exp=0")), "{dump}");
}
