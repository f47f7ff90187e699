//! Failover between two limiters: in virtual time with limiters that fail as told, and with a real server.

mod budget;
mod callbacks;
mod failover;
mod flapping;
mod load;
mod memory;
mod scripted;
mod without_fallback;
