//! Black-box tests of a standalone gateway: the built program, real servers, real clients.

mod bytes;
mod callbacks;
mod cli;
mod clients;
mod contract;
mod curate;
mod egress;
mod ending;
pub mod harness;
mod hostile;
pub mod http;
mod killed;
mod limits;
mod listeners;
pub mod manifests;
mod names;
pub mod outcomes;
mod outside;
pub mod parts;
mod plugin;
mod processes;
mod redacted;
mod reload;
mod servers;
mod smoke;
mod starts;
mod unread;
