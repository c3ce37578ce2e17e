//! Black-box tests of a standalone gateway: the built program, real servers, real clients.

mod harness;
mod http;
mod smoke;
