//! The process of a server: starts it, reads and writes its pipes, and ends it. The process leads its own process
//! group, so that the processes that it starts end together with it.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::domain::plan::TransportPlan;
use crate::domain::upstream::{ClientKey, Target, UpstreamError, UpstreamEvent};

use super::stderr_log::StderrLog;
use super::stdin::Stdin;
use crate::transport::{LastWords, ProcessEnd, ProcessGroup, find, stdin_queue};
use crate::upstream::context::UpstreamContext;
use crate::upstream::duplex::{Duplex, DuplexReader};

/// The variables of the gateway's own environment that a process inherits.
const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TMPDIR"];
/// How long to wait for the last output of a process that has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts the process. The caller cancels the returned token when the handshake is done. If the process ends on its own
/// after that, an event reports it, unless the process is for one client, `of`. `last_words` receives what it writes
/// that is no message.
pub(super) fn start(
    target: &Target,
    shared: &Arc<UpstreamContext>,
    of: Option<&ClientKey>,
    last_words: &Arc<LastWords>,
) -> Result<(Duplex, CancellationToken), UpstreamError> {
    let mut child = spawn(target, shared)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), ProcessGroup::new(child));
    let (Some(stdin), Some(stdout), Some(stderr), Some(process)) = pipes else {
        return Err(UpstreamError::Connect("the process has no pipes".into()));
    };
    let (queue, writer) = stdin_queue();
    let unsent = shared.metrics.unsent(&target.plan.key.name);
    let duplex = Duplex::new(target.plan.key.clone(), Arc::new(Stdin { queue, unsent }), of);
    let (stop, ended, ready) = (duplex.stop.clone(), duplex.ended.clone(), CancellationToken::new());
    let last_words = Arc::clone(last_words);
    shared.tasks.spawn(writer.run(stdin, stop.clone(), ended.clone()));
    let logged = shared.tasks.spawn(StderrLog::new(target, shared, Arc::clone(&last_words)).run(stderr));
    let read =
        shared.tasks.spawn(DuplexReader::new(target, shared, duplex.clone(), Arc::clone(&last_words)).run(stdout));
    let (target, shared, is_shared) = (Arc::clone(target), Arc::clone(shared), of.is_none());
    let supervisor = Supervisor { target, shared, duplex: duplex.clone(), ready: ready.clone(), is_shared };
    let tasks = supervisor.shared.tasks.clone();
    tasks.spawn(async move {
        let end = process.supervise(&stop, &supervisor.shared.hurry, &ended).await;
        // The last answers may still be in the pipe.
        let _ = tokio::time::timeout(LAST_WORDS, join(read, logged)).await;
        supervisor.report_end(end, &last_words);
    });
    Ok((duplex, ready))
}

fn spawn(target: &Target, shared: &UpstreamContext) -> Result<Child, UpstreamError> {
    let TransportPlan::Process { command, args, cwd, .. } = &target.plan.transport else {
        return Err(UpstreamError::Connect("it is not a process".into()));
    };
    let inherited = INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let values = target.values.iter().map(|(name, value)| (name, value.expose()));
    let path = values.clone().rfind(|(name, _)| *name == "PATH").map(|(_, path)| path.into());
    let path = path.or_else(|| std::env::var_os("PATH"));
    let spawned = find(command, cwd, path.as_deref()).and_then(|program| {
        Command::from(shared.launcher.command(&program, command))
            .args(args)
            .current_dir(cwd)
            .env_clear()
            .envs(inherited)
            .envs(values)
            .envs(shared.launcher.variable())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    });
    spawned.map_err(|error| UpstreamError::Start(format!("{}: {error}", shown(command, &error))))
}

/// Returns the name of a command that cannot be started. The message is shown to clients, so it contains neither the
/// folder of the command nor, if the command was not found because it is a whole command line, the arguments.
fn shown<'a>(command: &'a str, error: &io::Error) -> Cow<'a, str> {
    let line = command.split_whitespace().next().filter(|_| error.kind() == io::ErrorKind::NotFound);
    Path::new(line.unwrap_or(command)).file_name().unwrap_or_default().to_string_lossy()
}

struct Supervisor {
    target: Target,
    shared: Arc<UpstreamContext>,
    duplex: Duplex,
    ready: CancellationToken,
    /// Whether the process is for all clients.
    is_shared: bool,
}

impl Supervisor {
    /// Fails all waiting requests, because the process has ended. `end` is `None` if the process was told to end.
    fn report_end(&self, end: Option<ProcessEnd>, last_words: &LastWords) {
        let key = &self.target.plan.key;
        let reason = match end {
            Some(end) => UpstreamError::Exited { how: end.to_string(), wrote: last_words.text() },
            None => UpstreamError::Lost("it was stopped".to_owned()),
        };
        if end.is_some() && self.ready.is_cancelled() {
            tracing::warn!(upstream = %key, "{reason}");
            if self.is_shared {
                self.shared.events.push(UpstreamEvent::Disconnected(key.clone()));
            }
        }
        self.duplex.close(reason);
    }
}
