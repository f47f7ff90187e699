//! A DNS server that answers by a script, which the test may change at any time.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped here fails the test")]
#![allow(dead_code, reason = "each test target uses a part of it")]

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use hickory_server::{
    Server,
    net::{runtime::Time, xfer::Protocol},
    proto::{
        op::{Header, HeaderCounts, Metadata, ResponseCode},
        rr::{Name, RData, Record, RecordType, rdata},
    },
    server::{Request, RequestHandler, ResponseHandler, ResponseInfo},
    zone_handler::MessageResponseBuilder,
};
use tokio::net::{TcpListener, UdpSocket};

/// What to answer to one question.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These records, and these along with them.
    Records(Vec<Record>, Vec<Record>),
    /// A bare response code: with `NoError`, there are no records of the type.
    Code(ResponseCode),
    /// Nothing at all.
    Silence,
    /// Over UDP, that the answer does not fit; over TCP, these records.
    OverTcp(Vec<Record>),
}

/// The script and the questions asked so far.
#[derive(Default)]
struct Script {
    replies: HashMap<(String, RecordType), Reply>,
    otherwise: Option<Reply>,
    asked: Vec<(String, RecordType, Protocol)>,
}

/// The server; it ends when dropped.
pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    _server: Server<Handler>,
}

impl DnsServer {
    /// Starts a server on loopback that knows no name.
    pub(crate) async fn start() -> Self {
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            // The system picks the port for TCP; that of UDP may be taken, and then another pair is.
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        Self::serve(udp, tcp)
    }

    /// Starts a server that knows no name, at these sockets. Has to be called in a runtime.
    pub(crate) fn serve(udp: UdpSocket, tcp: TcpListener) -> Self {
        let address = udp.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let mut server = Server::new(Handler(Arc::clone(&script)));
        server.register_socket(udp);
        server.register_listener(tcp, Duration::from_secs(10), 64);
        Self { address, script, _server: server }
    }

    /// Sets the reply to questions for this type of records of this name, which is complete without a final dot.
    pub(crate) fn reply(&self, name: &str, kind: RecordType, reply: Reply) {
        self.script().replies.insert((name.to_owned(), kind), reply);
    }

    /// Sets the A and AAAA records of a name; where there are none of a family, that is the answer.
    pub(crate) fn addresses(&self, name: &str, ips: &[&str]) {
        for kind in [RecordType::A, RecordType::AAAA] {
            let records = records(name, ips);
            let records = records.into_iter().filter(|r| r.record_type() == kind);
            self.reply(name, kind, Reply::Records(records.collect(), Vec::new()));
        }
    }

    /// Sets the reply to all questions that have none of their own. Until then, no such name exists.
    pub(crate) fn otherwise(&self, reply: Reply) {
        self.script().otherwise = Some(reply);
    }

    /// The questions so far, as `name type`, with ` tcp` after it where that was used; each as often as it was asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        let script = self.script();
        let asked = script.asked.iter().map(|(name, kind, protocol)| match protocol {
            Protocol::Udp => format!("{name} {kind}"),
            _ => format!("{name} {kind} tcp"),
        });
        asked.collect()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

/// One A or AAAA record for each address.
pub(crate) fn records(name: &str, ips: &[&str]) -> Vec<Record> {
    let data = ips.iter().map(|ip| match ip.parse().unwrap() {
        IpAddr::V4(ip) => RData::A(ip.into()),
        IpAddr::V6(ip) => RData::AAAA(ip.into()),
    });
    data.map(|data| record(name, data)).collect()
}

/// One SRV record.
pub(crate) fn service(name: &str, target: &str, port: u16) -> Record {
    record(name, RData::SRV(rdata::SRV::new(0, 0, port, complete(target))))
}

/// One CNAME record.
pub(crate) fn alias(name: &str, target: &str) -> Record {
    record(name, RData::CNAME(rdata::CNAME(complete(target))))
}

/// A TTL of a day, so that an answer from a cache would be noticed.
fn record(name: &str, data: RData) -> Record {
    Record::from_rdata(complete(name), 86_400, data)
}

fn complete(name: &str) -> Name {
    let mut name = Name::from_ascii(name).unwrap();
    name.set_fqdn(true);
    name
}

struct Handler(Arc<Mutex<Script>>);

impl Handler {
    fn reply_to(&self, request: &Request) -> Reply {
        let query = request.request_info().unwrap().query;
        let name = query.name().to_string().trim_end_matches('.').to_owned();
        let kind = query.query_type();
        let mut script = self.0.lock().unwrap();
        script.asked.push((name.clone(), kind, request.protocol()));
        let reply = script.replies.get(&(name, kind)).or(script.otherwise.as_ref());
        reply.cloned().unwrap_or(Reply::Code(ResponseCode::NXDomain))
    }
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response_handle: R,
    ) -> ResponseInfo {
        let mut metadata = Metadata::response_from_request(&request.metadata);
        let over_udp = request.protocol() == Protocol::Udp;
        let (answers, additionals) = match self.reply_to(request) {
            Reply::Records(answers, additionals) => (answers, additionals),
            Reply::OverTcp(answers) if !over_udp => (answers, Vec::new()),
            Reply::OverTcp(_) => {
                metadata.truncation = true;
                (Vec::new(), Vec::new())
            }
            Reply::Code(code) => {
                metadata.response_code = code;
                (Vec::new(), Vec::new())
            }
            Reply::Silence => {
                let counts = HeaderCounts::default();
                return Header { metadata, counts }.into();
            }
        };
        let response =
            MessageResponseBuilder::from_message_request(request).build(metadata, &answers, &[], &[], &additionals);
        response_handle.send_response(response).await.unwrap()
    }
}
