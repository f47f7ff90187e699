//! A list of peers that somebody wrote down.

use std::{fmt::Display, io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, Semaphore},
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use super::{DiscoverError, Discoverer, found::Found, name_log::NameLog, peer::Peer};

/// How long one name may take in one round. The system's resolver has bounds of its own, but they add up to minutes
/// where several name servers and search domains are set.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Names waited for at once. Each takes a thread of tokio's blocking pool, which the rest of the process uses too.
const LOOKUPS_AT_ONCE: usize = 32;

/// Discovers the peers of a fixed list of addresses and host names.
///
/// Names are resolved anew in every round, as every program on the machine does it (hosts file, search list and all).
/// They are looked up side by side, each for at most 5 seconds, so a name that fails or hangs hides none of the
/// others: it gives no addresses yet, and one warning. Up to 32 names are waited for at once; where more than that
/// hang, a round lasts 5 seconds more for every 32. A look-up cannot be called off, so a name that hangs keeps one
/// thread of tokio's blocking pool until the system gives up, and a runtime that is dropped waits for that.
///
/// A list of literal addresses needs no look-up at all.
///
/// ```
/// use peerlimit::{Discoverer, StaticDiscoverer};
///
/// let peers = StaticDiscoverer::new(["10.0.0.5:7946", "[2001:db8::5]:7946", "peer-0.internal:7946"]);
/// assert!(peers.validate().is_ok());
///
/// let error = StaticDiscoverer::try_new(["10.0.0.5:7946", "::1:7946"]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"peer address "::1:7946": an IPv6 address needs brackets, as in [2001:db8::1]:7946"#,
/// );
/// ```
#[derive(Debug)]
pub struct StaticDiscoverer {
    entries: Vec<Arc<Entry>>,
    log: NameLog,
    lookup: Lookup,
}

impl StaticDiscoverer {
    /// Takes entries of the form `host:port`, `1.2.3.4:port` or `[::1]:port`; spaces around an entry do not matter.
    ///
    /// An empty list is fine: such a node waits for others to come to it. An entry of another form, the empty one
    /// included, is kept for [`validate`](Discoverer::validate) to refuse, which a node calls before it starts; every
    /// round is refused as well. [`try_new`](Self::try_new) refuses it at once.
    pub fn new(addrs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::with_lookup(addrs, system_lookup)
    }

    /// The same as [`new`](Self::new), for those who want to hear of a malformed entry at once.
    ///
    /// # Errors
    ///
    /// [`DiscoverError::Invalid`], which names the first malformed entry and says what is wrong with it.
    pub fn try_new(addrs: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, DiscoverError> {
        let discoverer = Self::new(addrs);
        discoverer.validate()?;
        Ok(discoverer)
    }

    fn with_lookup(addrs: impl IntoIterator<Item = impl Into<String>>, lookup: Lookup) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for text in addrs {
            let text = text.into().trim().to_owned();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        Self {
            entries: texts.into_iter().map(|text| Arc::new(Entry::new(text))).collect(),
            log: NameLog::default(),
            lookup,
        }
    }
}

impl Discoverer for StaticDiscoverer {
    /// Returns each address of the list once, in the list's order. Names that give none are left out.
    async fn discover(&self) -> Result<Vec<SocketAddr>, DiscoverError> {
        self.validate()?;
        let permits = Arc::new(Semaphore::new(LOOKUPS_AT_ONCE));
        let mut lookups = JoinSet::new();
        let mut answers: Vec<Vec<SocketAddr>> = Vec::with_capacity(self.entries.len());
        for (index, entry) in self.entries.iter().enumerate() {
            answers.push(Vec::new());
            match &entry.peer {
                Ok(Peer::Address(address)) => answers[index].push(*address),
                Ok(Peer::Name { host, port }) => {
                    let (permits, lookup) = (Arc::clone(&permits), self.lookup);
                    let (entry, host, port) = (Arc::clone(entry), host.clone(), *port);
                    lookups.spawn(async move {
                        // The semaphore is never closed; if it were, a name too many at once does no harm.
                        let _permit = permits.acquire().await;
                        (index, entry.resolve(|| lookup(host, port)).await)
                    });
                }
                Err(_) => {} // validate() has returned it
            }
        }
        while let Some(joined) = lookups.join_next().await {
            let (index, outcome) = joined.map_err(DiscoverError::new)?;
            let name = &self.entries[index].text;
            match outcome {
                Ok(addresses) => {
                    self.log.resolved(name);
                    answers[index] = addresses;
                }
                Err(reason) => self.log.failed(name, reason),
            }
        }
        let mut found = Found::default();
        found.extend(answers.into_iter().flatten());
        Ok(found.into_vec())
    }

