//! Connections of the two kinds: to one server, and to a cluster.

use std::time::Duration;

use ::redis::{
    AsyncConnectionConfig, Client, Cmd, RedisResult, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};

/// Requests that wait to be written. They wait anyway; here they need no task to be woken for it.
const WAITING: usize = 512;
/// In how many steps a connection to a cluster is made: a server, its map of the cluster, the others, and one step to spare.
const CLUSTER_STEPS: u32 = 4;

/// Where connections lead.
pub(super) enum Servers {
    /// Servers of the same data, never empty.
    Single(Vec<Client>),
    Cluster(Box<ClusterClient>),
}

/// A connection that many requests share at a time. Cheap to clone.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Servers {
    /// How much longer than a connection to one server it may take.
    pub(super) const fn steps(&self) -> u32 {
        match self {
            Self::Single(_) => 1,
            Self::Cluster(_) => CLUSTER_STEPS,
        }
    }

    /// Whether all keys are on the same server.
    pub(super) const fn are_one(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    /// Whether a connection that lost a server finds it again by itself: the others of a cluster are still of use.
    pub(super) const fn heal_themselves(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Connects to the server whose turn it is. It takes as long as it takes.
    pub(super) async fn connect(&self, turn: usize) -> RedisResult<Connection> {
        match self {
            Self::Single(clients) => {
                // Time is limited where it is known what it is for.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None)
                    .set_pipeline_buffer_size(WAITING);
                let client = &clients[turn % clients.len()];
                client.get_multiplexed_async_connection_with_config(&config).await.map(Connection::Single)
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }
}

impl Connection {
    /// Sends a request and waits for its answer, without a limit of time.
    pub(super) async fn ask(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Self::Single(connection) => connection.send_packed_command(cmd).await,
            Self::Cluster(connection) => connection.req_packed_command(cmd).await,
        };
        answer?.extract_error()
    }
}

/// How long a connection may be silent, though it is asked, until it is given up.
pub(super) fn longest_silence(response_timeout: Duration) -> Duration {
    /// A server that swaps or forks may take a while.
    const USUAL: Duration = Duration::from_secs(1);
    USUAL.max(response_timeout * 2)
}
