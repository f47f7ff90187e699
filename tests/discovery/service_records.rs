//! SRV records.

use super::*;

fn serve(server: &DnsServer, targets: &[(&str, u16)], additionals: Vec<hickory_server::proto::rr::Record>) {
    let records = targets.iter().map(|(target, port)| service(SERVICE, target, *port));
    server.reply(SERVICE, RecordType::SRV, Reply::Records(records.collect(), additionals));
}

#[tokio::test]
async fn give_the_port_of_each_target() {
    let server = DnsServer::start().await;
    serve(&server, &[("a.test", 1001), ("b.test", 1002), ("b.test", 1003)], Vec::new());
    server.addresses("a.test", &["192.0.2.1", "2001:db8::1"]);
    server.addresses("b.test", &["192.0.2.2"]);
    assert_eq!(
        round(&services(&server)).await,
        addresses(&["192.0.2.1:1001", "192.0.2.2:1002", "192.0.2.2:1003", "[2001:db8::1]:1001"]),
    );
}

#[tokio::test]
async fn are_asked_for_anew_in_every_round() {
    let server = DnsServer::start().await;
    let services = services(&server);
    assert_eq!(round(&services).await, []);
    server.addresses("a.test", &["192.0.2.1"]);
    serve(&server, &[("a.test", 1001)], Vec::new());
    assert_eq!(round(&services).await, addresses(&["192.0.2.1:1001"]));
    serve(&server, &[("a.test", 2002)], Vec::new());
    assert_eq!(round(&services).await, addresses(&["192.0.2.1:2002"]));
}

#[tokio::test]
async fn with_a_target_that_does_not_resolve_give_the_others() {
    for failure in [Reply::Code(ResponseCode::NXDomain), Reply::Code(ResponseCode::ServFail), Reply::Silence] {
        let server = DnsServer::start().await;
        serve(&server, &[("bad.test", 1000), ("a.test", 1001), ("b.test", 1002)], Vec::new());
        server.otherwise(failure.clone());
        server.addresses("a.test", &["192.0.2.1"]);
        server.addresses("b.test", &["2001:db8::2"]);
        let services = services(&server).timeout(Duration::from_secs(2));
        assert_eq!(round(&services).await, addresses(&["192.0.2.1:1001", "[2001:db8::2]:1002"]), "{failure:?}");
    }
}

#[tokio::test]
async fn whose_addresses_come_along_need_no_further_question() {
    let server = DnsServer::start().await;
    let mut along = records("a.test", &["192.0.2.1"]);
    along.extend(records("b.test", &["192.0.2.2"]));
    along.extend(records("stranger.test", &["192.0.2.3"]));
    serve(&server, &[("a.test", 1001), ("b.test", 1002)], along);
    assert_eq!(round(&services(&server)).await, addresses(&["192.0.2.1:1001", "192.0.2.2:1002"]));
    assert_eq!(server.asked(), [format!("{SERVICE} SRV")]);
}

#[tokio::test]
async fn whose_addresses_came_along_in_part_are_made_up_for_by_questions() {
    let server = DnsServer::start().await;
    let along = records("a.test", &["192.0.2.1", "2001:db8::1"]);
    let more = records("b.test", &["192.0.2.2"]);
    serve(&server, &[("a.test", 1001), ("b.test", 1002), ("c.test", 1003)], [along, more].concat());
    server.addresses("b.test", &["192.0.2.99", "2001:db8::2"]);
    server.addresses("c.test", &["192.0.2.3"]);
    assert_eq!(
        round(&services(&server)).await,
        addresses(&["192.0.2.1:1001", "192.0.2.2:1002", "192.0.2.3:1003", "[2001:db8::1]:1001", "[2001:db8::2]:1002",]),
    );
}

#[tokio::test]
async fn that_decline_the_service_give_nobody() {
    let server = DnsServer::start().await;
    serve(&server, &[(".", 0)], Vec::new());
    assert_eq!(round(&services(&server)).await, []);
}

#[tokio::test]
async fn that_are_truncated_are_fetched_over_tcp() {
    let server = DnsServer::start().await;
    let srv = vec![service(SERVICE, "a.test", 1001)];
    server.reply(SERVICE, RecordType::SRV, Reply::OverTcp(srv));
    server.addresses("a.test", &["192.0.2.1"]);
    assert_eq!(round(&services(&server)).await, addresses(&["192.0.2.1:1001"]));
}
