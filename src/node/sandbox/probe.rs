//! Finds out which properties of the sandbox this machine's kernel does not enforce. A child process tries the sandbox,
//! because a process cannot leave it again.

use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};

use super::Confinement;
use crate::domain::sandbox::{SandboxLack, SandboxProperty};

/// How long the child may take, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of data that the child may map: far more than it needs.
const DATA: u64 = 64 << 20;

/// Runs `command`, which must call [`probe_main`], and reads its findings.
///
/// # Errors
/// If the command does not run, or its output cannot be parsed.
pub async fn probe(mut command: Command) -> io::Result<Vec<SandboxLack>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await??;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Applies the workers' sandbox to this process and prints, as JSON, which properties are not in force.
pub fn probe_main() -> ! {
    let found = Confinement { data: DATA, ..Confinement::default() }.apply().and_then(|mut lacks| {
        lacks.extend(not_in_force(&lacks));
        io::stdout().write_all(&serde_json::to_vec(&lacks)?)
    });
    exit(i32::from(found.is_err()))
}

/// Returns the properties that the kernel accepted but does not enforce.
fn not_in_force(known: &[SandboxLack]) -> Vec<SandboxLack> {
    let open = [
        (SandboxProperty::Files, File::open("/").is_ok()),
        (SandboxProperty::SystemCalls, socket(AddressFamily::UNIX, SocketType::STREAM, None).is_ok()),
    ];
    let open = open.into_iter().filter(|(property, open)| *open && known.iter().all(|lack| lack.property != *property));
    open.map(|(property, _)| SandboxLack { property, cause: "the kernel takes it and does not enforce it".into() })
        .collect()
}
