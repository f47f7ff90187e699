//! What answers at the address, and is no memcached.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use peerlimit::{Quota, stores::memcached::MemcachedError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
    time::sleep,
};

use super::*;

const SHORT: Duration = Duration::from_millis(50);

/// Answers the first command of each connection with `answer`, and ends there if `ends`.
struct Impostor {
    addr: String,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Impostor {
    async fn start(answer: &'static [u8], ends: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Relaxed);
                let mut command = [0; 1_024];
                if !answer.is_empty() {
                    let _read = stream.read(&mut command).await;
                    let _written = stream.write_all(answer).await;
                }
                if !ends {
                    kept.push(stream);
                }
            }
        });
        Self { addr, connections, task }
    }

    fn limiter(&self) -> FixedWindow {
        self.builder().build().unwrap()
    }

    fn builder(&self) -> Builder {
        FixedWindow::builder("api", Quota::per_minute(10)).server(&self.addr).timeout(SHORT).connect_timeout(SHORT)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_at_once() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        b"-ERR unknown command 'ma'\r\n",
        b"\0\0\0\0\r\n",
        b"HD\n",
        b"VA 1000000000 t60 O0\r\n",
        b"VA 1 t60 O0\r\nx\r\n",
        b"VA 1 O0\r\n1\r\n",
        // The answer to another command.
        b"VA 1 t60 O1\r\n1\r\n",
        b"VA 1 t60\r\n1\r\n",
        // One that this command cannot have.
        b"HD O0\r\n",
        b"NF O0\r\n",
        &[b'x'; 4_096],
    ] {
        let impostor = Impostor::start(garbage, false).await;
        let begin = Instant::now();
        let error = impostor.limiter().check("key").await.unwrap_err();
        let shown = String::from_utf8_lossy(garbage);
        assert!(matches!(error, MemcachedError::Garbled { .. }), "{shown:?}: {error:?}");
        assert!(begin.elapsed() < SHORT, "{shown:?}: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn what_a_server_says_against_it_is_passed_on() {
    for message in ["ERROR", "ERROR Too many open connections", "SERVER_ERROR out of memory storing object"] {
        let answer = format!("{message}\r\n").leak();
        let impostor = Impostor::start(answer.as_bytes(), false).await;
        match impostor.limiter().check("key").await {
            Err(MemcachedError::Refused { message: said, .. }) => assert_eq!(said, message),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for part in [&b"VA 1 t60 O0\r\n"[..], b"VA 1 t6", b"VA 1 t60 O0\r\n1", b"V"] {
        let impostor = Impostor::start(part, true).await;
        let error = impostor.limiter().check("key").await.unwrap_err();
        assert!(matches!(error, MemcachedError::Disconnected { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_window_that_the_servers_clock_puts_in_the_past_is_an_error() {
    // What a server answers whose clock is ahead by more than the window: the counter is gone at once.
    let impostor = Impostor::start(b"VA 1 t4294967235 O0\r\n1\r\n", false).await;
    let quota = Quota::new(60, Duration::from_secs(60 * 24 * 60 * 60)).unwrap();
    let limiter = FixedWindow::builder("api", quota).server(&impostor.addr).timeout(SHORT).build().unwrap();
    let error = limiter.check("key").await.unwrap_err();
    assert!(matches!(error, MemcachedError::Expiry { window, .. } if window == quota.period()), "{error:?}");
}

#[tokio::test]
async fn a_server_that_fails_at_once_is_left_alone_between_tries() {
    let impostor = Impostor::start(b"", true).await;
    let limiter = impostor.limiter();
    let begin = Instant::now();
    let mut asked = 0;
    while begin.elapsed() < Duration::from_millis(1_500) {
        limiter.check("key").await.unwrap_err();
        asked += 1;
        sleep(Duration::from_millis(1)).await;
    }
    // Waits of 10 to 20 ms, 20 to 40, and so on to 250 to 500.
    let connections = impostor.connections.load(Relaxed);
    assert!((4..=12).contains(&connections), "{connections} connections for {asked} checks");
}

#[tokio::test]
async fn more_than_are_held_are_told_so() {
    let impostor = Impostor::start(b"", false).await;
    let limiter = impostor.builder().max_waiting(4).build().unwrap();
    let begin = Instant::now();
    let checks: Vec<_> = (0..20).map(|_| tokio::spawn(limiter.check("key"))).collect();
    let (mut busy, mut timed_out) = (0, 0);
    for check in checks {
        match check.await.unwrap() {
            Err(MemcachedError::Busy { most: 4, .. }) => busy += 1,
            Err(MemcachedError::Timeout { .. }) => timed_out += 1,
            other => panic!("{other:?}"),
        }
    }
    // Some may wait on their way to the task, besides those that it holds.
    assert!(timed_out >= 4 && busy >= 12, "{busy} busy, {timed_out} timed out");
    assert!(begin.elapsed() < 2 * SHORT, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn one_that_asks_while_others_are_overdue_has_its_own_timeout() {
    let impostor = Impostor::start(b"", false).await;
    let limiter = impostor.limiter();
    let first = tokio::spawn(limiter.check("key"));
    // The first one is told that it took too long, and its answer is waited for further, until 150 ms.
    sleep(Duration::from_millis(60)).await;
    assert!(first.is_finished());
    let begin = Instant::now();
    limiter.check("key").await.unwrap_err();
    assert!(begin.elapsed() < SHORT + Duration::from_millis(30), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn an_address_that_swallows_packets_takes_no_longer_than_the_timeout() {
    // A listener whose queue is full leaves further connections unanswered.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let addr = full.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&addr, Duration::from_millis(20));
    let held: Vec<_> = std::iter::from_fn(|| connect().ok()).take(16).collect();
    assert!(held.len() < 16, "its queue is never full");
    let builder = FixedWindow::builder("api", Quota::per_minute(10)).server(addr.to_string()).timeout(SHORT);
    let limiter = builder.connect_timeout(Duration::from_secs(1)).build().unwrap();
    for _ in 0..3 {
        let begin = Instant::now();
        let error = limiter.check("key").await.unwrap_err();
        assert!(matches!(error, MemcachedError::Timeout { .. }), "{error:?}");
        assert!(begin.elapsed() < SHORT + Duration::from_millis(20), "{:?}", begin.elapsed());
    }
}
