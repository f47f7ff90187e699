//! How a node finds addresses to announce itself to.
//!
//! Discovery only ever adds. An address that a later round no longer gives stays a member until failure detection
//! says otherwise, so an answer that is stale, truncated or empty costs nothing but time.

mod dns;
mod error;
mod found;
mod name_log;
mod peer;
mod static_list;

use std::{net::SocketAddr, pin::Pin, sync::Arc};

pub use self::{dns::DnsDiscoverer, error::DiscoverError, static_list::StaticDiscoverer};

/// Finds addresses at which peers may listen.
///
/// A node asks when it starts and again every discovery interval, for as long as it runs. What is found is only ever
/// added to the addresses that the node announces itself to: to leave an address out removes nobody, and to give one
/// where nobody listens, or the node's own, does no harm. So an implementation gives what it knows and leaves the
/// sorting out to the node, which also picks the address families that it can reach.
///
/// [`StaticDiscoverer`] and [`DnsDiscoverer`] cover fixed lists and DNS; a `Vec<SocketAddr>` is a discoverer of
/// itself. Anything else is an `async fn`:
///
/// ```
/// use std::net::SocketAddr;
///
/// use peerlimit::{DiscoverError, Discoverer};
///
/// /// One address per line, in a file that something else keeps up to date.
/// struct PeersFile(std::path::PathBuf);
///
/// impl Discoverer for PeersFile {
///     async fn discover(&self) -> Result<Vec<SocketAddr>, DiscoverError> {
///         let text = tokio::fs::read_to_string(&self.0)
///             .await
///             .map_err(DiscoverError::new)?;
///         text.lines()
///             .map(|line| line.parse().map_err(DiscoverError::new))
///             .collect()
///     }
/// }
/// # let file = std::env::temp_dir().join(format!("peers-{}", std::process::id()));
/// # std::fs::write(&file, "192.0.2.1:7946\n[2001:db8::1]:7946\n").unwrap();
/// # let runtime = tokio::runtime::Runtime::new().unwrap();
/// # let found = runtime.block_on(PeersFile(file.clone()).discover()).unwrap();
/// # std::fs::remove_file(file).unwrap();
/// # assert_eq!(found, ["192.0.2.1:7946".parse().unwrap(), "[2001:db8::1]:7946".parse().unwrap()]);
/// ```
pub trait Discoverer: Send + Sync + 'static {
    /// Makes one round: returns the addresses known now, in any order.
    ///
    /// An empty list means "nobody yet" and is no error. The future may be dropped before it is done, and should end
    /// within seconds: a node that starts waits for its first round.
    ///
    /// # Errors
    ///
    /// When the round as a whole could not be made. The node reports the error, keeps the addresses that it has and
    /// asks again at the next interval. Whatever fails for one peer alone should rather be left out of the answer.
    fn discover(&self) -> impl Future<Output = Result<Vec<SocketAddr>, DiscoverError>> + Send;

    /// Says whether the settings can be used at all; a node calls this once, before it starts.
    ///
    /// It asks nobody and does not wait. The provided method accepts everything.
    ///
    /// # Errors
    ///
    /// When no round could ever succeed, as with a mistyped address. The node then refuses to start.
    fn validate(&self) -> Result<(), DiscoverError> {
        Ok(())
    }
}

impl Discoverer for Vec<SocketAddr> {
    async fn discover(&self) -> Result<Vec<SocketAddr>, DiscoverError> {
        Ok(self.clone())
    }
}

impl<D: Discoverer> Discoverer for Arc<D> {
    fn discover(&self) -> impl Future<Output = Result<Vec<SocketAddr>, DiscoverError>> + Send {
        D::discover(self)
    }

    fn validate(&self) -> Result<(), DiscoverError> {
        D::validate(self)
    }
}

/// The future of one round, with its type erased.
pub(crate) type Round<'a> = Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>, DiscoverError>> + Send + 'a>>;

/// [`Discoverer`] in the form that a node stores: the public trait returns `impl Future`, so it is not object-safe.
pub(crate) trait DynDiscoverer: Send + Sync + 'static {
    /// [`Discoverer::discover`], boxed.
    fn discover_dyn(&self) -> Round<'_>;

    /// [`Discoverer::validate`].
    fn validate_dyn(&self) -> Result<(), DiscoverError>;
}

impl<D: Discoverer> DynDiscoverer for D {
    fn discover_dyn(&self) -> Round<'_> {
        Box::pin(self.discover())
    }

    fn validate_dyn(&self) -> Result<(), DiscoverError> {
        self.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn discoverers_of_any_type_are_stored_and_asked_alike() {
        let address: SocketAddr = "192.0.2.1:7946".parse().unwrap();
        let stored: Vec<Box<dyn DynDiscoverer>> = vec![
            Box::new(vec![address]),
            Box::new(Arc::new(vec![address])),
            Box::new(StaticDiscoverer::new([address.to_string()])),
        ];
        for discoverer in &stored {
            discoverer.validate_dyn().unwrap();
            assert_eq!(discoverer.discover_dyn().await.unwrap(), [address]);
        }
    }

    #[test]
    fn a_shared_discoverer_is_validated_like_the_one_it_shares() {
        let mistyped = Arc::new(StaticDiscoverer::new(["nonsense"]));
        assert!(Discoverer::validate(&mistyped).is_err());
    }
}
