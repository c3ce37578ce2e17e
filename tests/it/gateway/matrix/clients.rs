//! The clients: three SDKs, each in both eras, as processes that answer the lines of a script.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::conformance::fixture_program;
use crate::fixtures::{fixture, python};

/// How long a client may take for its whole script, on a busy machine.
const AT_MOST: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    Python,
    TypeScript,
    Rust,
}

/// A client of an SDK in an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub sdk: Sdk,
    pub era: Era,
}

/// All of them.
pub const CLIENTS: [Client; 6] = [
    Client { sdk: Sdk::Python, era: Era::Legacy },
    Client { sdk: Sdk::TypeScript, era: Era::Legacy },
    Client { sdk: Sdk::Rust, era: Era::Legacy },
    Client { sdk: Sdk::Python, era: Era::Modern },
    Client { sdk: Sdk::TypeScript, era: Era::Modern },
    Client { sdk: Sdk::Rust, era: Era::Modern },
];

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sdk = match self.sdk {
            Sdk::Python => "py",
            Sdk::TypeScript => "ts",
            Sdk::Rust => "rs",
        };
        write!(f, "{sdk}-{}", self.mode())
    }
}

impl Client {
    fn mode(self) -> &'static str {
        match self.era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }

    fn command(self, url: &str, answers: &str) -> Command {
        let script = match self.sdk {
            Sdk::Rust => {
                let mut command = Command::new(fixture_program());
                command.args(["script", url, self.mode(), answers]);
                return command;
            }
            Sdk::Python => "clients/py_client.py",
            Sdk::TypeScript => "clients/ts_client.mjs",
        };
        let mut command = if self.sdk == Sdk::Python { Command::new(python()) } else { Command::new("node") };
        command.arg(fixture(script)).args(["--url", url, "--mode", self.mode(), "--answers", answers, "script"]);
        command
    }

    /// Runs the client on a script. Returns its answer to each line.
    pub async fn run(self, url: &str, answers: &Value, script: &str) -> Vec<Value> {
        let mut command = self.command(url, &answers.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let script = script.to_owned();
        let writing = tokio::spawn(async move { stdin.write_all(script.as_bytes()).await });
        let output = tokio::time::timeout(AT_MOST, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("{self} does not end")).unwrap();
        writing.await.unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let first = lines.next().unwrap_or_else(|| panic!("{self} says nothing"));
        let version = if self.era == Era::Modern { "2026-07-28" } else { "2025-11-25" };
        assert!(first["connected"] == true && first["protocolVersion"] == version, "{self}: {first}");
        lines.collect()
    }
}
