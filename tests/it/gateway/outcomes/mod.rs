//! What each outcome of a plugin does to a call, through real workers and a real upstream.

pub mod acts;
mod beside;
mod cases;
mod exhausted;
mod refusals;
pub mod seen;
mod table;
mod unreadable;
mod withdrawn;
