//! Black-box tests of a standalone gateway: the built program, real servers, real clients.

mod bytes;
mod cli;
mod clients;
mod contract;
mod harness;
mod hostile;
mod http;
mod parts;
mod smoke;
