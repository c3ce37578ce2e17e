//! One process of the server: starts it, reads and writes its pipes, and ends it.

use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::call_state::Closed;
use super::calls::Calls;
use super::context::Context;
use super::reaper::kill_marked;
use super::stderr;
use super::stdout::StdoutReader;
use crate::transport::{LastWords, ProcessEnd, ProcessGroup, StdinQueue, stdin_queue};

/// How long to wait for the last output of a process that has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The variable in the environment of each process that says to which process of the bridge it belongs.
const MARK: &str = "HAWSEPIPE_BRIDGE_PROCESS";

/// A running process. Its tasks keep this value until it has ended.
#[derive(Debug)]
pub(super) struct ServerProcess {
    pub(super) calls: Calls,
    stdin: StdinQueue,
    /// Cancelled to make the process end.
    stop: CancellationToken,
    /// Cancelled when the process has ended.
    ended: CancellationToken,
}

/// The process cannot be started. The text names the command.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {name}: {error}")]
pub(super) struct CannotStart {
    name: String,
    error: std::io::Error,
}

impl ServerProcess {
    /// Starts the process. `label` stands before each line of the log that is about it.
    pub(super) fn start(context: &Arc<Context>, label: Option<String>) -> Result<Arc<Self>, CannotStart> {
        let label = label.map(|label| format!("[{label}] ")).unwrap_or_default();
        let Spawned { process, mark, stdin, stdout, stderr, last_words } = spawn(context, &label)?;
        let (queue, writer) = stdin_queue();
        let (stop, closed) = (CancellationToken::new(), CancellationToken::new());
        let server = Arc::new(Self {
            calls: Calls::default(),
            stdin: queue,
            stop: stop.clone(),
            ended: CancellationToken::new(),
        });
        context.tasks.spawn(writer.run(stdin, stop.clone(), closed.clone()));
        let (reader, of_reader) = (Arc::clone(&server), (Arc::clone(context), closed.clone(), label.clone()));
        let strays = Arc::clone(&last_words);
        let read = context.tasks.spawn(async move {
            let (context, closed, label) = of_reader;
            StdoutReader::new(&reader.calls, |reply| reader.offer(reply), &context, &label, &strays).run(stdout).await;
            closed.cancel();
        });
        let (told, ending) = (Arc::clone(&server), context.ending.clone());
        context.tasks.spawn(async move {
            tokio::select! {
                () = ending.cancelled() => told.calls.close(Closed::because("the bridge is ending")),
                () = told.ended.cancelled() => {}
            }
            told.stop();
        });
        let (watched, context_of_end) = (Arc::clone(&server), Arc::clone(context));
        context.tasks.spawn(async move {
            let pid = process.id();
            let end = process.supervise(&stop, &context_of_end.hurry, &closed).await;
            context_of_end.reaped(pid);
            // The process may have exited before what it started could be found through it.
            kill_marked(mark).await;
            last_output([read, stderr]).await;
            // Before sessions hear of the end: what they answer to calls does not say why.
            watched.calls.close(why(end, &last_words));
            watched.ended.cancel();
            if let Some(end) = end {
                stderr::say(format!("{label}the server's process has ended ({end})")).await;
            }
        });
        Ok(server)
    }

    /// Queues a message, and waits while too much is queued: the server may read slowly. Does nothing if the process no
    /// longer reads; its calls fail then.
    pub(super) async fn send(&self, text: String) {
        let _ = self.stdin.send(text).await;
    }

    /// Queues a small message, or drops it if too much is queued.
    pub(super) fn offer(&self, text: String) {
        let _ = self.stdin.offer(text);
    }

    /// Ends the process in the background.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether the process has ended or is told to.
    pub(super) fn is_over(&self) -> bool {
        self.stop.is_cancelled() || self.ended.is_cancelled()
    }

    /// Whether the process has ended, so that its calls are answered with an error.
    pub(super) fn has_ended(&self) -> bool {
        self.calls.why_closed().is_some()
    }

    /// Completes when the process has ended.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// A process that was started, and its pipes.
struct Spawned {
    process: ProcessGroup,
    /// The variable of its environment, `NAME=value`, that all that it starts inherits.
    mark: String,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// The task that passes on its stderr.
    stderr: JoinHandle<()>,
    last_words: Arc<LastWords>,
}

fn spawn(context: &Arc<Context>, label: &str) -> Result<Spawned, CannotStart> {
    let cannot = |error| CannotStart { name: context.command.clone(), error };
    let program = context.find().map_err(cannot)?;
    let mark = format!("{}-{}", std::process::id(), context.started.fetch_add(1, Ordering::Relaxed));
    // No process may be taken for an orphan between its start and the moment when it is known.
    let mut own = context.own.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child: Child = Command::from(context.launcher.command(&program, &context.command))
        .args(&context.args)
        .env(MARK, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take(), ProcessGroup::new(child));
    let (Some(stdin), Some(stdout), Some(stderr), Some(process)) = pipes else {
        return Err(cannot(std::io::Error::other("it has no pipes")));
    };
    own.insert(process.id());
    drop(own);
    let last_words = Arc::default();
    let stderr = stderr::pass_on(stderr, label.to_owned(), Arc::clone(context), Arc::clone(&last_words));
    let stderr = context.tasks.spawn(stderr);
    Ok(Spawned { process, mark: format!("{MARK}={mark}"), stdin, stdout, stderr, last_words })
}

/// Waits for the last output of a process that has ended. Others may still have its pipes.
async fn last_output(readers: [JoinHandle<()>; 2]) {
    let aborts = readers.each_ref().map(JoinHandle::abort_handle);
    let _ = tokio::time::timeout(LAST_WORDS, join_all(readers)).await;
    aborts.iter().for_each(AbortHandle::abort);
}

/// Why there are no answers any more. `end` is `None` if the process was told to end.
fn why(end: Option<ProcessEnd>, last_words: &LastWords) -> Closed {
    match end {
        Some(end) => Closed {
            reason: format!("the server's process has ended ({end})"),
            by_itself: true,
            last_words: last_words.text(),
        },
        None => Closed::because("the server's process was stopped"),
    }
}
