//! Confines this process irrevocably. The program that replaces this process, and the programs that it starts, inherit
//! the confinement.

use std::io;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::domain::sandbox::SandboxLack;
#[cfg(not(target_os = "linux"))]
use crate::domain::sandbox::SandboxProperty;

/// Descriptors that a worker may have open at the same time. Node.js itself takes about 20.
pub const MAX_DESCRIPTORS: u64 = 4096;
/// Limit on the data memory of the process that parses plugin code (`RLIMIT_DATA`), in bytes.
const PARSER_MEMORY: u64 = 256 << 20;

/// What one worker may use: memory, programs and files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// If true, the process does not start unless every property can be enforced.
    pub required: bool,
    /// Bytes of data that the process may map, including what Node.js maps for itself.
    pub data: u64,
    /// Files that may be read and run: Node.js and its libraries.
    pub programs: Vec<PathBuf>,
    /// Files and folders that may be read.
    pub readable: Vec<PathBuf>,
    /// The process id of the gateway. When the gateway ends, the kernel kills the confined process. 0 turns this off.
    #[serde(default)]
    pub parent: u32,
}

impl Confinement {
    /// Confines this process before it becomes Node.js. Returns the properties of the sandbox that the kernel does not
    /// enforce.
    ///
    /// # Errors
    /// If a step fails that every kernel supports, or a required property cannot be enforced.
    pub fn apply(&self) -> io::Result<Vec<SandboxLack>> {
        if self.parent > 0 {
            die_with(self.parent)?;
        }
        // If memory runs out despite the limits, the kernel should kill this process rather than the gateway. This is
        // only a preference, so failing to set it (no /proc) is ignored.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        limit(Resource::Data, self.data)?;
        limit(Resource::Nofile, MAX_DESCRIPTORS)?;
        limit(Resource::Fsize, 0)?;
        limit(Resource::Core, 0)?;
        let lacks = enforce(self)?;
        match lacks.first().filter(|_| self.required) {
            Some(lack) => {
                Err(io::Error::other(format!("the sandbox is required, and the kernel does not enforce {lack}")))
            }
            None => Ok(lacks),
        }
    }
}

/// Confines a process that parses text from its standard input and prints the result: it can open no file and run no
/// program, and gets `seconds` of CPU time. The process runs no user code, so properties that the kernel does not
/// enforce are left out.
///
/// # Errors
/// If the limits cannot be set or the privileges cannot be dropped.
pub fn confine_parser(seconds: u64) -> io::Result<()> {
    limit(Resource::Cpu, seconds)?;
    limit(Resource::Data, PARSER_MEMORY)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Core, 0)?;
    #[cfg(target_os = "linux")]
    {
        drop_privileges()?;
        // Without Landlock, the filter alone keeps the parser from reading files: it allows no system call that opens a
        // file.
        let _ = super::files::restrict(&[], &[]);
        let _ = super::filter::of_parser().and_then(super::filter::SeccompFilters::install);
    }
    Ok(())
}

/// Hides this process's memory and environment from other processes of its user: no core file, no `/proc/PID/environ`,
/// no debugger. Does nothing on systems other than Linux.
///
/// # Errors
/// If the system refuses.
pub fn hide_memory() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Makes the kernel kill this process when its parent, the gateway, ends for any reason. It is not enough that the
/// worker's socket closes then, because a script with a timer would keep running. On systems other than Linux, only
/// checks that the parent is still running.
///
/// The kernel watches the thread that created this process. The gateway creates workers on threads of its runtime, and
/// these live as long as the gateway.
///
/// # Errors
/// If the system refuses, or `parent` has already ended.
fn die_with(parent: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    match std::os::unix::process::parent_id() == parent {
        true => Ok(()),
        false => Err(io::Error::other("the gateway has ended")),
    }
}

/// Sets the limit to `most`, or to the current maximum if that is lower.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.map_or(most, |allowed| allowed.min(most));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

#[cfg(target_os = "linux")]
fn enforce(confinement: &Confinement) -> io::Result<Vec<SandboxLack>> {
    drop_privileges()?;
    let files = super::files::restrict(&confinement.programs, &confinement.readable);
    let calls = super::filter::of_worker().and_then(super::filter::SeccompFilters::install);
    Ok(files.err().into_iter().chain(calls.err()).collect())
}

#[cfg(not(target_os = "linux"))]
fn enforce(_confinement: &Confinement) -> io::Result<Vec<SandboxLack>> {
    let cause = format!("{} has no Landlock and no seccomp", std::env::consts::OS);
    let lack = |property| SandboxLack { property, cause: cause.clone() };
    Ok(vec![lack(SandboxProperty::Files), lack(SandboxProperty::SystemCalls)])
}

/// Drops superuser privileges of this process and of the program that it becomes.
#[cfg(target_os = "linux")]
fn drop_privileges() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}
