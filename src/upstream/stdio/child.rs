//! The process of a server: starts it, reads and writes its pipes, and ends it. The process leads its own process
//! group, so that the processes that it starts end together with it.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::domain::plan::TransportPlan;
use crate::domain::upstream::{Target, UpstreamError, UpstreamEvent};

use super::open_requests::OpenRequests;
use super::pipes::{OUTGOING, OUTGOING_BYTES, Outgoing, ProcessPipes};
use super::server_launcher::find;
use super::stderr_log::StderrLog;
use super::stdout_reader::StdoutReader;
use super::tree::Descendants;
use crate::upstream::context::UpstreamContext;

/// The variables of the gateway's own environment that a process inherits.
const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TMPDIR"];
/// How long a process may take to exit after its stdin was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the last output of a process that has ended, and for the exit of a process that has closed its
/// pipes.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts the process. The caller cancels the returned token when the handshake is done. If the process ends on its own
/// after that, an event reports it.
pub(super) fn start(
    target: &Target,
    shared: &Arc<UpstreamContext>,
) -> Result<(ProcessPipes, CancellationToken), UpstreamError> {
    let mut child = spawn(target, shared)?;
    let (Some(stdin), Some(stdout), Some(stderr), Some(pid)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id())
    else {
        return Err(UpstreamError::Connect("the process has no pipes".into()));
    };
    let (outgoing, queue) = mpsc::channel(OUTGOING);
    let (calls, stop, ready) = (Arc::new(OpenRequests::new()), CancellationToken::new(), CancellationToken::new());
    let (ended, last_words) = (CancellationToken::new(), Arc::new(Mutex::default()));
    let wire = ProcessPipes {
        calls: Arc::clone(&calls),
        outgoing,
        room: Arc::new(Semaphore::new(OUTGOING_BYTES)),
        key: target.plan.key.clone(),
        strays: Arc::default(),
        unsent: shared.metrics.unsent(&target.plan.key.name),
        batches: Arc::default(),
        stop: stop.clone(),
        ended: ended.clone(),
    };
    shared.tasks.spawn(write(stdin, queue, stop.clone(), ended.clone()));
    let logged = shared.tasks.spawn(StderrLog::new(target, shared, Arc::clone(&last_words)).run(stderr));
    shared.tasks.spawn(StdoutReader::new(target, shared, wire.clone()).run(stdout));
    let supervisor =
        Supervisor { target: Arc::clone(target), shared: Arc::clone(shared), calls, stop, ended, ready: ready.clone() };
    shared.tasks.spawn(async move {
        let status = supervisor.watch(&mut child, pid).await;
        let _ = tokio::time::timeout(LAST_WORDS, logged).await;
        let last = std::mem::take(&mut *last_words.lock().unwrap_or_else(PoisonError::into_inner));
        supervisor.report_end(status, last);
    });
    Ok((wire, ready))
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
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    });
    // The message is shown to clients, so it does not contain the folder of the command.
    let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy();
    spawned.map_err(|error| UpstreamError::Start(format!("{name}: {error}")))
}

/// Writes queued messages to the process's stdin until `stop` is cancelled or writing fails, then closes it.
async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Outgoing>,
    stop: CancellationToken,
    ended: CancellationToken,
) {
    loop {
        let text = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            text = queue.recv() => text,
        };
        let Some((text, _room)) = text else { return };
        tokio::select! {
            written = stdin.write_all(&text) => if written.is_err() {
                // The process no longer reads its stdin, so it is useless even if it is still running.
                return ended.cancel();
            },
            () = stop.cancelled() => return,
        }
    }
}

struct Supervisor {
    target: Target,
    shared: Arc<UpstreamContext>,
    calls: Arc<OpenRequests>,
    stop: CancellationToken,
    ended: CancellationToken,
    ready: CancellationToken,
}

impl Supervisor {
    /// Waits until the process has exited or must end. Then ends its whole process group and, if the process was still
    /// running, its other descendants. Returns the exit status, or `None` if the process was told to end.
    async fn watch(&self, child: &mut Child, pid: u32) -> Option<ExitStatus> {
        let exited = tokio::select! {
            status = child.wait() => Some(status),
            () = self.stop.cancelled() => None,
            () = self.shared.hurry.cancelled() => None,
            () = self.ended.cancelled() => tokio::time::timeout(LAST_WORDS, child.wait()).await.ok(),
        };
        let asked = self.stop.is_cancelled() || self.shared.hurry.is_cancelled();
        // Once the process has exited, its descendants can no longer be found through it.
        let started = if exited.is_none() { Descendants::of(pid) } else { Descendants::default() };
        self.stop.cancel();
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let status = match exited {
            Some(status) => status,
            None => self.end(child, group).await,
        };
        signal(group, Signal::KILL);
        started.kill();
        if asked { None } else { status.ok() }
    }

    /// Ends a process whose stdin is closed: waits for it to exit, then sends SIGTERM, then SIGKILL. If the gateway
    /// aborts, sends SIGKILL immediately.
    async fn end(&self, child: &mut Child, group: Option<Pid>) -> std::io::Result<ExitStatus> {
        let gently = async {
            if let Ok(status) = tokio::time::timeout(GRACE, child.wait()).await {
                return Some(status);
            }
            signal(group, Signal::TERM);
            tokio::time::timeout(GRACE, child.wait()).await.ok()
        };
        let status = tokio::select! {
            status = gently => status,
            () = self.shared.hurry.cancelled() => None,
        };
        match status {
            Some(status) => status,
            None => {
                signal(group, Signal::KILL);
                child.wait().await
            }
        }
    }

    /// Fails all waiting requests, because the process has ended. `status` is `None` if the process was told to end.
    fn report_end(&self, status: Option<ExitStatus>, last: String) {
        let key = &self.target.plan.key;
        let reason = match status {
            Some(status) if last.is_empty() => format!("the process ended ({status})"),
            Some(status) => format!("the process ended ({status}): {last:.300}"),
            None => "it was stopped".to_owned(),
        };
        if status.is_some() && self.ready.is_cancelled() {
            tracing::warn!(upstream = %key, "{reason}");
            self.shared.events.push(UpstreamEvent::Disconnected(key.clone()));
        }
        self.calls.close(UpstreamError::Lost(reason));
    }
}

/// Signals the whole group. This fails only if the group no longer exists.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}
