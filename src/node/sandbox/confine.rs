//! Confines this process, for good. There is no way back, and what it becomes or starts inherits it.

use std::io;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::domain::sandbox::SandboxLack;
#[cfg(not(target_os = "linux"))]
use crate::domain::sandbox::SandboxProperty;

/// Descriptors that a worker may have open at once. Node.js itself takes about 20.
const MAX_DESCRIPTORS: u64 = 256;
/// Bytes of data of a parser.
const PARSER_MEMORY: u64 = 256 << 20;

/// What one worker may use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether it must not start if a property cannot be enforced.
    pub required: bool,
    /// Bytes of data that it may map, what Node.js maps by itself among them.
    pub data: u64,
    /// Files that may be read and run: Node.js and its libraries.
    pub programs: Vec<PathBuf>,
    /// Files and folders that may be read.
    pub readable: Vec<PathBuf>,
    /// The gateway's process id: the process ends with it. 0 is none.
    #[serde(default)]
    pub parent: u32,
}

impl Confinement {
    /// Confines this process, before it becomes Node.js. Returns the properties that the kernel does not enforce.
    ///
    /// # Errors
    /// If a part fails that every kernel supports, or a required property cannot be enforced.
    pub fn apply(&self) -> io::Result<Vec<SandboxLack>> {
        if self.parent > 0 {
            die_with(self.parent)?;
        }
        // If memory runs out in spite of the limits, the kernel should kill this process rather than the gateway. This is
        // only a preference, so a system without /proc does without it.
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

/// Confines a process that reads a text, parses it and prints what it found: no file, no program, `seconds` of processor
/// time. What the kernel does not enforce is left out, since nothing is run.
///
/// # Errors
/// Where limits cannot be set.
pub fn confine_parser(seconds: u64) -> io::Result<()> {
    limit(Resource::Cpu, seconds)?;
    limit(Resource::Data, PARSER_MEMORY)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Core, 0)?;
    #[cfg(target_os = "linux")]
    {
        drop_privileges()?;
        // Lacking Landlock, the filter alone keeps it from every file: it has no call left to open one.
        let _ = super::files::restrict(&[], &[]);
        let _ = super::filter::of_parser().and_then(super::filter::SeccompFilters::install);
    }
    Ok(())
}

/// Hides this process's memory and environment from other processes of its user: no core file, no `/proc/PID/environ`,
/// no debugger. There is no such call on other systems than Linux.
///
/// # Errors
/// Where the system refuses.
pub fn hide_memory() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Has the kernel kill this process when its parent ends, however that ends: what Node.js does with the sockets that then
/// close is up to it, and a script with a timer would live on. There is no such call on other systems than Linux.
///
/// The kernel means the thread that made this process. The gateway makes workers on threads of its runtime, which last as
/// long as it does.
///
/// # Errors
/// Where the system refuses, or `parent` has ended already.
fn die_with(parent: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    match std::os::unix::process::parent_id() == parent {
        true => Ok(()),
        false => Err(io::Error::other("the gateway has ended")),
    }
}

/// At most `most`, or what is allowed anyway where that is less.
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

/// Gives up what a superuser may do more than others, also for what this process becomes.
#[cfg(target_os = "linux")]
fn drop_privileges() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}
