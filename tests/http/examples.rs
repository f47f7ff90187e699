//! The examples, as the processes that they are.

use std::{
    env::{consts::EXE_SUFFIX, current_exe},
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

fn start(name: &str, args: &[&str]) -> Child {
    let test = current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples").join(format!("{name}{EXE_SUFFIX}"));
    let hint = "`cargo build --all-features --examples` makes it";
    assert!(path.is_file(), "{} is missing: {hint}", path.display());
    Command::new(path).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// One replica of an example that serves. Dropping it kills it.
struct Replica {
    process: Child,
    output: BufReader<ChildStdout>,
    listen: String,
}

impl Replica {
    fn start(name: &str, args: &[&str]) -> Self {
        let mut process = start(name, &[&["--listen", "127.0.0.1:0"], args].concat());
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let listen = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("began with {line:?}"));
        Self { listen: listen.into(), process, output }
    }

    async fn ask(&self, path: &str, fields: &[(&str, &str)]) -> (u16, HeaderMap) {
        let (status, headers, _) = self.read(path, fields).await;
        (status, headers)
    }

    async fn read(&self, path: &str, fields: &[(&str, &str)]) -> (u16, HeaderMap, String) {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut request = Request::get(format!("http://{}{path}", self.listen));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let response = client.request(request.body(Empty::<Bytes>::new()).unwrap()).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Ends its input, and returns what it says then.
    fn end(mut self) -> String {
        drop(self.process.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        assert!(self.process.wait().unwrap().success());
        said
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axum_limits_users_by_their_tier_and_everybody_by_their_address() {
    let replica = Replica::start("axum", &["--gossip", "127.0.0.1:0"]);
    let search = async |token: &'static str, from: &'static str| {
        replica.ask("/search", &[("authorization", token), ("x-forwarded-for", from)]).await
    };
    for _ in 0..5 {
        assert_eq!(search("Bearer free-ann", "192.0.2.1").await.0, 200);
    }
    let (status, fields) = search("Bearer free-ann", "192.0.2.1").await;
    assert_eq!(status, 429);
    assert!(fields.contains_key("retry-after") && fields.contains_key("x-ratelimit-limit"), "{fields:?}");
    let policies: Vec<_> = fields.get_all("ratelimit-policy").iter().map(|value| value.to_str().unwrap()).collect();
    assert!(policies.join(", ").contains("\"free\"") && policies.join(", ").contains("\"default\""), "{policies:?}");
    assert_eq!(search("Bearer free-bob", "192.0.2.2").await.0, 200, "another user has a bucket of their own");
    assert_eq!(search("Bearer paid-eve", "192.0.2.3").await.0, 200);
    assert_eq!(replica.ask("/search", &[]).await.0, 401, "nobody searches without a name");
    let mut refused = 0;
    for _ in 0..60 {
        refused += u32::from(replica.ask("/", &[("x-forwarded-for", "192.0.2.9")]).await.0 == 429);
    }
    assert!(refused > 0, "60 requests at once from one address");
    for _ in 0..60 {
        let (status, fields, figures) = replica.read("/metrics", &[("x-forwarded-for", "192.0.2.9")]).await;
        assert_eq!((status, fields.contains_key("ratelimit")), (200, false), "figures are not behind the limit");
        assert!(figures.contains("\nsearches_total{tier=\"free\"} 6\n"), "{figures}");
    }
    let of_limiter = async || {
        let (_, _, figures) = replica.read("/metrics", &[]).await;
        let counts =
            |line: &&str| line.starts_with("peerlimit_decisions_total{") && line.contains("outcome=\"refused\"");
        figures.lines().filter(counts).any(|line| !line.ends_with(" 0"))
    };
    // It reports once a second.
    let mut reports = false;
    for _ in 0..400 {
        reports = of_limiter().await;
        if reports {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(reports, "the limiter reports nothing");
    assert_eq!(replica.end(), "closed\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tonic_says_resource_exhausted_and_how_long_to_wait() {
    let replica = Replica::start("tonic", &["--gossip", "127.0.0.1:0"]);
    let channel =
        Endpoint::from_shared(format!("http://{}", replica.listen)).unwrap().connect().await.expect("connects");
    let mut client = HealthClient::new(channel);
    let request = || HealthCheckRequest { service: String::new() };
    // Five at once; a slow machine may see some more, as two a second come back.
    let mut passed = 0;
    let refused = loop {
        match client.check(request()).await {
            Ok(answer) => {
                assert!(answer.metadata().contains_key("ratelimit"), "{answer:?}");
                passed += 1;
                assert!(passed < 1_000, "no limit");
            }
            Err(status) => break status,
        }
    };
    assert!(passed >= 5, "{passed} calls passed");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let wait = refused.get_details_retry_info().and_then(|info| info.retry_delay).expect("how long to wait");
    assert!(!wait.is_zero() && wait.as_millis() <= 500, "{wait:?}");
    tokio::time::sleep(wait).await;
    assert!(client.check(request()).await.is_ok(), "it passes on time");
    let stream = client.watch(request()).await.expect_err("costs three");
    let longer = stream.get_details_retry_info().and_then(|info| info.retry_delay).expect("how long to wait");
    assert!(longer > wait, "{longer:?}");
    drop(client);
    assert_eq!(replica.end(), "closed\n");
}

#[test]
fn client_keeps_to_the_limit_of_the_api_that_it_calls() {
    let output = start("client", &[]).wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.ends_with("20 of 20 passed\n"), "{said}");
}
