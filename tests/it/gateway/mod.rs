//! Black-box tests of a standalone gateway: the built program, real servers, real clients.

mod bytes;
mod callbacks;
mod cli;
mod clients;
mod contract;
mod egress;
mod ending;
pub mod harness;
mod hostile;
pub mod http;
mod killed;
mod limits;
mod manifests;
mod outcomes;
mod outside;
mod parts;
mod processes;
mod reload;
mod smoke;
mod starts;
mod unread;
