//! `hawsepipe gateway`, the real program, against a real API server. What an operator would write, the tests write.

mod admin;
pub mod client;
mod code;
mod history;
pub mod http;
mod outage;
pub mod process;
mod published;
mod reviewed;
mod secrets;
mod serving;
pub mod upstream;
mod waiting;

pub use admin::outer_address;
