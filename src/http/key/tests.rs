use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
};

use http::{HeaderName, Request};
use proptest::prelude::*;

use super::*;

fn key_of(extractor: &impl KeyExtractor, request: &Request<()>) -> Result<Vec<u8>, KeyError> {
    let mut key = KeyWriter::new();
    extractor.extract(&RequestHead::of(request), &mut key)?;
    Ok(key.as_bytes().to_vec())
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).expect("a request")
}

fn with_header(name: &str, value: &str) -> Request<()> {
    Request::get("/").header(name, value).body(()).expect("a request")
}

fn from_addr(addr: &str) -> Request<()> {
    let mut request = get("/");
    request.extensions_mut().insert(PeerAddr(SocketAddr::new(addr.parse().expect("an address"), 1)));
    request
}

#[test]
fn parts_of_a_key_do_not_run_into_each_other() {
    let name = HeaderName::from_static;
    let both = (header(name("one")), header(name("two")));
    let request = |one: &str, two: &str| Request::get("/").header("one", one).header("two", two).body(()).unwrap();
    let keys: HashSet<_> = [("a", "bc"), ("ab", "c"), ("abc", "x"), ("a", "b")]
        .map(|(one, two)| key_of(&both, &request(one, two)).unwrap())
        .into();
    assert_eq!(keys.len(), 4);
    // Nor do tuples in tuples.
    let abc = from_fn(|_, key| {
        key.write("a");
        Ok(())
    });
    let nested = key_of(&((abc.clone(), abc.clone()), abc.clone()), &get("/"));
    assert_ne!(nested, key_of(&(abc.clone(), (abc.clone(), abc)), &get("/")));
}

#[test]
fn a_bearer_token_is_in_no_key_and_in_no_debug_output() {
    let secret = "s3cret-token";
    let key = key_of(&bearer_token(), &with_header("authorization", &format!("Bearer {secret}"))).expect("a key");
    assert_eq!(key.len(), 32);
    assert!(!String::from_utf8_lossy(&key).contains(secret));
    let mut writer = KeyWriter::new();
    writer.write(secret);
    assert!(!format!("{writer:?}").contains("115") && !format!("{writer:?}").contains(secret));
    // Schemes are written in any case, and tokens are told apart.
    assert_eq!(Ok(key.clone()), key_of(&bearer_token(), &with_header("authorization", "bearer   s3cret-token")));
    assert_ne!(Ok(key), key_of(&bearer_token(), &with_header("authorization", "Bearer s3cret-tokem")));
    for none in ["Basic dXNlcg==", "Bearer", "Bearer ", "Bearers x", ""] {
        assert_eq!(key_of(&bearer_token(), &with_header("authorization", none)), Err(KeyError::NoToken), "{none:?}");
    }
}

#[test]
fn spellings_of_one_path_are_one_key_and_different_paths_are_two() {
    let key = |uri: &str| key_of(&path(), &get(uri)).map(|key| String::from_utf8(key).expect("ASCII"));
    assert_eq!(key("/%61pi/%7euser?x=1"), Ok("/api/~user".into()));
    assert_eq!(key("/a%2fb"), Ok("/a%2Fb".into()));
    assert_ne!(key("/a%2fb"), key("/a/b"));
    assert_eq!(key("/100%"), Ok("/100%".into()));
    assert_eq!(key("/%zz%4"), Ok("/%zz%4".into()));
    let method = |method: &str| Request::builder().method(method).uri("/x").body(()).unwrap();
    assert_eq!(key_of(&method_and_path(), &method("PUT")), Ok(b"PUT /x".to_vec()));
    assert_ne!(key_of(&method_and_path(), &method("PUT")), key_of(&method_and_path(), &method("POST")));
}

#[test]
fn a_query_parameter_is_decoded_and_the_first_of_its_name_counts() {
    let key = |uri: &str| key_of(&query("user"), &get(uri)).map(|key| String::from_utf8(key).expect("UTF-8"));
    assert_eq!(key("/?a=1&user=j%6fe+doe&user=x"), Ok("joe doe".into()));
    assert_eq!(key("/?us%65r=joe"), Ok("joe".into()));
    for none in ["/", "/?", "/?user", "/?user=", "/?users=joe"] {
        assert_eq!(key(none), Err(KeyError::NoQuery("user".into())), "{none}");
    }
}

