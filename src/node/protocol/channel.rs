//! The gateway's side of the Module protocol: frames over one socket, one call at a time. Knows no process and no
//! deadline; whoever drops an exchange before its end must not use the channel again.

use std::io::{self, IoSlice};

use serde::{Deserialize, Serialize};

use super::Exchange;
use super::frame::{HEAD, Head, Kind, VERSION};
use super::socket::Socket;
use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::reason::Reason;
use crate::node::voice::Voice;

/// Bytes that the JSON header of a worker's frame may have.
const MAX_HEADER: usize = 1 << 20;
/// Bytes of a log line.
const MAX_LOG: usize = 64 << 10;
/// Buffers that grew beyond this are given back after the call.
const KEPT: usize = 512 << 10;

/// One worker's socket with its buffers.
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    voice: Voice,
    last_id: u64,
}

/// Why there is no further frame.
#[derive(Debug)]
enum Broken {
    /// The other side is gone.
    Closed,
    /// It sent what is no frame, or a frame that has no place here.
    Protocol(&'static str),
    /// It sent more than it may.
    TooLarge(usize),
}

#[derive(Serialize)]
struct CallHeader<'a> {
    id: u64,
    input: &'a Input<'a>,
}

#[derive(Deserialize)]
struct IdHeader {
    id: u64,
}

#[derive(Deserialize)]
struct LogHeader {
    #[serde(default)]
    id: u64,
    level: String,
}

#[derive(Deserialize)]
struct ReadyHeader {
    version: u32,
}

#[derive(Deserialize)]
struct FailureHeader {
    id: u64,
    reason: String,
    message: String,
    #[serde(default)]
    stack: String,
}

impl Channel {
    /// Speaks over `socket` with a worker of the plugin of `voice`, which is named in its log lines.
    pub fn new(socket: Socket, voice: Voice) -> Self {
        Self { socket, inbox: Vec::with_capacity(64 << 10), outbox: Vec::new(), voice, last_id: 0 }
    }

    /// Waits until the worker says that the plugin is loaded.
    ///
    /// # Errors
    /// Why it is not, in words for people; none where the worker ended without a word.
    pub async fn ready(&mut self) -> Result<(), Option<String>> {
        loop {
            let head = match self.receive(MAX_LOG).await {
                Ok(head) => head,
                Err(Broken::Closed) => return Err(None),
                Err(_) => return Err(Some("wrote to the gateway's socket before it was loaded".into())),
            };
            let (json, text) = self.parts(&head);
            match head.kind {
                Kind::Ready => match serde_json::from_slice::<ReadyHeader>(json) {
                    Ok(ready) if ready.version == VERSION => {
                        self.take(&head);
                        return Ok(());
                    }
                    _ => return Err(Some("speaks another version of the wire".into())),
                },
                Kind::Failure => {
                    let message = serde_json::from_slice::<FailureHeader>(json).map(|f| f.message);
                    return Err(Some(message.unwrap_or_else(|_| "could not say why it failed to load".into())));
                }
                Kind::Log => log_line(&self.voice, json, text),
                _ => {}
            }
            self.take(&head);
        }
    }

    /// Sends one call and reads until its answer. An answer of more than `max_output` bytes is not read.
    pub async fn exchange(&mut self, input: &Input<'_>, max_output: usize) -> Exchange {
        self.last_id += 1;
        if let Err(error) = self.send_call(input).await {
            return match error.kind() {
                io::ErrorKind::InvalidInput => Exchange::settled(Err(too_large("its input's header", 1 << 24))),
                _ => Exchange::last(Err(closed())),
            };
        }
        loop {
            let head = match self.receive(max_output).await {
                Ok(head) => head,
                Err(broken) => return Exchange::last(Err(broken.into_failure())),
            };
            let output = self.judge(&head);
            self.take(&head);
            if let Some(output) = output {
                return Exchange::settled(output);
            }
        }
    }

    /// What a frame says about the call in flight; none where it says nothing about it.
    fn judge(&self, head: &Head) -> Option<Result<Output, Failure>> {
        let (json, text) = self.parts(head);
        match head.kind {
            Kind::Result => {
                let invalid =
                    |what: &str| Failure::new(Reason::InvalidOutput, format!("returned invalid JSON: {what}"));
                let Ok(json) = std::str::from_utf8(json) else { return Some(Err(invalid("it is not UTF-8"))) };
                let answered = serde_json::from_str::<IdHeader>(json).ok()?.id;
                if answered != self.last_id {
                    return None;
                }
                let text = match head.content.then(|| String::from_utf8(text.to_vec())).transpose() {
                    Ok(text) => text,
                    Err(_) => return Some(Err(invalid("its text is not UTF-8"))),
                };
                Some(Output::parse(json, text))
            }
            Kind::Failure => {
                let failure = serde_json::from_slice::<FailureHeader>(json).ok()?;
                (failure.id == self.last_id).then(|| Err(self.plugin_failure(failure)))
            }
            Kind::Log => {
                log_line(&self.voice, json, text);
                None
            }
            _ => None,
        }
    }

