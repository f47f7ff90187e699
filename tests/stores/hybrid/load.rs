//! With a real server: stopped under load, and killed under replicas that gossip.
