//! Starts a worker's process with the descriptors that its protocol needs.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::process::{Child, ChildStdin, ChildStdout};

use super::discovery::NodeRuntime;
use super::egress::handed::hand_over;
use super::installed_code::InstalledCode;
use super::launcher::{Launcher, Stdin};
use super::log_mask::LogMask;
use super::protocol::channel::Channel;
use super::protocol::codec::Codec;
use super::protocol::lines::LinesPipes;
use super::protocol::once::OncePipes;
use super::protocol::socket::Socket;
use super::sandbox::Confinement;
use super::seat::Transport;
use super::wrapper::{Program, arguments};
use crate::domain::plan::WrapperPlan;
use crate::domain::plugin::Protocol;
use crate::domain::ports::LinkedPlugin;
use crate::domain::secret::SecretText;

/// Node.js option for workers that serve many calls. Such a worker is one of many processes on few cores, where helper
/// threads of the garbage collector would only compete with each other.
const FEW_THREADS: &str = "--single-threaded-gc";

/// The variable that names a file with certificate authorities that Node.js trusts besides its own.
const TRUSTED: &str = "NODE_EXTRA_CA_CERTS";

/// A process that was just started.
#[derive(Debug)]
pub struct Spawned {
    /// The process, leader of its own group.
    pub child: Child,
    /// How calls reach the process.
    pub transport: Transport,
    /// The pipe that carries everything that the process prints besides its answers.
    pub printed: PipeReader,
    /// The socket on which the process requests connections; `None` if its plugin lists no `egress`.
    pub egress: Option<UnixStream>,
}

type Made = (Child, Transport, Option<UnixStream>);

/// The inputs for starting a worker's process.
#[derive(Clone, Copy, Debug)]
pub struct SpawnSpec<'a> {
    /// The launcher that starts the process.
    pub launcher: &'a Launcher,
    /// The Node.js that the worker runs on.
    pub node: &'a NodeRuntime,
    /// The program of a wrapper, which runs instead.
    pub program: Option<&'a Program>,
    /// The plugin that the worker loads.
    pub plugin: &'a LinkedPlugin,
    /// The plugin's code on disk.
    pub code: &'a InstalledCode,
    /// Whether the worker must not start if its sandbox cannot be enforced.
    pub sandbox_required: bool,
}

/// Starts a process that loads the plugin, with the transport that the plugin's protocol needs.
///
/// # Errors
/// If the system cannot create another process or descriptor.
pub fn spawn(parts: SpawnSpec<'_>) -> io::Result<Spawned> {
    let (printed, to_log) = io::pipe()?;
    let (plugin, parent) = (parts.plugin, parts.code.parent());
    let preload = parent.once_preload();
    if let (Some(program), Some(wrapper)) = (parts.program, &plugin.plan.wrapper) {
        let (child, transport) = spawn_wrapper(parts, program, wrapper, to_log)?;
        return Ok(Spawned { child, transport, printed, egress: None });
    }
    let (child, transport, egress) = match (plugin.plan.protocol, plugin.plan.reuse) {
        (Protocol::Module, _) => spawn_module(parts, to_log)?,
        (Protocol::Once, false) => {
            let exit = parent.exit_preload();
            let options = ["--require".as_ref(), preload.as_ref(), "--require".as_ref(), exit.as_ref()];
            let script = spawn_script(parts, to_log, &options)?;
            (script.child, Transport::Once(OncePipes::new(script.stdin, script.stdout)), script.egress)
        }
        (Protocol::Once, true) => {
            let host = parent.reuse_host();
            let script = spawn_script(parts, to_log, &[FEW_THREADS.as_ref(), host.as_ref()])?;
            (
                script.child,
                Transport::Lines(LinesPipes::new(script.stdin, script.stdout, Codec::Printed)),
                script.egress,
            )
        }
        (Protocol::Lines, _) => {
            let options = [FEW_THREADS.as_ref(), "--require".as_ref(), preload.as_ref()];
            let script = spawn_script(parts, to_log, &options)?;
            let lines = LinesPipes::new(script.stdin, script.stdout, plugin.plan.encoding.into());
            (script.child, Transport::Lines(lines), script.egress)
        }
    };
    Ok(Spawned { child, transport, printed, egress })
}

impl SpawnSpec<'_> {
    /// Returns a command that runs Node.js in the sandbox of this plugin.
    fn command(&self, stdin: Stdin) -> io::Result<Command> {
        let memory = self.plugin.plan.limits.memory;
        let mut env = self.plugin.env.clone();
        let authorities = self.authorities();
        let variable =
            authorities.as_deref().and_then(Path::to_str).map(|file| (TRUSTED.to_owned(), SecretText::new(file)));
        env.extend(variable);
        let confinement = Confinement {
            required: self.sandbox_required,
            data: memory.saturating_add(self.node.data),
            programs: self.node.files.clone(),
            readable: self.code.readable().into_iter().chain(authorities).collect(),
            parent: std::process::id(),
        };
        let mut command = self.launcher.command(stdin, &confinement, &self.node.program, &env)?;
        // The maximum size of V8's heap for long-lived objects. An eighth of the limit is left for memory outside the
        // heap.
        let heap = (memory - memory / 8) >> 20;
        command.arg("--no-addons").arg(format!("--max-old-space-size={}", heap.max(1)));
        command.current_dir(self.code.folder());
        Ok(command)
    }

    /// Returns the file with the certificate authorities that this machine trusts, if the worker connects to hosts and its
    /// plugin names no file of its own.
    fn authorities(&self) -> Option<PathBuf> {
        let (plugin, file) = (self.plugin, std::env::var_os("SSL_CERT_FILE")?);
        let is_needed = !plugin.plan.egress.is_empty() && plugin.env.iter().all(|(name, _)| name != TRUSTED);
        std::path::absolute(file).ok().filter(|_| is_needed)
    }
}