    fn plugin_failure(&self, failure: FailureHeader) -> Failure {
        if !failure.stack.is_empty() {
            let (message, stack) = (self.voice.masked(&failure.message), self.voice.masked(&failure.stack));
            tracing::debug!(target: "hawsepipe::plugin", plugin = self.voice.name(), "{message}\n{stack}");
        }
        match failure.reason.as_str() {
            "InvalidOutput" => {
                Failure::new(Reason::InvalidOutput, format!("returned invalid JSON: {}", failure.message))
            }
            _ => Failure::new(Reason::PluginError, format!("reported error: {}", failure.message)),
        }
    }

    /// One write for the whole frame where the socket's buffer takes it.
    async fn send_call(&mut self, input: &Input<'_>) -> io::Result<()> {
        let content = input.raw_content.unwrap_or_default();
        let input = Input { raw_content: None, ..input.clone() };
        self.outbox.clear();
        self.outbox.resize(HEAD, 0);
        serde_json::to_writer(&mut self.outbox, &CallHeader { id: self.last_id, input: &input })?;
        let head = Head {
            kind: Kind::Call,
            header: self.outbox.len() - HEAD,
            body: content.len(),
            content: true,
            ascii: content.is_ascii(),
        };
        let bytes = head.encode().ok_or(io::ErrorKind::InvalidInput)?;
        self.outbox[..HEAD].copy_from_slice(&bytes);
        self.socket.write_all(&mut [IoSlice::new(&self.outbox), IoSlice::new(content.as_bytes())]).await
    }

    /// Reads until the inbox starts with a whole frame.
    async fn receive(&mut self, max_body: usize) -> Result<Head, Broken> {
        loop {
            let mut wanted = HEAD;
            if let Some(bytes) = self.inbox.first_chunk::<HEAD>() {
                let head = Head::decode(*bytes).ok_or(Broken::Protocol("an unknown kind of frame"))?;
                if head.header > MAX_HEADER {
                    return Err(Broken::TooLarge(MAX_HEADER));
                }
                let max_body = if head.kind == Kind::Log { MAX_LOG } else { max_body };
                if head.body > max_body {
                    return Err(Broken::TooLarge(max_body));
                }
                wanted = HEAD + head.rest();
                if self.inbox.len() >= wanted {
                    return Ok(head);
                }
            }
            self.inbox.reserve(wanted.saturating_sub(self.inbox.len()).max(1));
            match self.socket.read(&mut self.inbox).await {
                Ok(0) | Err(_) => return Err(Broken::Closed),
                Ok(_) => {}
            }
        }
    }

    fn parts(&self, head: &Head) -> (&[u8], &[u8]) {
        let json = self.inbox.get(HEAD..HEAD + head.header).unwrap_or_default();
        let body = self.inbox.get(HEAD + head.header..HEAD + head.rest()).unwrap_or_default();
        (json, body)
    }

    fn take(&mut self, head: &Head) {
        self.inbox.drain(..(HEAD + head.rest()).min(self.inbox.len()));
        if self.inbox.is_empty() {
            self.inbox.shrink_to(KEPT);
        }
    }
}

impl Broken {
    fn into_failure(self) -> Failure {
        match self {
            Self::Closed => closed(),
            Self::Protocol(what) => Failure::new(Reason::InvalidOutput, format!("wrote {what} to its socket")),
            Self::TooLarge(limit) => too_large("its answer", limit),
        }
    }
}

fn closed() -> Failure {
    Failure::new(Reason::Crashed, "ended before it answered")
}

fn too_large(what: &str, limit: usize) -> Failure {
    Failure::new(Reason::TooLarge, format!("{what} is larger than {limit} bytes"))
}

fn log_line(voice: &Voice, header: &[u8], text: &[u8]) {
    let Ok(header) = serde_json::from_slice::<LogHeader>(header) else { return };
    let (plugin, call, text) = (voice.name(), header.id, voice.masked(String::from_utf8_lossy(text)));
    match header.level.as_str() {
        "error" | "warn" => tracing::warn!(target: "hawsepipe::plugin", plugin, call, "{text}"),
        "debug" => tracing::debug!(target: "hawsepipe::plugin", plugin, call, "{text}"),
        _ => tracing::info!(target: "hawsepipe::plugin", plugin, call, "{text}"),
    }
}
