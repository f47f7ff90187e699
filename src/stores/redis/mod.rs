//! A Redis server or cluster that all replicas ask.
