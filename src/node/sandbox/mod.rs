//! The sandbox of processes that run or parse code written by users.
//!
//! Each such process confines itself while it has only one thread, and before it reads that code: a worker before it
//! becomes Node.js, a parser before it parses. Landlock decides which files can be read and run ([`files`]). Two
//! seccomp filters decide which system calls can be made ([`filter`], from the lists in [`syscalls`]). [`probe`] finds
//! out once, in a child process, which properties the machine's kernel does not enforce.

mod confine;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod filter;
mod probe;
#[cfg(target_os = "linux")]
mod syscalls;

pub use confine::{Confinement, MAX_DESCRIPTORS, confine_parser, hide_memory};
pub use probe::{probe, probe_main};
