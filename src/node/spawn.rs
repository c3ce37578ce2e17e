//! Makes the process of a worker with the descriptors that its protocol wants. Knows no list of workers.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use tokio::process::{Child, ChildStdin, ChildStdout};

use super::code::Code;
use super::discovery::Node;
use super::egress::handed::hand_over;
use super::launcher::{Launcher, Stdin};
use super::protocol::channel::Channel;
use super::protocol::codec::Codec;
use super::protocol::lines::Lines;
use super::protocol::once::Pipes;
use super::protocol::socket::Socket;
use super::voice::Voice;
use super::worker::Talk;
use crate::domain::plugin::Protocol;
use crate::domain::ports::LinkedPlugin;

/// Of a worker that stays. One of many processes on few cores: helpers of the garbage collector would only wake each
/// other.
const FEW_THREADS: &str = "--single-threaded-gc";

/// A process that was just made.
#[derive(Debug)]
pub struct Spawned {
    /// The process, leader of its own group.
    pub child: Child,
    /// The way to it.
    pub talk: Talk,
    /// What it prints besides its answers.
    pub printed: PipeReader,
    /// Where it asks for connections, if it may have any.
    pub egress: Option<UnixStream>,
}

/// A process, the way to it, and its way out.
type Made = (Child, Talk, Option<UnixStream>);

/// Makes a process that loads `code` on `node`.
///
/// # Errors
/// Where the system has no room for another process or descriptor.
pub fn spawn(launcher: &Launcher, plugin: &LinkedPlugin, code: &Code, node: &Node) -> io::Result<Spawned> {
    let (printed, to_log) = io::pipe()?;
    let preload = code.parent().once_preload();
    let script = |options: &[&OsStr]| spawn_script(launcher, plugin, code, node, &to_log, options);
    let (child, talk, egress) = match (plugin.plan.protocol, plugin.plan.reuse) {
        (Protocol::Module, _) => spawn_module(launcher, plugin, code, node, to_log)?,
        (Protocol::Once, false) => {
            let Script { child, stdin, stdout, egress } = script(&["--require".as_ref(), preload.as_ref()])?;
            (child, Talk::Once(Pipes::new(stdin, stdout)), egress)
        }
        (Protocol::Once, true) => {
            let host = code.parent().reuse_host();
            let Script { child, stdin, stdout, egress } = script(&[FEW_THREADS.as_ref(), host.as_ref()])?;
            (child, Talk::Lines(Lines::new(stdin, stdout, Codec::Printed)), egress)
        }
        (Protocol::Lines, _) => {
            let options = [FEW_THREADS.as_ref(), "--require".as_ref(), preload.as_ref()];
            let Script { child, stdin, stdout, egress } = script(&options)?;
            (child, Talk::Lines(Lines::new(stdin, stdout, plugin.plan.encoding.into())), egress)
        }
    };
    Ok(Spawned { child, talk, printed, egress })
}

fn spawn_module(
    launcher: &Launcher,
    plugin: &LinkedPlugin,
    code: &Code,
    node: &Node,
    to_log: PipeWriter,
) -> io::Result<Made> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = launcher.command(Stdin::Socket, &node.program, &plugin.env);
    let egress = give_stdin(&mut command, plugin, code, theirs.into())?;
    command.arg(FEW_THREADS).arg(code.parent().host()).arg(code.entry()).args(egress.as_ref().map(|_| "egress"));
    command.stdout(to_log.try_clone()?).stderr(to_log);
    let child = run(command, code)?;
    let channel = Channel::new(Socket::new(ours)?, Voice::of(plugin));
    Ok((child, Talk::Module(Box::new(channel)), egress))
}

/// A process that runs a script, with its own standard input and output.
struct Script {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    egress: Option<UnixStream>,
}

/// Makes a process that runs the script with these options before it.
fn spawn_script(
    launcher: &Launcher,
    plugin: &LinkedPlugin,
    code: &Code,
    node: &Node,
    to_log: &PipeWriter,
    options: &[&OsStr],
) -> io::Result<Script> {
    let mut command = launcher.command(Stdin::Pipe, &node.program, &plugin.env);
    let (to_read, stdin) = io::pipe()?;
    let egress = give_stdin(&mut command, plugin, code, to_read.into())?;
    command.args(options).arg(code.entry()).stdout(Stdio::piped()).stderr(to_log.try_clone()?);
    let mut child = run(command, code)?;
    let stdin = ChildStdin::from_std(OwnedFd::from(stdin).into())?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("a pipe is missing"))?;
    Ok(Script { child, stdin, stdout, egress })
}

/// Gives a worker its standard input, and with it a way out where the plugin may have one.
fn give_stdin(
    command: &mut Command,
    plugin: &LinkedPlugin,
    code: &Code,
    stdin: OwnedFd,
) -> io::Result<Option<UnixStream>> {
    if plugin.plan.egress.is_empty() {
        command.stdin(stdin);
        return Ok(None);
    }
    command.arg("--require").arg(code.parent().egress_preload());
    hand_over(command, stdin).map(Some)
}

/// Our copies of the child's descriptors go with the command.
fn run(mut command: Command, code: &Code) -> io::Result<Child> {
    command.current_dir(code.folder());
    tokio::process::Command::from(command).kill_on_drop(true).spawn()
}
