//! What confines the processes that run, or read, the code of users.
//!
//! Each of them applies it to itself, while it has one thread and before it turns to that code: the launcher before it
//! becomes Node.js, the parser before it parses. What files may be read and run is decided by Landlock ([`files`]), what
//! else may be asked of the kernel by two seccomp filters ([`filter`], of the lists in [`calls`]). [`probe`] finds out
//! once, in a child, what a machine's kernel does not enforce.

mod confine;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod filter;
mod probe;
#[cfg(target_os = "linux")]
mod syscalls;

pub use confine::{Confinement, confine_parser, hide_memory};
pub use probe::{probe, probe_main};
