//! The fixed window over real memcached servers, and over some that behave badly.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use peerlimit::{
    Quota,
    stores::memcached::{Builder, FixedWindow},
};

use crate::servers::{Server, free_port, is_installed};

mod faults;
mod hostile;
mod keys;
mod races;
mod time;
mod window;

/// Long enough for machines that do much else. Tests of timeouts have their own.
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn start() -> Option<Server> {
    is_installed("memcached").then(|| start_at(free_port()))
}

fn start_at(port: u16) -> Server {
    let port_text = port.to_string();
    Server::start("memcached", ["-l", "127.0.0.1", "-p", &port_text, "-U", "0", "-u", "nobody"], port)
}

fn builder(name: &str, quota: Quota, server: &Server) -> Builder {
    FixedWindow::builder(name, quota).server(server.addr()).timeout(TIMEOUT).connect_timeout(TIMEOUT)
}

pub fn limiter(name: &str, quota: Quota, server: &Server) -> FixedWindow {
    builder(name, quota, server).build().unwrap()
}

/// What the server answers to those lines, by a connection of the test's own.
fn raw(server: &Server, lines: &str) -> String {
    // What is answered after the last of them.
    raw_until(server, &format!("{lines}\r\nmn"), "MN")
}

/// The same, up to the line `last`.
fn raw_until(server: &Server, lines: &str, last: &str) -> String {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "{lines}\r\n").unwrap();
    let answers = BufReader::new(stream).lines().map(|line| line.unwrap() + "\n");
    answers.take_while(|line| line.trim_end() != last).collect()
}

/// The counter of that key as the server has it.
fn counter(server: &Server, key: &str) -> Option<u64> {
    let answer = raw(server, &format!("mg {key} v"));
    let value = answer.strip_prefix("VA ")?.lines().nth(1)?;
    Some(value.trim_end().parse().unwrap())
}