#[test]
fn a_header_that_is_empty_is_missing() {
    let name = HeaderName::from_static("x-api-key");
    let by_header = header(name.clone());
    assert_eq!(key_of(&by_header, &with_header("x-api-key", "abc")), Ok(b"abc".to_vec()));
    assert_eq!(key_of(&by_header, &with_header("x-api-key", "")), Err(KeyError::NoHeader(name.clone())));
    assert_eq!(key_of(&by_header, &get("/")), Err(KeyError::NoHeader(name)));
}

#[test]
fn no_peer_address_is_an_error_and_not_a_bucket() {
    let error = key_of(&peer_addr(), &get("/")).expect_err("no address");
    assert_eq!(error, KeyError::NoPeerAddr);
    assert_eq!(error.status().as_u16(), 500);
}

#[test]
fn ten_thousand_addresses_of_one_ipv6_network_share_a_bucket_unless_told_otherwise() {
    let addr = |host: u32| from_addr(&format!("2001:db8:1:2:{:x}:{:x}::1", host >> 16, host & 0xffff));
    let keys = |extractor: &dyn Fn(&Request<()>) -> Vec<u8>| -> HashSet<_> {
        (0..10_000).map(|host| extractor(&addr(host * 7_919))).collect()
    };
    assert_eq!(keys(&|request| key_of(&peer_addr(), request).unwrap()).len(), 1);
    assert_eq!(keys(&|request| key_of(&peer_addr().ipv6_prefix(128), request).unwrap()).len(), 10_000);
    // The neighbouring network is another, but not where networks are larger.
    let neighbour = from_addr("2001:db8:1:3::1");
    assert_ne!(key_of(&peer_addr(), &addr(1)), key_of(&peer_addr(), &neighbour));
    let site = peer_addr().ipv6_prefix(48);
    assert_eq!(key_of(&site, &addr(1)), key_of(&site, &neighbour));
    assert_eq!(key_of(&peer_addr().ipv6_prefix(0), &neighbour), Ok(vec![0; 16]));
    assert_eq!(key_of(&peer_addr().ipv6_prefix(255), &neighbour).map(|key| key[15]), Ok(1));
}

#[test]
fn an_ipv4_address_mapped_to_ipv6_is_that_address() {
    assert_eq!(key_of(&peer_addr(), &from_addr("::ffff:192.0.2.7")), Ok(vec![192, 0, 2, 7]));
    assert_eq!(key_of(&peer_addr(), &from_addr("192.0.2.7")), Ok(vec![192, 0, 2, 7]));
}

/// The client of a request from `peer` with these lines of `header`.
fn client(proxies: TrustedProxies, header: ForwardedHeader, peer: &str, lines: &[&str]) -> IpAddr {
    let name = match header {
        ForwardedHeader::XForwardedFor => "x-forwarded-for",
        ForwardedHeader::Forwarded => "forwarded",
    };
    let mut request = from_addr(peer);
    for line in lines {
        request.headers_mut().append(name, line.parse().expect("a value"));
    }
    let key = key_of(&peer_addr().behind(proxies, header).ipv6_prefix(128), &request).expect("an address");
    match key.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(key).unwrap()),
        _ => IpAddr::from(<[u8; 16]>::try_from(key).unwrap()),
    }
}

fn by_x_forwarded_for(peer: &str, lines: &[&str]) -> String {
    let proxies = TrustedProxies::networks(["10.0.0.0/8", "fd00::1"]).expect("networks");
    client(proxies, ForwardedHeader::XForwardedFor, peer, lines).to_string()
}

fn by_forwarded(peer: &str, lines: &[&str]) -> String {
    let proxies = TrustedProxies::networks(["10.0.0.0/8"]).expect("networks");
    client(proxies, ForwardedHeader::Forwarded, peer, lines).to_string()
}

