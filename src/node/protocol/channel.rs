//! The gateway's side of the Module protocol: one call at a time over a [`Wire`]. The caller is responsible for
//! processes and deadlines. A caller that drops an exchange before its end must give up the call before it uses the
//! channel again.

use std::io;

use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use super::frame::{FrameKind, Head, VERSION};
use super::headers::{AskHeader, CallHeader, FailureHeader, IdHeader, InitializeHeader, ProgressHeader, ReadyHeader};
use super::plugin_log::log_line;
use super::plugin_requests::{AskReply, PluginRequests};
use super::shared::{SharedWire, WireMaker};
use super::socket::Socket;
use super::wire::{ExclusiveWire, MAX_LOG, Wire, WireError};
use super::{ExchangeOutcome, PluginCall, closed, too_large};
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::{Failure, Input, Metadata, Output};
use crate::domain::ports::PluginProgress;
use crate::domain::reason::Reason;
use crate::node::log_mask::LogMask;

/// Carries calls to a worker.
#[derive(Debug)]
pub struct Channel<W> {
    wire: W,
    log_mask: LogMask,
    last_id: u64,
    /// Whether the last call was sent and is not answered yet.
    in_call: bool,
    /// Whether the worker has proved, since the call was given up, that it still reads frames.
    awake: bool,
}

impl Channel<ExclusiveWire> {
    /// Creates a channel over `socket` to a worker of the plugin that `log_mask` names.
    pub fn new(socket: Socket, log_mask: LogMask) -> Self {
        Self::over(ExclusiveWire::new(socket), log_mask)
    }

    /// Sends what `initialize` of the plugin gets, unless it is middleware. If the worker has ended, [`Self::ready`] says
    /// so.
    pub async fn initialize(&mut self, plugin: &PluginPlan) {
        let PluginPlan { key, version, config, kind, .. } = plugin;
        let descriptor = &plugin.descriptor.clone().with_defaults(&key.name, *kind);
        let (name, version, config) = (&key.name, version.as_deref(), config.as_deref());
        let header = InitializeHeader { name, version, config, descriptor };
        if !plugin.kind.is_middleware() {
            let _ = self.wire.send(FrameKind::Initialize, &header, None).await;
        }
    }

    /// Waits until the worker reports that the plugin is loaded. Returns what its `getDescriptor` returned, if it has one.
    ///
    /// # Errors
    /// The reason why the plugin is not loaded, as a message; `None` if the worker ended without giving one.
    pub async fn ready(&mut self) -> Result<Option<Box<RawValue>>, Option<String>> {
        loop {
            let head = match self.wire.receive(MAX_LOG).await {
                Ok(head) => head,
                Err(WireError::Closed) => return Err(None),
                Err(_) => return Err(Some("wrote to the gateway's socket before it was loaded".into())),
            };
            let (json, text) = head.parts(self.wire.bytes());
            match head.kind {
                FrameKind::Ready => match serde_json::from_slice::<ReadyHeader>(json) {
                    Ok(ready) if ready.version == VERSION => {
                        self.wire.take(&head);
                        return Ok(ready.descriptor);
                    }
                    _ => return Err(Some("speaks another version of the wire".into())),
                },
                FrameKind::Failure => {
                    let message = serde_json::from_slice::<FailureHeader>(json).map(|f| f.thrown.message);
                    return Err(Some(message.unwrap_or_else(|_| "could not say why it failed to load".into())));
                }
                FrameKind::Log => log_line(&self.log_mask, json, text, None),
                _ => {}
            }
            self.wire.take(&head);
        }
    }

    /// Splits this channel into `seats` channels, each for one call at a time. The worker must be loaded and not in a
    /// call. The text of an answer may have up to `max_output` bytes.
    pub fn share(self, seats: usize, max_output: usize) -> Vec<Channel<SharedWire>> {
        let Self { wire, log_mask, .. } = self;
        let parts = SharedWire::split(wire, seats, &log_mask, max_output).into_iter();
        parts.map(|part| Channel::over(part, log_mask.clone())).collect()
    }
}

impl Channel<SharedWire> {
    /// Returns another channel to the same worker; `None` if its socket is closed.
    pub fn beside(maker: &WireMaker, log_mask: LogMask) -> Option<Self> {
        Some(Self::over(maker.wire()?, log_mask))
    }

    /// Returns what makes further wires over the socket.
    pub fn maker(&self) -> WireMaker {
        self.wire.maker()
    }
}

impl<W: Wire> Channel<W> {
    fn over(wire: W, log_mask: LogMask) -> Self {
        Self { wire, log_mask, last_id: 0, in_call: false, awake: false }
    }