    /// Refuses a list with a malformed entry, and names it.
    fn validate(&self) -> Result<(), DiscoverError> {
        for entry in &self.entries {
            if let Err(problem) = entry.peer {
                return Err(DiscoverError::invalid("peer address", &*entry.text, problem));
            }
        }
        Ok(())
    }
}

/// Asks for the addresses of a host. A parameter so that tests can have names that hang.
type Lookup = fn(String, u16) -> LookupFuture;
type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

fn system_lookup(host: String, port: u16) -> LookupFuture {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

/// An entry of the list, and the look-up of it that is under way.
#[derive(Debug)]
struct Entry {
    text: String,
    peer: Result<Peer, &'static str>,
    /// The system's look-up cannot be called off. One that outlasts its round stays here and the next round takes it
    /// up, so a name that hangs occupies one thread, not one more every round.
    running: Mutex<Option<JoinHandle<io::Result<Vec<SocketAddr>>>>>,
}

impl Entry {
    fn new(text: String) -> Self {
        let peer = Peer::parse(&text);
        Self { text, peer, running: Mutex::new(None) }
    }

    /// Waits for a look-up, for [`LOOKUP_TIMEOUT`] at most: for one still under way, or else for a new one.
    async fn resolve(&self, start: impl FnOnce() -> LookupFuture) -> Result<Vec<SocketAddr>, Reason> {
        let mut running = self.running.lock().await;
        // What came in after its round had ended is old, so a new answer is better. But where every answer is late,
        // it is all there is.
        let mut late = None;
        if let Some(lookup) = running.take_if(|lookup| lookup.is_finished()) {
            late = outcome(lookup.await).ok();
        }
        let lookup = running.get_or_insert_with(|| tokio::spawn(start()));
        match timeout(LOOKUP_TIMEOUT, lookup).await {
            Ok(joined) => {
                *running = None;
                outcome(joined)
            }
            Err(_) => late.ok_or(Reason::Silent),
        }
    }
}

fn outcome(joined: Result<io::Result<Vec<SocketAddr>>, tokio::task::JoinError>) -> Result<Vec<SocketAddr>, Reason> {
    match joined {
        Ok(Ok(addresses)) if addresses.is_empty() => Err(Reason::Empty),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Reason::Failed(error)),
        Err(error) => Err(Reason::Failed(error.into())),
    }
}

/// Why a name gave no addresses, for the log.
#[derive(Debug)]
enum Reason {
    Silent,
    Empty,
    Failed(io::Error),
}

impl Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent => write!(f, "no answer within {LOOKUP_TIMEOUT:?}"),
            Self::Empty => f.write_str("the name has no addresses"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::time::{advance, sleep};

    use super::*;

    fn peer(n: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, n], 7946))
    }

    /// Answers by the name's first letter: g(ood), f(ails), e(mpty), h(angs), l(ate, by 7 s), p(anics).
    fn scripted(host: String, port: u16) -> LookupFuture {
        Box::pin(async move {
            match host.as_bytes() {
                [b'g', ..] => Ok(vec![SocketAddr::from(([192, 0, 2, 1], port)); 2]),
                [b'f', ..] => Err(io::Error::other("no such host")),
                [b'e', ..] => Ok(Vec::new()),
                [b'l', ..] => {
                    sleep(Duration::from_secs(7)).await;
                    Ok(vec![peer(3)])
                }
                [b'p', ..] => panic!("the look-up's own failure"),
                _ => pending().await,
            }
        })
    }

    async fn discover(entries: &[&str]) -> Vec<SocketAddr> {
        let discoverer = StaticDiscoverer::with_lookup(entries.iter().copied(), scripted);
        discoverer.discover().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_fails_or_hangs_hides_none_of_the_others() {
        let entries = ["fails:1", "hangs:1", "empty:1", "panics:1", "good:7946", "192.0.2.2:7946"];
        let round = timeout(LOOKUP_TIMEOUT * 2, discover(&entries));
        assert_eq!(round.await.unwrap(), [peer(1), peer(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_hanging_names_than_are_asked_at_once_delay_the_rest_but_do_not_hide_it() {
        let mut entries: Vec<String> = (0..LOOKUPS_AT_ONCE).map(|n| format!("hangs{n}:1")).collect();
        entries.push("good:7946".to_owned());
        let discoverer = StaticDiscoverer::with_lookup(entries, scripted);
        let round = timeout(LOOKUP_TIMEOUT * 2, discoverer.discover());
        assert_eq!(round.await.unwrap().unwrap(), [peer(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_for_ever_is_looked_up_once() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        fn counted(_: String, _: u16) -> LookupFuture {
            STARTED.fetch_add(1, Ordering::Relaxed);
            Box::pin(pending())
        }
        let discoverer = StaticDiscoverer::with_lookup(["host:1"], counted);
        for _ in 0..5 {
            assert_eq!(discoverer.discover().await.unwrap(), []);
        }
        assert_eq!(STARTED.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_always_late_is_used_in_the_next_round() {
        let discoverer = StaticDiscoverer::with_lookup(["late:7946"], scripted);
        assert_eq!(discoverer.discover().await.unwrap(), []);
        advance(Duration::from_secs(30)).await;
        assert_eq!(discoverer.discover().await.unwrap(), [peer(3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_takes_up_an_unfinished_look_up_gets_its_answer() {
        let discoverer = StaticDiscoverer::with_lookup(["late:7946"], scripted);
        assert_eq!(discoverer.discover().await.unwrap(), []);
        assert_eq!(discoverer.discover().await.unwrap(), [peer(3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_is_dropped_half_way_leaves_the_next_one_whole() {
        let discoverer = StaticDiscoverer::with_lookup(["late:7946", "good:7946"], scripted);
        assert!(timeout(Duration::from_secs(1), discoverer.discover()).await.is_err());
        assert_eq!(discoverer.discover().await.unwrap().len(), 1);
        assert_eq!(discoverer.discover().await.unwrap(), [peer(3), peer(1)]);
    }
}
