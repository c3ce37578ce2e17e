//! The process itself: how it is started, what reads and writes it, how it ends. It leads a process group of its own,
//! so that what it starts ends with it.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::domain::plan::TransportPlan;
use crate::domain::secret::Mask;
use crate::domain::upstream::{Target, UpstreamError, UpstreamEvent};

use super::calls::Calls;
use super::lines::Lines;
use super::{OUTGOING, Wire};
use crate::upstream::shared::Shared;
use crate::upstream::wire::{self, ENVELOPE, Incoming, Notice};

/// What a process gets of the gateway's own environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TMPDIR"];
/// How long a process may take to end by itself, and then after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long the last words of a process that ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Bytes of a line of stderr.
const LOG_LINE: usize = 8 * 1024;

/// Starts the process. The second token says that the handshake is done: from then on its end is an event.
pub(super) fn start(target: &Target, shared: &Arc<Shared>) -> Result<(Wire, CancellationToken), UpstreamError> {
    let mut child = spawn(target)?;
    let (Some(stdin), Some(stdout), Some(stderr), Some(pid)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id())
    else {
        return Err(UpstreamError::Connect("the process has no pipes".into()));
    };
    let (outgoing, queue) = mpsc::channel(OUTGOING);
    let (calls, stop, ready) = (Arc::new(Calls::new()), CancellationToken::new(), CancellationToken::new());
    let (ended, last_words) = (CancellationToken::new(), Arc::new(Mutex::default()));
    let wire = Wire { calls: Arc::clone(&calls), outgoing, stop: stop.clone(), ended: ended.clone() };
    let name = target.plan.key.to_string();
    shared.tasks.spawn(write(stdin, queue, stop.clone(), ended.clone()));
    let log = Log { name, mask: target.mask(), last: Arc::clone(&last_words) };
    let logged = shared.tasks.spawn(log.run(stderr));
    let reader = Reader { target: Arc::clone(target), shared: Arc::clone(shared), wire: wire.clone() };
    shared.tasks.spawn(reader.run(stdout));
    let supervisor =
        Supervisor { target: Arc::clone(target), shared: Arc::clone(shared), calls, stop, ended, ready: ready.clone() };
    shared.tasks.spawn(async move {
        let status = supervisor.watch(&mut child, pid).await;
        let _ = tokio::time::timeout(LAST_WORDS, logged).await;
        let last = std::mem::take(&mut *last_words.lock().unwrap_or_else(PoisonError::into_inner));
        supervisor.bury(status, last);
    });
    Ok((wire, ready))
}

fn spawn(target: &Target) -> Result<Child, UpstreamError> {
    let TransportPlan::Process { command, args, cwd, .. } = &target.plan.transport else {
        return Err(UpstreamError::Connect("it is no process".into()));
    };
    let inherited = INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    Command::new(command)
        .args(args)
        .current_dir(cwd)
        .env_clear()
        .envs(inherited)
        .envs(target.values.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| UpstreamError::Connect(format!("{command} cannot be started in {}: {e}", cwd.display())))
}

/// Writes what is queued until it is told to stop; then closes the process's stdin.
async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    stop: CancellationToken,
    ended: CancellationToken,
) {
    loop {
        let text = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            text = queue.recv() => text,
        };
        let Some(text) = text else { return };
        tokio::select! {
            written = stdin.write_all(&text) => if written.is_err() {
                // It no longer listens, so it is of no use, though it may live.
                return ended.cancel();
            },
            () = stop.cancelled() => return,
        }
    }
}

struct Reader {
    target: Target,
    shared: Arc<Shared>,
    wire: Wire,
}

impl Reader {
    async fn run(self, stdout: ChildStdout) {
        let limit = self.target.max_response_size.saturating_add(ENVELOPE);
        let mut lines = Lines::new(stdout, usize::try_from(limit).unwrap_or(usize::MAX));
        while let Ok(Some(line)) = lines.next().await {
            let read = if line.cut {
                Err(UpstreamError::TooLarge(self.target.max_response_size))
            } else {
                self.take(line.bytes)
            };
            if let Err(error) = read {
                self.wire.calls.close(error);
                break;
            }
        }
        self.wire.ended.cancel();
    }