    /// Sends one call and reads frames until its answer, or until the wire is broken. Meanwhile answers the plugin's
    /// requests.
    pub async fn exchange(&mut self, call: &PluginCall<'_>) -> ExchangeOutcome {
        self.last_id = fresh_id();
        self.awake = false;
        self.wire.enter(self.last_id);
        if let Err(error) = self.send_call(call).await {
            return match error.kind() {
                io::ErrorKind::InvalidInput => ExchangeOutcome::settled(Err(too_large("its input's header", 1 << 24))),
                _ => ExchangeOutcome::last(Err(closed())),
            };
        }
        self.in_call = true;
        let mut asks = PluginRequests::of(call.host, call.max_output);
        loop {
            let received = if asks.is_empty() {
                self.wire.receive(call.max_output).await
            } else {
                // Replies are sent first, so that they do not pile up however many requests the plugin makes.
                tokio::select! {
                    biased;
                    reply = asks.next() => match self.reply(&reply).await {
                        Ok(()) => continue,
                        Err(_) => Err(WireError::Closed),
                    },
                    received = self.wire.receive(call.max_output) => received,
                }
            };
            let head = match received {
                Ok(head) => head,
                Err(broken) => return ExchangeOutcome::last(Err(broken.into())),
            };
            let output = self.judge(&head, &mut asks, &call.input.metadata);
            self.wire.take(&head);
            if let Some(output) = output {
                self.in_call = false;
                self.wire.leave();
                return ExchangeOutcome::settled(output);
            }
        }
    }

    /// Must be called after an exchange was dropped. Tells the worker that the call is given up, and waits until the
    /// worker has ended the call. Returns whether the worker can get another call. If the wire is shared, also checks
    /// whether the worker [is awake](Channel::is_awake).
    pub async fn give_up(&mut self, max_output: usize) -> bool {
        if !self.wire.is_usable() {
            return false;
        }
        let header = IdHeader { id: self.last_id };
        if self.in_call && self.wire.send(FrameKind::Cancel, &header, None).await.is_err() {
            return false;
        }
        if self.in_call && W::SHARED && self.wire.send(FrameKind::Ping, &header, None).await.is_err() {
            return false;
        }
        while self.in_call {
            let Ok(head) = self.wire.receive(max_output).await else { return false };
            let (json, text) = head.parts(self.wire.bytes());
            match head.kind {
                FrameKind::Result | FrameKind::Failure => self.in_call = !self.is_of_call(json),
                FrameKind::Log => log_line(&self.log_mask, json, text, None),
                FrameKind::Ping => self.awake = true,
                _ => {}
            }
            self.wire.take(&head);
        }
        self.wire.leave();
        true
    }

    /// Whether the worker still reads frames, although it has not ended the call that was given up.
    pub fn is_awake(&self) -> bool {
        self.awake
    }

    fn is_of_call(&self, header: &[u8]) -> bool {
        serde_json::from_slice::<IdHeader>(header).is_ok_and(|header| header.id == self.last_id)
    }

    /// Handles a frame that arrives during a call. Returns the outcome if the frame ends the call.
    fn judge(
        &self,
        head: &Head,
        asks: &mut PluginRequests<'_>,
        metadata: &Metadata<'_>,
    ) -> Option<Result<Output, Failure>> {
        let (json, body) = head.parts(self.wire.bytes());
        match head.kind {
            FrameKind::Result if self.is_of_call(json) => return Some(output(json, head.content.then_some(body))),
            FrameKind::Failure => {
                let failure = serde_json::from_slice::<FailureHeader>(json).ok()?;
                let refusal = failure.refusal.as_ref().and_then(|refusal| asks.refusal(refusal));
                return (failure.id == self.last_id)
                    .then(|| Err(refusal.unwrap_or_else(|| self.plugin_failure(&failure))));
            }
            FrameKind::Log => log_line(&self.log_mask, json, body, Some(metadata)),
            FrameKind::Ask => {
                let ask = serde_json::from_slice::<AskHeader>(json).ok()?;
                if ask.id == self.last_id {
                    asks.begin(ask, head.content.then_some(body));
                }
            }
            FrameKind::Progress => {
                let ProgressHeader { id, progress, total, message } = serde_json::from_slice(json).ok()?;
                if id == self.last_id {
                    let message = message.map(|message| self.log_mask.masked(message).into_owned());
                    asks.host().progress(PluginProgress { progress, total, message });
                }
            }
            _ => {}
        }
        None
    }

    fn plugin_failure(&self, failure: &FailureHeader) -> Failure {
        failure.thrown.log_stack(&self.log_mask);
        match failure.reason.as_str() {
            "InvalidOutput" => failure.thrown.failure(Reason::InvalidOutput, "its answer cannot be used"),
            _ => failure.thrown.failure(Reason::PluginError, "reported error"),
        }
    }

    async fn send_call(&mut self, call: &PluginCall<'_>) -> io::Result<()> {
        let content = call.input.raw_content.unwrap_or_default();
        let input = Input { raw_content: None, ..call.input.clone() };
        let left = call.deadline.saturating_duration_since(Instant::now()).as_millis();
        let timeout_ms = u64::try_from(left).unwrap_or(u64::MAX);
        let header = CallHeader { id: self.last_id, timeout_ms, max_output: call.max_output, input: &input };
        self.wire.send(FrameKind::Call, &header, Some(content.as_bytes())).await
    }

