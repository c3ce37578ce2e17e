//! Starts the processes of workers. The gateway runs its own program as `hawsepipe sandbox`. That process arranges its
//! descriptors and its environment, confines itself, and then becomes Node.js. So no code of the gateway runs between
//! fork and exec, and no unsafe code is needed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::egress::handed;
use super::sandbox::{Confinement, probe, probe_main};
use crate::domain::sandbox::{SandboxLack, is_kept_from_plugins};
use crate::domain::secret::SecretText;

/// The descriptor on which a Module worker finds its socket. `host.mjs` has the same number.
const SOCKET: i32 = 3;
/// The argument that replaces [`Stdin::word`] to try the sandbox without running a program.
const PROBE: &str = "probe";
/// A plugin's environment variables are passed to the launcher with this prefix, so that none of them, such as
/// `LD_PRELOAD`, affects the launcher itself.
const PREFIX: &[u8] = b"HAWSEPIPE_PLUGIN_";

/// The kind of descriptor that the launcher gets as standard input for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// The worker's end of a socket to the gateway. The worker finds the socket as descriptor 3, and its own standard
    /// input is the null device.
    Socket,
    /// A pipe that the script reads.
    Pipe,
}

impl Stdin {
    fn word(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Pipe => "pipe",
        }
    }
}

/// Starts workers and parsers by running this program.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    /// Returns a launcher that runs the program of this process, even if the program's file has been replaced in the
    /// meantime.
    ///
    /// # Errors
    /// If the system does not report which file it runs.
    pub fn current() -> io::Result<Self> {
        if cfg!(target_os = "linux") {
            return Ok(Self::at("/proc/self/exe"));
        }
        env::current_exe().map(Self::at)
    }

    /// Returns a launcher that runs the program at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into() }
    }

    /// Returns a command that confines itself and becomes `program`, as leader of its own process group and with only
    /// `env` as its environment. Variables in `env` that control how Node.js starts are left out.
    ///
    /// # Errors
    /// If a path of the confinement is not UTF-8.
    pub fn command(
        &self,
        stdin: Stdin,
        confinement: &Confinement,
        program: &Path,
        env: &[(String, SecretText)],
    ) -> io::Result<Command> {
        let mut command = self.subcommand("sandbox");
        command.arg(stdin.word()).arg(serde_json::to_string(confinement)?).arg(program);
        for (name, value) in env.iter().filter(|(name, _)| !is_kept_from_plugins(name)) {
            let mut prefixed = PREFIX.to_vec();
            prefixed.extend_from_slice(name.as_bytes());
            command.env(OsString::from_vec(prefixed), value.expose());
        }
        Ok(command)
    }

    /// Finds out which parts of the sandbox this machine's kernel does not enforce.
    ///
    /// # Errors
    /// If the child that tries the sandbox does not run.
    pub async fn probe(&self) -> io::Result<Vec<SandboxLack>> {
        let mut command = self.subcommand("sandbox");
        command.arg(PROBE);
        probe(command).await
    }

    /// Returns a command that runs this program with `subcommand`, as leader of its own process group and with an empty
    /// environment.
    pub fn subcommand(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(subcommand).env_clear().process_group(0);
        command
    }
}

/// `hawsepipe sandbox socket|pipe CONFINEMENT PROGRAM [ARGUMENT...]`: replaces this process with the program.
/// `hawsepipe sandbox probe`: prints which parts of the sandbox cannot be enforced here. Must run before any thread
/// starts. On failure, prints the reason to standard error and exits with code 126.
pub fn sandbox_main(arguments: impl Iterator<Item = OsString>) -> ! {
    let error = become_program(arguments);
    eprintln!("Error: hawsepipe sandbox: {error}");
    exit(126)
}

fn become_program(mut arguments: impl Iterator<Item = OsString>) -> io::Error {
    match arguments.next() {
        Some(word) if word == PROBE => probe_main(),
        Some(word) => become_confined(&word, arguments).unwrap_or_else(|error| error),
        None => usage(),
    }
}

/// Replaces this process with the program. Returns only if that fails.
fn become_confined(stdin: &OsStr, mut arguments: impl Iterator<Item = OsString>) -> io::Result<io::Error> {
    let (Some(confinement), Some(program)) = (arguments.next(), arguments.next()) else { return Err(usage()) };
    let confinement: Confinement = serde_json::from_slice(confinement.as_bytes())?;
    handed::take_over()?;
    if stdin == Stdin::Socket.word() {
        move_socket()?;
    } else if stdin != Stdin::Pipe.word() {
        return Err(usage());
    }
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for (name, value) in env::vars_os() {
        if let Some(name) = name.as_bytes().strip_prefix(PREFIX) {
            command.env(OsString::from_vec(name.to_vec()), value);
        }
    }
    confinement.apply()?;
    Ok(command.exec())
}

fn usage() -> io::Error {
    let usage = "usage: sandbox socket|pipe CONFINEMENT PROGRAM [ARGUMENT...], or sandbox probe";
    io::Error::new(io::ErrorKind::InvalidInput, usage)
}

/// Moves the socket from standard input to descriptor 3, and puts the null device on standard input.
fn move_socket() -> io::Result<()> {
    let socket = fcntl_dupfd_cloexec(io::stdin().as_fd(), SOCKET)?;
    if socket.as_raw_fd() != SOCKET {
        return Err(io::Error::other("descriptor 3 is taken"));
    }
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    fcntl_setfd(&socket, FdFlags::empty())?;
    // Dropping `socket` would close the descriptor, which must stay open across exec.
    let _ = socket.into_raw_fd();
    Ok(())
}
