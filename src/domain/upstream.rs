//! An upstream as the engine knows it: its target, its answers, its errors.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::budget::NO_ROOM;
use super::ids::ObjectKey;
use super::log_level::LogLevel;
use super::plan::UpstreamPlan;
use super::secret::{Mask, SecretText};

/// What a process has for its first connection: `npx` may have to fetch it first.
pub const FIRST_START: Duration = Duration::from_secs(60);

/// An upstream ready to be connected to: its plan with secrets resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTarget {
    /// The plan.
    pub plan: UpstreamPlan,
    /// Values of the headers or environment variables, in the order of the plan's list. An optional one that is not
    /// there is left out.
    pub values: Vec<(String, SecretText)>,
    /// Bytes of an answer.
    pub max_response_size: u64,
}

impl UpstreamTarget {
    /// Hides its values in what the server says.
    pub fn mask(&self) -> Mask {
        Mask::of(self.values.iter().map(|(_, value)| value))
    }
}

/// The era that an upstream was found to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Era {
    /// Sessions begun by `initialize`: 2025-11-25 and before.
    Legacy,
    /// Stateless: 2026-07-28.
    Modern,
}

impl Era {
    /// The metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// What is known of a server after a handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// What it speaks.
    pub era: Era,
    /// The protocol version agreed on.
    pub version: String,
    /// Its own name and version, where it says so.
    pub server_name: Option<String>,
    /// See `server_name`.
    pub server_version: Option<String>,
    /// Whether it lists tools.
    pub has_tools: bool,
}

impl ServerFacts {
    /// Without what must not be seen in what the server calls itself.
    pub fn masked(&self, mask: &Mask) -> Self {
        let hidden = |said: &Option<String>| said.as_ref().map(|said| mask.masked(said).into_owned());
        Self { server_name: hidden(&self.server_name), server_version: hidden(&self.server_version), ..self.clone() }
    }
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// It is connected and answers.
    Up(ServerFacts),
    /// It is connected, and answers nothing while it works on a call: some servers do one thing at a time.
    Busy,
    /// Its connection ended because nobody used it. The next call or list begins it anew; a probe does not.
    Resting,
}

/// A call as it goes upstream.
#[derive(Clone, Debug)]
pub struct OutCall {
    /// The server's own name of the tool.
    pub tool: String,
    /// The arguments, the bytes to send; none where the client sent none.
    pub arguments: Option<Box<RawValue>>,
    /// The members of the client's `_meta` that travel on: trace context and what is not the protocol's own.
    pub meta: Vec<(String, Box<RawValue>)>,
    /// Whether the client asked for progress.
    pub wants_progress: bool,
    /// The least grave log message that the client wants of it; none where it wants none.
    pub log_level: Option<LogLevel>,
    /// How long its answer may take.
    pub timeout: Duration,
    /// Whether progress of the server gives it that long again.
    pub extend_on_progress: bool,
}

/// What a server answered, as it came.
#[derive(Clone, Debug)]
pub enum Answer {
    /// `result`.
    Result(Box<RawValue>),
    /// `error`.
    Error(Box<RawValue>),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// It could not be reached. Nothing was executed.
    #[error("cannot be reached: {0}")]
    Connect(String),
    /// Its program could not be started. Nothing of the server's own is in the words.
    #[error("cannot be started: {0}")]
    Start(String),
    /// The connection ended while the answer was due.
    #[error("connection lost: {0}")]
    Lost(String),
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It wants credentials that it was not given (HTTP 401 or 403).
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// What it sent is not the protocol.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// Its answer exceeds the limit.
    #[error("its answer is larger than {0} bytes")]
    TooLarge(u64),
    /// The gateway had no room for its answer.
    #[error("this gateway holds as many bytes as it may, so that the answer was dropped; what was asked may be done")]
    NoRoom,
    /// The caller gave the call up.
    #[error("cancelled")]
    Cancelled,
}

impl UpstreamError {
    /// The word of the `Connected` condition and of metric labels.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connect(_) | Self::Start(_) | Self::Lost(_) => "ConnectFailed",
            Self::Timeout(_) => "Timeout",
            Self::Unauthorized(_) => "Unauthorized",
            Self::Protocol(_) => "ProtocolError",
            Self::TooLarge(_) => "TooLarge",
            Self::NoRoom => NO_ROOM,
            Self::Cancelled => "Cancelled",
        }
    }

    /// The text that clients may see. The last words of a server go into the log only, because no Guard has seen them.
    pub fn to_client(&self) -> String {
        match self {
            Self::Connect(_) => "it cannot be reached; the gateway's log says why".to_owned(),
            Self::Lost(_) => "connection lost; the gateway's log says why".to_owned(),
            other => other.to_string(),
        }
    }
}

/// What an upstream tells without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamEvent {
    /// Its tool list changed.
    ToolsChanged(ObjectKey),
    /// Its connection or process ended.
    Disconnected(ObjectKey),
    /// It answered as a server of another era might.
    Doubtful(ObjectKey),
}

/// A handle on a target that several may hold.
pub type Target = Arc<UpstreamTarget>;