#[test]
fn forwarded_addresses_are_not_believed_by_default() {
    let mut request = from_addr("192.0.2.1");
    request.headers_mut().insert("x-forwarded-for", "198.51.100.1".parse().unwrap());
    request.headers_mut().insert("forwarded", "for=198.51.100.2".parse().unwrap());
    assert_eq!(key_of(&peer_addr(), &request), Ok(vec![192, 0, 2, 1]));
    // Nor from a peer that is no proxy, nor in the other header.
    assert_eq!(by_x_forwarded_for("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
    request.extensions_mut().insert(PeerAddr("10.0.0.1:1".parse().unwrap()));
    let proxies = TrustedProxies::networks(["10.0.0.0/8"]).unwrap();
    let by_forwarded = peer_addr().behind(proxies, ForwardedHeader::Forwarded);
    assert_eq!(key_of(&by_forwarded, &request), Ok(vec![198, 51, 100, 2]));
}

#[test]
fn the_right_most_address_that_is_no_proxy_counts_over_several_lines() {
    assert_eq!(by_x_forwarded_for("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
    assert_eq!(by_x_forwarded_for("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
    assert_eq!(
        by_x_forwarded_for("10.0.0.1", &["1.1.1.1,2.2.2.2", "198.51.100.1", "10.0.0.3 , 10.0.0.2"]),
        "198.51.100.1"
    );
    // All are proxies: the left-most; and without a header the peer.
    assert_eq!(by_x_forwarded_for("10.0.0.1", &["10.0.0.9, 10.0.0.2"]), "10.0.0.9");
    assert_eq!(by_x_forwarded_for("10.0.0.1", &[]), "10.0.0.1");
    // Ports, brackets, mapped addresses, empty elements.
    assert_eq!(by_x_forwarded_for("10.0.0.1", &["198.51.100.1:4711"]), "198.51.100.1");
    assert_eq!(by_x_forwarded_for("10.0.0.1", &["[2001:db8::1]:80"]), "2001:db8::1");
    assert_eq!(by_x_forwarded_for("::ffff:10.0.0.1", &["2001:db8::1, ::ffff:10.0.0.4,,"]), "2001:db8::1");
    assert_eq!(by_x_forwarded_for("fd00::1", &["2001:db8::1"]), "2001:db8::1");
}

#[test]
fn what_a_proxy_cannot_say_stops_at_that_proxy() {
    assert_eq!(by_x_forwarded_for("10.0.0.1", &["198.51.100.1, unknown, 10.0.0.2"]), "10.0.0.2");
    assert_eq!(by_forwarded("10.0.0.1", &["for=198.51.100.1, for=_hidden"]), "10.0.0.1");
    assert_eq!(by_forwarded("10.0.0.1", &["for=198.51.100.1, for=unknown, for=10.0.0.7"]), "10.0.0.7");
    assert_eq!(by_forwarded("10.0.0.1", &["for=198.51.100.1, proto=https"]), "10.0.0.1");
    assert_eq!(by_forwarded("10.0.0.1", &["for=1.1.1.1;for=2.2.2.2"]), "10.0.0.1");
}

#[test]
fn the_forwarded_header_is_read_as_its_rfc_says() {
    // Section 4 of RFC 7239 has most of these.
    for (line, expected) in [
        ("for=192.0.2.43", "192.0.2.43"),
        ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
        ("for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17"),
        ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
        ("by=203.0.113.43 ; FOR = \"192.0.2.60:80\"", "192.0.2.60"),
        ("for=\"192.0.2.60:_http\"", "192.0.2.60"),
        ("for=192.0.2.43, for=198.51.100.17", "198.51.100.17"),
        ("for=192.0.2.43;host=\"a,b;for=9.9.9.9\"", "192.0.2.43"),
        ("for=192.0.2.43;host=\"a\\\",b\"", "192.0.2.43"),
    ] {
        assert_eq!(by_forwarded("10.0.0.1", &[line]), expected, "{line}");
    }
    assert_eq!(by_forwarded("10.0.0.1", &["for=1.1.1.1", "for=192.0.2.43, for=\"10.0.0.2:1\""]), "192.0.2.43");
}

#[test]
fn a_spoofed_forwarded_header_does_not_hide_what_the_proxy_appended() {
    for spoofed in
        ["for=1.2.3.4", "for=\"", "for=\"1.2.3.4", "for=1.2.3.4;host=\"\\", "\\\"\\", ",,;=\"", "for=\"\\\"x"]
    {
        let appended = format!("{spoofed}, for=192.0.2.43;by=\"[fd00::1]\"");
        assert_eq!(by_forwarded("10.0.0.1", &[&appended]), "192.0.2.43", "{spoofed}");
        assert_eq!(by_forwarded("10.0.0.1", &[spoofed, "for=192.0.2.43"]), "192.0.2.43", "{spoofed}");
    }
}

#[test]
fn a_number_of_hops_takes_the_address_that_the_outermost_proxy_saw() {
    let hops = |count, lines: &[&str]| {
        client(TrustedProxies::hops(count), ForwardedHeader::XForwardedFor, "203.0.113.9", lines).to_string()
    };
    assert_eq!(hops(0, &["1.1.1.1, 192.0.2.1"]), "203.0.113.9");
    assert_eq!(hops(1, &["1.1.1.1, 192.0.2.1"]), "192.0.2.1");
    assert_eq!(hops(2, &["1.1.1.1, 192.0.2.1", "198.51.100.2"]), "192.0.2.1");
    assert_eq!(hops(5, &["1.1.1.1, 192.0.2.1"]), "1.1.1.1");
    assert_eq!(hops(1, &[]), "203.0.113.9");
}

#[test]
fn a_network_that_is_none_is_named() {
    let error = TrustedProxies::networks(["10.0.0.0/8", "10.0.0.0/33"]).expect_err("no network");
    assert_eq!(error.to_string(), "`10.0.0.0/33` is neither an address nor a network such as 10.0.0.0/8");
    // Networks of mapped addresses are those of IPv4.
    let mapped = TrustedProxies::networks(["::ffff:10.0.0.0/104"]).expect("a network");
    assert_eq!(client(mapped, ForwardedHeader::XForwardedFor, "10.1.2.3", &["192.0.2.1"]).to_string(), "192.0.2.1");
}

/// What is written to a key: bytes, or a part of several writes.
fn writes() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..50)), 0..8)
}

/// Bytes that mean something, that do not, and that are no ASCII.
fn bytes_of_values() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(b"\"\\,;=[]:._ for1".as_slice()), 0x20_u8..0x7f, 0x80_u8..=0xff]
}

