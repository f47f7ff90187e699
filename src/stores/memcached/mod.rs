//! A memcached server that all replicas ask.
