//! Lists of addresses and host names.

use super::*;

#[tokio::test]
async fn gives_its_addresses_in_order_and_resolves_its_names() {
    let list = StaticDiscoverer::new(["192.0.2.2:1", " [2001:db8::1]:2 ", "192.0.2.1:3", "192.0.2.2:1"]);
    assert_eq!(list.discover().await.unwrap(), addresses(&["192.0.2.2:1", "[2001:db8::1]:2", "192.0.2.1:3"]));

    let found = StaticDiscoverer::new(["localhost:7946".to_owned()]).discover().await.unwrap();
    assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 7946));
    assert!(!found.is_empty());
}

#[tokio::test]
async fn with_a_name_that_fails_gives_the_others() {
    // Reserved for names that do not exist (RFC 6761).
    let list = StaticDiscoverer::new(["no-such-peer.invalid:7946", "192.0.2.1:7946"]);
    for _ in 0..2 {
        assert_eq!(list.discover().await.unwrap(), addresses(&["192.0.2.1:7946"]));
    }
}

#[tokio::test]
async fn with_a_malformed_entry_is_refused_and_the_entry_named() {
    for entry in ["nonsense", "host:99999", ":7946", "::1:7946", ""] {
        let entries = ["192.0.2.1:7946", entry];
        for error in [
            StaticDiscoverer::try_new(entries).unwrap_err(),
            StaticDiscoverer::new(entries).validate().unwrap_err(),
            StaticDiscoverer::new(entries).discover().await.unwrap_err(),
        ] {
            assert!(error.to_string().contains(&format!("{entry:?}")), "{error}");
            assert!(matches!(error, DiscoverError::Invalid { .. }));
        }
    }
}

#[tokio::test]
async fn may_be_empty() {
    let list = StaticDiscoverer::try_new([] as [String; 0]).unwrap();
    assert_eq!(list.discover().await.unwrap(), []);
}
