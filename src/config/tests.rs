//! Settings as people write them, and as they mistype them.

use std::time::Duration;

use super::*;

fn vars(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const TOML: &str = r#"
quota = "100/s burst 50"
preset = "wan"
node = "pod-1"
cluster = "payments"
bind = "[::]:7946"
advertise = "10.0.0.7:7946"
peers = ["a:7946", "b:7946"]
dns = "peers.default.svc:7946"
srv = "_peerlimit._udp.peers.default.svc"
discover_interval = "5s"
sync_interval = "100ms"
push_gap = "10ms"
datagram_budget = 500
anti_entropy_interval = "2s"
probe_interval = "2s"
suspicion_timeout = "1m"
on_partition = "conservative"
max_keys = 2048

[scopes]
login = "5/m"

[evict_idle]
key_ttl = "1h 30m"
sweep_interval = "1m"
"#;

/// The same settings.
const YAML: &str = r#"
quota: 100/s burst 50
preset: wan
node: pod-1
cluster: payments
bind: "[::]:7946"
advertise: 10.0.0.7:7946
peers: [a:7946, b:7946]
dns: peers.default.svc:7946
srv: _peerlimit._udp.peers.default.svc
discover_interval: 5s
sync_interval: 100ms
push_gap: 10ms
datagram_budget: 500
anti_entropy_interval: 2s
probe_interval: 2s
suspicion_timeout: 1m
on_partition: conservative
max_keys: 2048
scopes:
  login: 5/m
evict_idle:
  key_ttl: 1h 30m
  sweep_interval: 1m
"#;

const VARS: &[(&str, &str)] = &[
    ("PL_QUOTA", "100/s burst 50"),
    ("PL_PRESET", "wan"),
    ("PL_NODE", "pod-1"),
    ("PL_CLUSTER", "payments"),
    ("PL_BIND", "[::]:7946"),
    ("PL_ADVERTISE", "10.0.0.7:7946"),
    ("PL_PEERS", "a:7946, b:7946"),
    ("PL_DNS", "peers.default.svc:7946"),
    ("PL_SRV", "_peerlimit._udp.peers.default.svc"),
    ("PL_DISCOVER_INTERVAL", "5s"),
    ("PL_SYNC_INTERVAL", "100ms"),
    ("PL_PUSH_GAP", "10ms"),
    ("PL_DATAGRAM_BUDGET", "500"),
    ("PL_ANTI_ENTROPY_INTERVAL", "2s"),
    ("PL_PROBE_INTERVAL", "2s"),
    ("PL_SUSPICION_TIMEOUT", "1m"),
    ("PL_ON_PARTITION", "conservative"),
    ("PL_MAX_KEYS", "2048"),
    ("PL_SCOPES__LOGIN", "5/m"),
    ("PL_EVICT_IDLE__KEY_TTL", "1h 30m"),
    ("PL_EVICT_IDLE__SWEEP_INTERVAL", "1m"),
    ("PLANET", "is of somebody else"),
];

#[test]
fn toml_yaml_and_the_environment_say_the_same() {
    let toml = Config::from_toml(TOML).unwrap();
    assert_eq!(toml.quota, Quota::per_second(100).burst(50));
    assert_eq!(toml.scopes["login"], Quota::per_minute(5));
    assert_eq!(toml.peers, ["a:7946", "b:7946"]);
    assert_eq!(toml.dns, Some(("peers.default.svc".to_owned(), 7946)));
    assert_eq!(toml.evict_idle.unwrap().key_ttl, Duration::from_secs(90 * 60));
    assert_eq!((toml.preset, toml.on_partition), (Some(Preset::Wan), Some(PartitionPolicy::Conservative)));
    assert_eq!((toml.max_keys, toml.datagram_budget), (Some(2048), Some(500)));
    let said = format!("{toml:?}");
    assert_eq!(format!("{:?}", Config::from_yaml(YAML).unwrap()), said);
    assert_eq!(format!("{:?}", Config::from_vars("PL", vars(VARS)).unwrap()), said);
    // No field of theirs is forgotten here.
    assert_eq!(said.matches(": None").count(), 2, "the secrets alone are not set: {said}");
    assert!(toml.into_builder().is_ok());
}

#[test]
fn what_is_not_said_has_its_default() {
    let config = Config::from_toml("quota = '1/s'").unwrap();
    assert!(config.scopes.is_empty() && config.peers.is_empty() && config.bind.is_none());
    assert!(config.into_builder().is_ok());
}

/// What is said of settings that are not good.
fn error(toml: &str) -> String {
    match Config::from_toml(toml).map(Config::into_builder) {
        Ok(Ok(_)) => panic!("{toml} is good"),
        Ok(Err(error)) | Err(error) => {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            format!("{error}{}", source.unwrap_or_default())
        }
    }
}

#[test]
fn errors_name_the_field_the_value_and_the_bound() {
    for (toml, said) in [
        ("", "quota: missing"),
        ("quota = '1/s'\nsync_intervall = '1s'", "sync_intervall: unknown field `sync_intervall`, expected one of"),
        ("quota = '1/s'\n[evict_idle]\nkey_ttl = '1h'\nsweep = '1s'", "evict_idle.sweep: unknown field `sweep`"),
        (
            "quota = '1/s'\n[evict_idle]\nkey_ttl = 'soon'\nsweep_interval = '1s'",
            "evict_idle.key_ttl: \"soon\" is no time",
        ),
        ("quota = '1/s'\npush_gap = 5", "push_gap: \"5\" is no time"),
        ("quota = 'fast'", "quota: \"fast\" is no quota; write COUNT/PERIOD"),
        ("quota = '0/s'", "quota count is 0, must be at least 1"),
        ("quota = '1/s'\n[scopes]\nlogin = '5 a minute'", "scopes: login: \"5 a minute\" is no quota"),
        ("quota = '1/s'\nbind = 'here'", "bind: "),
        ("quota = '1/s'\ndns = 'peers'", "dns: \"peers\" is no name with a port"),
        ("quota = '1/s'\npreset = 'moon'", "preset: "),
        ("quota = '1/s'\nmax_keys = -1", "max_keys: invalid type"),
        ("quota = '1/s'\nmax_keys = 5", "max_keys is 5, must be from 1024 to 268435456"),
        ("quota = '1/s'\nsync_interval = '1ms'", "sync_interval is 1ms, must be from 10ms to 60s"),
        ("quota = '1/s'\npeers = ['nowhere']", "discover was given something"),
        ("quota = '1/s'\n[secret]\nfile = '/nowhere/secrets'", "secret.file: /nowhere/secrets"),
        ("quota = '1/s'\ndigest_secret_file = '/nowhere/key'", "digest_secret_file: /nowhere/key"),
        ("quota = ", "settings cannot be read: TOML parse error at line 1"),
    ] {
        let error = error(toml);
        assert!(error.contains(said), "{toml:?} says {error:?}, not {said:?}");
    }
    let unknown = Config::from_vars("PL", vars(&[("PL_QUOTA", "1/s"), ("PL_MAXKEYS", "2048")])).unwrap_err();
    assert!(unknown.to_string().starts_with("maxkeys: unknown field"), "{unknown}");
}

#[test]
fn what_stands_in_a_file_gives_way_to_the_environment() {
    let file = std::env::temp_dir().join(format!("peerlimit-config-{}.toml", std::process::id()));
    std::fs::write(&file, "quota = '1/s'\nnode = 'from the file'").unwrap();
    let prefix = format!("PEERLIMIT_NOBODY_SETS_{}", std::process::id());
    let config = Config::from_file_and_env(&file, &prefix).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(config.node.as_deref(), Some("from the file"));
    assert!(matches!(Config::from_file_and_env(&file, &prefix), Err(ConfigError::Source { .. })));
    // The same layers, with variables that are given.
    let layers = sources::layered("quota = '1/s'\nnode = 'from the file'", "PL", vars(&[("PL_NODE", "from outside")]));
    assert_eq!(layers.unwrap().node.as_deref(), Some("from outside"));
}

#[tokio::test]
async fn a_limiter_starts_with_its_scopes_and_secrets() {
    let file = std::env::temp_dir().join(format!("peerlimit-config-secrets-{}", std::process::id()));
    std::fs::write(&file, "ab".repeat(32)).unwrap();
    let toml = format!(
        "quota = '7/h'\nbind = '127.0.0.1:0'\n[scopes]\nlogin = '3/h'\n[secret]\nfile = {file:?}\nsealing = 'preferred'"
    );
    let limiter = Config::from_toml(&toml).unwrap().start().await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(limiter.check("key").limit, 7);
    // The second quota would be ignored.
    assert_eq!(limiter.scope("login", Quota::per_hour(3)).check("key").remaining, 2);
    limiter.close().await;
}