    /// Deals with one line. What is no JSON object at all is taken for words to people and passed over, as is a JSON
    /// object that is no JSON-RPC message; an object that breaks off, or text that is not UTF-8, ends the connection.
    fn take(&self, line: &[u8]) -> Result<(), UpstreamError> {
        match wire::read(line) {
            Ok(Incoming::Answer { id, answer }) => {
                let id = id.and_then(|id| id.get().parse().ok());
                if !id.is_some_and(|id| self.wire.calls.answer(id, answer)) {
                    tracing::debug!(upstream = %self.target.plan.key, "an answer that nobody waits for was dropped");
                }
            }
            Ok(Incoming::Request { id, method }) => self.wire.offer(wire::reply(id, &method)),
            Ok(Incoming::Notification { notice: Notice::Progress, params }) => {
                if let Some((token, params)) = wire::progress(params) {
                    self.wire.calls.progress(token, params);
                }
            }
            Ok(Incoming::Notification { notice: Notice::ToolsChanged, .. }) => {
                self.shared.events.tell(UpstreamEvent::ToolsChanged(self.target.plan.key.clone()));
            }
            Ok(Incoming::Notification { .. }) => {}
            Err(fault) => {
                let is_object = line.trim_ascii_start().first() == Some(&b'{');
                if is_object && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()
                    || str::from_utf8(line).is_err()
                {
                    return Err(UpstreamError::Protocol(fault.into()));
                }
                if !line.trim_ascii().is_empty() {
                    tracing::debug!(upstream = %self.target.plan.key, "a line on stdout that is no message was dropped");
                }
            }
        }
        Ok(())
    }
}

struct Log {
    name: String,
    mask: Mask,
    last: Arc<Mutex<String>>,
}

impl Log {
    async fn run(self, stderr: ChildStderr) {
        let mut lines = Lines::new(stderr, LOG_LINE);
        while let Ok(Some(line)) = lines.next().await {
            let text = self.masked(&String::from_utf8_lossy(line.bytes));
            if !text.is_empty() {
                tracing::info!(upstream = %self.name, "{text}");
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = text;
            }
        }
    }

    /// Without the values it was given and without control characters, colours among them.
    fn masked(&self, text: &str) -> String {
        let text = self.mask.masked(text);
        text.trim_end().chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
    }
}

struct Supervisor {
    target: Target,
    shared: Arc<Shared>,
    calls: Arc<Calls>,
    stop: CancellationToken,
    ended: CancellationToken,
    ready: CancellationToken,
}

impl Supervisor {
    /// Waits for the process to end or for a reason to end it, and ends its whole group.
    async fn watch(&self, child: &mut Child, pid: u32) -> Option<ExitStatus> {
        let exited = tokio::select! {
            status = child.wait() => Some(status),
            () = self.stop.cancelled() => None,
            () = self.shared.hurry.cancelled() => None,
            () = self.ended.cancelled() => tokio::time::timeout(LAST_WORDS, child.wait()).await.ok(),
        };
        let asked = self.stop.is_cancelled() || self.shared.hurry.is_cancelled();
        self.stop.cancel();
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let status = match exited {
            Some(status) => status,
            None => self.end(child, group).await,
        };
        signal(group, Signal::KILL);
        if asked { None } else { status.ok() }
    }

    /// Ends a process whose stdin is closed: it may end by itself, then after SIGTERM; in a hurry it may not.
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

    /// Tells everybody. `status` is there where it ended unasked.
    fn bury(&self, status: Option<ExitStatus>, last: String) {
        let key = &self.target.plan.key;
        let reason = match status {
            Some(status) if last.is_empty() => format!("the process ended ({status})"),
            Some(status) => format!("the process ended ({status}): {last:.300}"),
            None => "it was stopped".to_owned(),
        };
        if status.is_some() && self.ready.is_cancelled() {
            tracing::warn!(upstream = %key, "{reason}");
            self.shared.events.tell(UpstreamEvent::Disconnected(key.clone()));
        }
        self.calls.close(UpstreamError::Lost(reason));
    }
}

/// Signals the whole group; that fails only where it is gone already.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}