    async fn reply(&mut self, reply: &AskReply) -> io::Result<()> {
        let (header, body) = reply.parts();
        self.wire.send(FrameKind::Reply, &header, Some(body.as_bytes())).await
    }
}

/// Decodes the answer in a frame.
fn output(json: &[u8], text: Option<&[u8]>) -> Result<Output, Failure> {
    let json = std::str::from_utf8(json).map_err(|_| invalid_json("it is not UTF-8"))?;
    let text = text.map(|text| String::from_utf8(text.to_vec())).transpose();
    Output::parse(json, text.map_err(|_| invalid_json("its text is not UTF-8"))?)
}

/// Returns a random id, so that a plugin cannot answer a call that it has not received yet. JavaScript can represent
/// the id exactly.
fn fresh_id() -> u64 {
    const LEAST: u64 = 1_000_000_000_000_000;
    LEAST + Uuid::new_v4().as_u64_pair().1 % (8 * LEAST)
}

fn invalid_json(what: &str) -> Failure {
    Failure::new(Reason::InvalidOutput, format!("returned invalid JSON: {what}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::domain::plugin::{ContentType, Metadata, Phase};
    use crate::domain::ports::{Answering, Host};

    struct NoHost;

    impl Host for NoHost {
        fn progress(&self, _: PluginProgress) {}

        fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
            panic!("nothing is asked for")
        }
    }

    /// A channel, and the worker's end of its socket.
    fn pair() -> (Channel<ExclusiveWire>, ExclusiveWire) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let channel = Channel::new(Socket::new(ours).unwrap(), LogMask::named("p"));
        (channel, ExclusiveWire::new(Socket::new(theirs).unwrap()))
    }

    async fn ask(channel: &mut Channel<ExclusiveWire>) -> ExchangeOutcome {
        let metadata = Metadata {
            request_id: "r",
            timestamp: "",
            server_name: "up",
            phase: Phase::Request.wire(),
            method: "tools/call",
            user_query: None,
            content_type: ContentType::Json,
            config: None,
            chain: "",
            attempt: 1,
        };
        let input = Input { tool_name: "up/t", raw_content: Some("{}"), max_tokens: None, metadata, typed: None };
        let deadline = Instant::now() + Duration::from_secs(60);
        channel.exchange(&PluginCall { input: &input, deadline, max_output: 1000, host: &NoHost }).await
    }

    /// Receives a call at the worker's end, and returns its id.
    async fn asked(worker: &mut ExclusiveWire) -> u64 {
        let head = worker.receive(1000).await.unwrap();
        assert_eq!(head.kind, FrameKind::Call);
        let id = serde_json::from_slice::<IdHeader>(head.parts(worker.bytes()).0).unwrap().id;
        worker.take(&head);
        id
    }

    /// A channel whose call was sent and dropped, the worker's end, and the id of the call.
    async fn dropped() -> (Channel<ExclusiveWire>, ExclusiveWire, u64) {
        let (mut channel, mut worker) = pair();
        let id = tokio::select! {
            exchange = ask(&mut channel) => panic!("nobody has answered: {exchange:?}"),
            id = asked(&mut worker) => id,
        };
        (channel, worker, id)
    }

    #[tokio::test]
    async fn an_answer_to_another_call_is_none_to_this_one() {
        let (mut channel, mut worker) = pair();
        let answering = async {
            let id = asked(&mut worker).await;
            for (id, text) in [(id + 1, "another's"), (id, "its own")] {
                let header = json!({"id": id, "continue": true});
                worker.send(FrameKind::Result, &header, Some(text.as_bytes())).await.unwrap();
            }
        };
        let (exchange, ()) = tokio::join!(ask(&mut channel), answering);
        assert_eq!(exchange.output.unwrap().text, "its own");
    }

    #[tokio::test]
    async fn a_worker_that_ends_the_call_that_was_given_up_is_asked_again() {
        let (mut channel, mut worker, id) = dropped().await;
        let ending = async {
            let head = worker.receive(1000).await.unwrap();
            let told: IdHeader = serde_json::from_slice(head.parts(worker.bytes()).0).unwrap();
            assert_eq!((head.kind, told.id), (FrameKind::Cancel, id));
            worker.take(&head);
            for id in [id + 1, id] {
                worker.send(FrameKind::Failure, &IdHeader { id }, None).await.unwrap();
            }
        };
        let (ended, ()) = tokio::join!(channel.give_up(1000), ending);
        assert!(ended);
        assert!(channel.give_up(1000).await, "there is no call any more");
    }

    #[tokio::test]
    async fn a_worker_that_is_gone_is_not_asked_again() {
        let (mut channel, worker, _) = dropped().await;
        drop(worker);
        assert!(!channel.give_up(1000).await);
    }
}