fn spawn_module(parts: SpawnSpec<'_>, to_log: PipeWriter) -> io::Result<Made> {
    let (SpawnSpec { plugin, code, .. }, (ours, theirs)) = (parts, UnixStream::pair()?);
    let mut command = parts.command(Stdin::Socket)?;
    let egress = give_stdin(&mut command, plugin, code, theirs.into())?;
    command.arg(FEW_THREADS).arg(code.parent().host()).arg(code.entry());
    // Calls of plugins that are not middleware leave their places to others while they wait.
    let is_concurrent = plugin.plan.concurrency > 1 || !plugin.plan.kind.is_middleware();
    command.args(egress.as_ref().map(|_| "egress")).args(is_concurrent.then_some("concurrent"));
    let required: Vec<_> = plugin.plan.kind.required_exports().iter().map(|names| names.join("|")).collect();
    command.args((!required.is_empty()).then(|| format!("typed={}", required.join(","))));
    command.stdout(to_log.try_clone()?).stderr(to_log);
    let child = run(command)?;
    let channel = Channel::new(Socket::new(ours)?, LogMask::of(plugin).running(code));
    Ok((child, Transport::Module(Box::new(channel)), egress))
}

/// Starts the program of a wrapper. It has no network, and no library of the gateway runs in it.
fn spawn_wrapper(
    parts: SpawnSpec<'_>,
    program: &Program,
    wrapper: &WrapperPlan,
    to_log: PipeWriter,
) -> io::Result<(Child, Transport)> {
    let (SpawnSpec { plugin, code, .. }, (to_read, stdin)) = (parts, io::pipe()?);
    let confinement = Confinement {
        required: parts.sandbox_required,
        data: plugin.plan.limits.memory,
        programs: program.files.clone(),
        readable: code.own_folders().chain(program.readable.iter().cloned()).collect(),
        parent: std::process::id(),
    };
    let mut command = parts.launcher.command(Stdin::Pipe, &confinement, &program.path, &plugin.env)?;
    command.args(arguments(&plugin.plan, wrapper, code.entry())).current_dir(code.folder());
    command.stdin(to_read).stdout(Stdio::piped()).stderr(to_log);
    let mut child = run(command)?;
    let stdin = ChildStdin::from_std(OwnedFd::from(stdin).into())?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("a pipe is missing"))?;
    let codec = match (plugin.plan.kind, plugin.plan.protocol) {
        (kind, _) if kind.is_stage() => Codec::Stage(kind),
        (_, Protocol::Lines) => plugin.plan.encoding.into(),
        (_, Protocol::Once | Protocol::Module) => Codec::Json,
    };
    let transport = match plugin.plan.protocol {
        Protocol::Lines => Transport::Lines(LinesPipes::new(stdin, stdout, codec)),
        Protocol::Once | Protocol::Module => Transport::Once(OncePipes::to_the_end(stdin, stdout, codec)),
    };
    Ok((child, transport))
}

/// The process of a worker that is not a Module worker, and the pipes to its standard input and from its standard
/// output.
struct Script {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    egress: Option<UnixStream>,
}

/// Starts a process that runs the script, with `options` before the script's path.
fn spawn_script(parts: SpawnSpec<'_>, to_log: PipeWriter, options: &[&OsStr]) -> io::Result<Script> {
    let (SpawnSpec { plugin, code, .. }, (to_read, stdin)) = (parts, io::pipe()?);
    let mut command = parts.command(Stdin::Pipe)?;
    let egress = give_stdin(&mut command, plugin, code, to_read.into())?;
    command.args(options).arg(code.entry()).stdout(Stdio::piped()).stderr(to_log);
    let mut child = run(command)?;
    let stdin = ChildStdin::from_std(OwnedFd::from(stdin).into())?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("a pipe is missing"))?;
    Ok(Script { child, stdin, stdout, egress })
}

/// Sets a worker's standard input, and adds the preload for its connections. If the plugin lists `egress`, also passes
/// a socket for these connections, and returns the gateway's end.
fn give_stdin(
    command: &mut Command,
    plugin: &LinkedPlugin,
    code: &InstalledCode,
    stdin: OwnedFd,
) -> io::Result<Option<UnixStream>> {
    if plugin.plan.egress.is_empty() {
        command.arg("--require").arg(code.parent().offline_preload()).stdin(stdin);
        return Ok(None);
    }
    command.arg("--require").arg(code.parent().egress_preload());
    hand_over(command, stdin).map(Some)
}

/// Starts the process. Takes the command by value, so that the gateway's copies of the child's descriptors are closed
/// afterwards.
fn run(command: Command) -> io::Result<Child> {
    tokio::process::Command::from(command).kill_on_drop(true).spawn()
}
