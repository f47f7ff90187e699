//! Connects to a server by its name.

use std::{io, net::SocketAddr};

use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinHandle,
};

/// Where a server is.
///
/// A name is looked up anew for each connection, by the system. A look-up cannot be called off, so one that hangs is
/// waited for further by the next try, and never keeps more than one thread.
#[derive(Debug)]
pub(super) struct Dial {
    server: String,
    lookup: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
    tries: usize,
}

impl Dial {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), lookup: None, tries: 0 }
    }

    /// A connection. Dropped half-way it does no harm.
    pub(super) async fn connect(&mut self) -> io::Result<TcpStream> {
        let mut addrs = self.addrs().await?;
        // The time is up before all of many are tried; so each try begins with another one.
        let first = self.tries % addrs.len().max(1);
        self.tries = self.tries.wrapping_add(1);
        addrs.rotate_left(first);
        let stream = TcpStream::connect(addrs.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn addrs(&mut self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(addr) = self.server.parse() {
            return Ok(vec![addr]);
        }
        let server = &self.server;
        let lookup = self.lookup.get_or_insert_with(|| {
            let server = server.clone();
            tokio::spawn(async move { Ok(lookup_host(server).await?.collect()) })
        });
        let found = lookup.await;
        self.lookup = None;
        found.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{net::TcpListener, sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn a_look_up_that_hangs_is_waited_for_by_the_next_try() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (found, finds) = oneshot::channel();
        let mut dial = Dial::new("cache.invalid:11211");
        dial.lookup = Some(tokio::spawn(async move { Ok(finds.await.into_iter().collect()) }));
        for _ in 0..3 {
            assert!(timeout(Duration::from_millis(1), dial.connect()).await.is_err());
        }
        found.send(listener.local_addr().unwrap()).unwrap();
        dial.connect().await.unwrap();
        assert!(dial.lookup.is_none(), "the next connection looks it up anew");
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_an_error_and_not_the_end() {
        let mut dial = Dial::new("cache.invalid:11211");
        for _ in 0..2 {
            dial.lookup = Some(tokio::spawn(async { Ok(Vec::new()) }));
            dial.connect().await.unwrap_err();
        }
        dial.lookup = Some(tokio::spawn(async { Err(io::ErrorKind::NotFound.into()) }));
        assert_eq!(dial.connect().await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
