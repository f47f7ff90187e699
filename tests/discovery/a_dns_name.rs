//! A and AAAA records.

use super::*;

#[tokio::test]
async fn gives_the_addresses_of_both_families() {
    let server = DnsServer::start().await;
    server.addresses(NAME, &["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    assert_eq!(round(&peers(&server)).await, addresses(&["192.0.2.1:7946", "192.0.2.2:7946", "[2001:db8::1]:7946"]),);
}

#[tokio::test]
async fn is_asked_anew_in_every_round_whatever_its_ttl() {
    let server = DnsServer::start().await;
    let peers = peers(&server);
    server.addresses(NAME, &["192.0.2.1"]);
    assert_eq!(round(&peers).await, addresses(&["192.0.2.1:7946"]));
    server.addresses(NAME, &["192.0.2.2", "2001:db8::2"]);
    assert_eq!(round(&peers).await, addresses(&["192.0.2.2:7946", "[2001:db8::2]:7946"]));
    server.addresses(NAME, &[]);
    assert_eq!(round(&peers).await, []);
}

#[tokio::test]
async fn that_gives_nothing_yet_gives_addresses_as_soon_as_it_has_some() {
    let nothing = [
        Reply::Code(ResponseCode::NXDomain),
        Reply::Code(ResponseCode::ServFail),
        Reply::Code(ResponseCode::Refused),
        Reply::Code(ResponseCode::NoError),
        Reply::Silence,
    ];
    for reply in nothing {
        let server = DnsServer::start().await;
        let peers = peers(&server).timeout(BRIEF);
        server.otherwise(reply.clone());
        let found = timeout(PATIENT, round(&peers)).await;
        assert_eq!(found, Ok(Vec::new()), "{reply:?}");

        server.addresses(NAME, &["192.0.2.1"]);
        assert_eq!(round(&peers.timeout(PATIENT)).await, addresses(&["192.0.2.1:7946"]), "{reply:?}");
    }
}

#[tokio::test]
async fn gives_one_family_when_the_other_fails_or_is_silent() {
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    for failure in [Reply::Code(ResponseCode::ServFail), Reply::Code(ResponseCode::NXDomain), Reply::Silence] {
        for (found, given, missing) in [(v4, RecordType::A, RecordType::AAAA), (v6, RecordType::AAAA, RecordType::A)] {
            let server = DnsServer::start().await;
            server.reply(NAME, given, Reply::Records(records(NAME, &[found]), Vec::new()));
            server.reply(NAME, missing, failure.clone());
            // The silent family is not waited for until the end.
            let round = timeout(PATIENT / 2, peers(&server).discover()).await;
            let expected = SocketAddr::new(found.parse().unwrap(), 7946);
            assert_eq!(round.unwrap().unwrap(), [expected], "{failure:?}");
        }
    }
}

#[tokio::test]
async fn gives_what_came_in_before_time_was_up() {
    let server = DnsServer::start().await;
    server.addresses(NAME, &["192.0.2.1"]);
    server.reply(NAME, RecordType::AAAA, Reply::Silence);
    let peers = peers(&server).timeout(Duration::from_secs(1));
    assert_eq!(round(&peers).await, addresses(&["192.0.2.1:7946"]));
}

#[tokio::test]
async fn is_asked_over_tcp_when_the_answer_is_truncated() {
    let server = DnsServer::start().await;
    let many: Vec<String> = (1..=200).map(|n| format!("192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    server.reply(NAME, RecordType::A, Reply::OverTcp(records(NAME, &many)));
    server.reply(NAME, RecordType::AAAA, Reply::Code(ResponseCode::NoError));
    assert_eq!(round(&peers(&server)).await.len(), 200);
    assert!(server.asked().contains(&format!("{NAME} A tcp")));
}

#[tokio::test]
async fn may_be_an_alias_of_another_name() {
    let server = DnsServer::start().await;
    let aliased = Reply::Records(vec![alias(NAME, "real.test")], Vec::new());
    server.reply(NAME, RecordType::A, aliased.clone());
    server.reply(NAME, RecordType::AAAA, aliased);
    server.addresses("real.test", &["192.0.2.1", "2001:db8::1"]);
    assert_eq!(round(&peers(&server)).await, addresses(&["192.0.2.1:7946", "[2001:db8::1]:7946"]));
}

#[tokio::test]
async fn gives_no_address_twice_and_none_at_which_nobody_can_be_reached() {
    let server = DnsServer::start().await;
    server.addresses(NAME, &["192.0.2.1", "0.0.0.0", "192.0.2.1", "::ffff:192.0.2.1", "::"]);
    assert_eq!(round(&peers(&server)).await, addresses(&["192.0.2.1:7946"]));
}

#[tokio::test]
async fn is_looked_for_at_the_next_server_when_one_fails_is_silent_or_is_gone() {
    let good = DnsServer::start().await;
    good.addresses(NAME, &["192.0.2.1"]);
    let failing = DnsServer::start().await;
    for failure in [Reply::Code(ResponseCode::ServFail), Reply::Code(ResponseCode::Refused), Reply::Silence] {
        failing.otherwise(failure.clone());
        let peers = peers(&good).name_servers([failing.address, failing.address, good.address]);
        assert_eq!(round(&peers).await, addresses(&["192.0.2.1:7946"]), "{failure:?}");
    }
    // Nobody is at this address: the servers of other tests are at 127.0.0.1.
    let gone = "127.0.0.99:9".parse().unwrap();
    let peers = peers(&good).name_servers([gone, good.address]);
    assert_eq!(round(&peers).await, addresses(&["192.0.2.1:7946"]));
}

#[tokio::test]
async fn that_no_server_tells_of_holds_the_round_no_longer_than_its_timeout() {
    let silent = DnsServer::start().await;
    silent.otherwise(Reply::Silence);
    let limit = Duration::from_secs(2);
    let peers = peers(&silent).name_servers([silent.address; 8]).timeout(limit);
    let found = timeout(limit * 3 / 2, round(&peers)).await;
    assert_eq!(found, Ok(Vec::new()));
}

#[tokio::test]
async fn that_one_server_denies_is_not_looked_for_at_the_next() {
    let (first, second) = (DnsServer::start().await, DnsServer::start().await);
    second.addresses(NAME, &["192.0.2.1"]);
    let peers = peers(&first).name_servers([first.address, second.address]);
    assert_eq!(round(&peers).await, []);
    assert_eq!(second.asked(), [] as [String; 0]);
}

#[tokio::test]
async fn counts_as_complete_where_name_servers_are_given() {
    let server = DnsServer::start().await;
    round(&peers(&server)).await;
    let mut asked = server.asked();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, [format!("{NAME} A"), format!("{NAME} AAAA")]);
}

#[tokio::test]
async fn may_be_asked_for_by_several_rounds_at_once() {
    let server = DnsServer::start().await;
    server.addresses(NAME, &["192.0.2.1"]);
    let peers = peers(&server);
    let (one, two) = tokio::join!(round(&peers), round(&peers));
    assert_eq!((one.len(), two.len()), (1, 1));
}

#[test]
fn or_another_setting_that_cannot_be_used_is_refused_by_what_it_is() {
    let server: SocketAddr = "127.0.0.1:53".parse().unwrap();
    let good = || DnsDiscoverer::new(NAME, 7946);
    assert!(good().validate().is_ok());
    for (discoverer, hint) in [
        (DnsDiscoverer::new("", 7946), r#"dns name """#),
        (DnsDiscoverer::new("10.0.0.1", 7946), "10.0.0.1"),
        (DnsDiscoverer::new("::1", 7946), "::1"),
        (DnsDiscoverer::new("peers.test:7946", 7946), "peers.test:7946"),
        (DnsDiscoverer::new("two words", 7946), "two words"),
        (DnsDiscoverer::new(NAME, 0), "dns port"),
        (good().timeout(Duration::ZERO), "dns timeout"),
        (good().timeout(Duration::MAX), "dns timeout"),
        (good().name_servers([]), "dns name servers"),
        (good().name_servers([server; 9]), "dns name servers"),
        (good().name_servers(["127.0.0.1:0".parse().unwrap()]), "127.0.0.1:0"),
    ] {
        let error = discoverer.validate().expect_err(hint);
        assert!(matches!(error, DiscoverError::Invalid { .. }));
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn that_cannot_be_used_fails_every_round() {
    let error = DnsDiscoverer::new("two words", 7946).discover().await.unwrap_err();
    assert!(matches!(error, DiscoverError::Invalid { .. }));
}
