//! Inspects plugin code without running it. Users write this code, and some of it can make a parser overflow its stack.
//! So the code is parsed in a child process (`hawsepipe inspect`), in the sandbox and with a deadline.

pub mod parse;

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::Semaphore;

use super::launcher::Launcher;
use super::sandbox::confine_parser;
use crate::domain::ports::{CodeFacts, Inspect, Unavailable};

/// The maximum number of bytes of code that are parsed.
const MAX_CODE: usize = 1 << 20;
/// The maximum number of bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;
/// How long one inspection may take.
const DEADLINE: Duration = Duration::from_secs(2);
/// How many children may run at the same time.
const AT_ONCE: usize = 2;
/// The size of the parser's stack: about the size that V8 uses.
const STACK: usize = 1 << 20;

/// The child's standard input, as one JSON document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    file_name: &'a str,
    code: std::borrow::Cow<'a, str>,
}

/// Inspects code in child processes.
#[derive(Debug)]
pub struct Inspector {
    launcher: Launcher,
    slots: Semaphore,
}

impl Inspector {
    /// Creates an inspector whose children are started by `launcher`.
    pub fn new(launcher: Launcher) -> Self {
        Self { launcher, slots: Semaphore::new(AT_ONCE) }
    }

    async fn ask(&self, question: &[u8]) -> Result<CodeFacts, Unavailable> {
        let unavailable = |error: &dyn std::fmt::Display| Unavailable::Unasked(error.to_string());
        let _slot = self.slots.acquire().await.map_err(|error| unavailable(&error))?;
        let mut command = self.launcher.subcommand("inspect");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            tokio::process::Command::from(command).kill_on_drop(true).spawn().map_err(|error| unavailable(&error))?;
        match tokio::time::timeout(DEADLINE, converse(&mut child, question)).await {
            Ok(Ok(InspectionEnd::Answer(answer))) => {
                serde_json::from_slice(&answer).map_err(|error| unavailable(&error))
            }
            Ok(Ok(InspectionEnd::Overflow)) => Ok(CodeFacts::unparsed(beyond("nesting too deep"))),
            Ok(Ok(InspectionEnd::Ended(status))) => {
                Err(Unavailable::Unasked(format!("the parser's process ended: {status}")))
            }
            Ok(Err(error)) => Err(unavailable(&error)),
            Err(_) => Err(Unavailable::Late(DEADLINE)),
        }
    }
}

impl Inspect for Inspector {
    async fn inspect(&self, code: &str, file_name: &str) -> Result<CodeFacts, Unavailable> {
        if let Some(message) = too_large(code) {
            return Ok(CodeFacts::unparsed(message));
        }
        match serde_json::to_vec(&Question { file_name, code: code.into() }) {
            Ok(question) => self.ask(&question).await,
            Err(error) => Err(Unavailable::Unasked(error.to_string())),
        }
    }
}

/// How the child ended.
enum InspectionEnd {
    /// It printed the facts, as JSON.
    Answer(Vec<u8>),
    /// It was killed by a signal that a stack overflow can cause.
    Overflow,
    /// It ended in another way.
    Ended(ExitStatus),
}

/// `hawsepipe inspect`: reads a file name and code from standard input, and prints the facts as JSON.
///
/// # Errors
/// If reading, writing, confining the process or starting the parser's thread fails.
pub fn inspect_main() -> io::Result<()> {
    confine_parser(2 * DEADLINE.as_secs())?;
    let mut text = Vec::new();
    io::stdin().take(8 * MAX_CODE as u64).read_to_end(&mut text)?;
    let parser = std::thread::Builder::new().stack_size(STACK).spawn(move || -> io::Result<Vec<u8>> {
        let question: Question<'_> = serde_json::from_slice(&text)?;
        Ok(serde_json::to_vec(&parse::facts(&question.code, question.file_name))?)
    })?;
    // A parser that panics would panic again, so the code counts as unparsable.
    let failed = |_| Ok(serde_json::to_vec(&CodeFacts::unparsed("the parser failed".to_owned()))?);
    io::stdout().write_all(&parser.join().unwrap_or_else(failed)?)
}

async fn converse(child: &mut Child, question: &[u8]) -> io::Result<InspectionEnd> {
    if let Some(mut stdin) = child.stdin.take() {
        // This fails if the child has already ended. Its exit status then tells why.
        let _ = stdin.write_all(question).await;
    }
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    }
    let status = child.wait().await?;
    let of_overflow = [Signal::SEGV, Signal::ABORT, Signal::BUS].map(Signal::as_raw);
    Ok(match status.signal() {
        _ if status.success() => InspectionEnd::Answer(answer),
        Some(signal) if of_overflow.contains(&signal) => InspectionEnd::Overflow,
        _ => InspectionEnd::Ended(status),
    })
}

/// Returns a message if the code is too large to be parsed.
fn too_large(code: &str) -> Option<String> {
    (code.len() > MAX_CODE).then(|| beyond(&format!("it is larger than {MAX_CODE} bytes")))
}

fn beyond(what: &str) -> String {
    format!("cannot be parsed within bounds: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_looked_at_up_to_its_bound() {
        let mut code = "x".repeat(MAX_CODE);
        assert_eq!(too_large(&code), None);
        code.push('x');
        assert!(too_large(&code).is_some_and(|why| why.contains("1048576 bytes")));
    }
}
