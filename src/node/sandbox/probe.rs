//! What the kernel of this machine does not enforce, found out in a child: a process cannot take its sandbox off again.

use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};

use super::Confinement;
use crate::domain::sandbox::{SandboxLack, SandboxProperty};

/// How long the child may take, on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of data of the child: far more than it takes.
const DATA: u64 = 64 << 20;

/// Runs `command`, which must call [`probe_main`], and reads its findings.
///
/// # Errors
/// Where it does not run, or says nothing that can be read.
pub async fn probe(mut command: Command) -> io::Result<Vec<SandboxLack>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await??;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Applies the sandbox of workers to this process and prints what of it is not in force, as JSON.
pub fn probe_main() -> ! {
    let found = Confinement { data: DATA, ..Confinement::default() }.apply().and_then(|mut lacks| {
        lacks.extend(not_in_force(&lacks));
        io::stdout().write_all(&serde_json::to_vec(&lacks)?)
    });
    exit(i32::from(found.is_err()))
}

/// Properties that a kernel took, and does not enforce all the same.
fn not_in_force(known: &[SandboxLack]) -> Vec<SandboxLack> {
    let open = [
        (SandboxProperty::Files, File::open("/").is_ok()),
        (SandboxProperty::SystemCalls, socket(AddressFamily::UNIX, SocketType::STREAM, None).is_ok()),
    ];
    let open = open.into_iter().filter(|(property, open)| *open && known.iter().all(|lack| lack.property != *property));
    open.map(|(property, _)| SandboxLack { property, cause: "the kernel takes it and does not enforce it".into() })
        .collect()
}