proptest! {
    #[test]
    fn a_key_is_what_was_written_to_it_however_long_it_gets(writes in writes()) {
        let (mut key, mut expected) = (KeyWriter::new(), Vec::new());
        for (in_part, bytes) in &writes {
            if *in_part {
                let part = |key: &mut KeyWriter| {
                    let (one, other) = bytes.split_at(bytes.len() / 2);
                    key.write(one);
                    key.write(other);
                    Ok::<_, KeyError>(())
                };
                prop_assert_eq!(key.part(part), Ok(()));
                expected.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            } else {
                key.write(bytes);
            }
            expected.extend_from_slice(bytes);
            prop_assert_eq!(key.as_bytes(), &expected[..]);
        }
        let clone = key.clone();
        prop_assert_eq!(clone.as_bytes(), &expected[..]);
    }

    #[test]
    fn malformed_values_of_headers_never_panic(
        lines in prop::collection::vec(prop::collection::vec(bytes_of_values(), 0..40), 0..4),
        networks in any::<bool>(),
        forwarded in any::<bool>(),
    ) {
        let header = if forwarded { ForwardedHeader::Forwarded } else { ForwardedHeader::XForwardedFor };
        let everybody = TrustedProxies::networks(["0.0.0.0/0", "::/0"]).unwrap();
        let proxies = if networks { everybody } else { TrustedProxies::hops(3) };
        let mut request = from_addr("10.0.0.1");
        for line in lines {
            let Ok(value) = http::HeaderValue::from_bytes(&line) else { continue };
            for name in ["x-forwarded-for", "forwarded", "authorization"] {
                request.headers_mut().append(name, value.clone());
            }
        }
        prop_assert!(key_of(&peer_addr().behind(proxies, header), &request).is_ok());
        let _any = key_of(&(bearer_token(), super::header(http::header::FORWARDED)), &request);
    }

    #[test]
    fn what_a_trusted_proxy_appends_counts_whatever_stands_before(
        spoofed in "[ -~]{0,40}",
        quoted in any::<bool>(),
    ) {
        let appended = if quoted { "for=\"[2001:db8::7]:1\"" } else { "for=\"[2001:db8::7]\";proto=http" };
        let line = format!("{spoofed}, {appended}");
        prop_assert_eq!(by_forwarded("10.0.0.1", &[&line]), "2001:db8::7");
        let line = format!("{spoofed}, 192.0.2.1");
        prop_assert_eq!(by_x_forwarded_for("10.0.0.1", &[&line]), "192.0.2.1");
    }

    #[test]
    fn targets_never_panic(uri in "/[ -~]{0,30}(\\?[ -~]{0,30})?") {
        if let Ok(request) = Request::get(uri).body(()) {
            let _any = key_of(&(method_and_path(), query("a")), &request);
        }
    }
}
