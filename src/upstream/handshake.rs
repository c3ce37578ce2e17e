//! Determines which version of the protocol a server supports. This is a state machine that returns what to send next;
//! it does no I/O.
//!
//! The modern era is tried first. Any answer that does not prove a modern server leads to `initialize`, so that old
//! servers are reached too, however they answer an unknown method (MCP 2026-07-28, versioning; backward compatibility).

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::announcement::{Announced, Announcement};
use crate::domain::extensions::TASKS;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plan::EraSetting;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{
    CAPABILITY_REQUIRED, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION, code_of,
};
use crate::domain::upstream::{Answer, ServerFacts, UpstreamError};
use crate::domain::version::{Era, LEGACY_VERSIONS, MODERN_VERSION};

use super::request_failure::{ErrorFields, is_of_hop, may_be_legacy, refused};
use super::server_message::within_depth;

/// The next step of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandshakeStep {
    /// Send `server/discover`.
    Discover,
    /// Send `initialize`.
    Initialize,
    /// The handshake has succeeded. A legacy server must still be sent `notifications/initialized`.
    Done(ServerFacts),
    /// The handshake has failed: the gateway cannot talk to the server.
    Failed(UpstreamError),
}

#[derive(Debug)]
pub(super) struct Handshake {
    setting: EraSetting,
    last_step: HandshakeStep,
    discovered: u8,
}

impl Handshake {
    /// Creates a handshake that starts with the era that the setting demands. If the setting is `Auto`, it starts with
    /// `before`, the era of the last handshake, or with the modern era if that is `None`.
    pub(super) fn new(setting: EraSetting, before: Option<Era>) -> Self {
        let last_step = match (setting, before) {
            (EraSetting::Legacy, _) | (EraSetting::Auto, Some(Era::Legacy)) => HandshakeStep::Initialize,
            _ => HandshakeStep::Discover,
        };
        Self { setting, discovered: u8::from(last_step == HandshakeStep::Discover), last_step }
    }

    /// How long to wait for the answer to `server/discover`: at most `longest`, and half of `limit`, the time for the
    /// handshake. All of it if no other step can follow.
    pub(super) fn patience(&self, longest: Duration, limit: Duration) -> Duration {
        if self.setting == EraSetting::Modern { limit } else { longest.min(limit / 2) }
    }

    pub(super) fn first(&self) -> HandshakeStep {
        match self.last_step {
            HandshakeStep::Initialize => HandshakeStep::Initialize,
            _ => HandshakeStep::Discover,
        }
    }

    /// Returns the next step. `outcome` is that of the last step.
    pub(super) fn next(&mut self, outcome: Result<Answer, UpstreamError>) -> HandshakeStep {
        let outcome = outcome.and_then(within_depth);
        if self.last_step == HandshakeStep::Initialize { self.initialized(outcome) } else { self.discovered(outcome) }
    }

    fn discovered(&mut self, outcome: Result<Answer, UpstreamError>) -> HandshakeStep {
        let refusal = match outcome {
            Ok(Answer::Result(result)) => match read_discovery(&result) {
                Some(facts) => return HandshakeStep::Done(facts),
                None => UpstreamError::Protocol(format!("it does not speak {MODERN_VERSION}")),
            },
            Ok(Answer::Error(error)) => match judge_error(&error) {
                Ok(refusal) => refusal,
                Err(verdict) => return HandshakeStep::Failed(verdict),
            },
            Err(error) if may_be_legacy(&error) => error,
            Err(error) => return HandshakeStep::Failed(error),
        };
        if self.setting == EraSetting::Modern {
            return HandshakeStep::Failed(refusal);
        }
        self.last_step = HandshakeStep::Initialize;
        HandshakeStep::Initialize
    }

    fn initialized(&mut self, outcome: Result<Answer, UpstreamError>) -> HandshakeStep {
        match outcome {
            Ok(Answer::Result(result)) => match read_initialization(&result) {
                Ok(facts) => HandshakeStep::Done(facts),
                Err(error) => HandshakeStep::Failed(error),
            },
            Ok(Answer::Error(error)) => {
                // A slow modern server may have received `server/discover` although the gateway no longer waits for its
                // answer. Such a server refuses `initialize` with this code, so it is asked once more.
                if code_of(&error) == Some(UNSUPPORTED_VERSION)
                    && self.setting == EraSetting::Auto
                    && self.discovered < 2
                {
                    self.discovered += 1;
                    self.last_step = HandshakeStep::Discover;
                    return HandshakeStep::Discover;
                }
                HandshakeStep::Failed(refused(Method::Initialize, &error))
            }
            Err(error) => HandshakeStep::Failed(error),
        }
    }
}

/// Judges the error with which a server answered `server/discover`. Returns `Ok` if the server may support a legacy
/// version, or `Err` if the error proves that it is a modern server that the gateway cannot use.
fn judge_error(error: &RawValue) -> Result<UpstreamError, UpstreamError> {
    let refusal = refused(Method::Discover, error);
    let Ok(fields) = serde_json::from_str::<ErrorFields>(error.get()) else {
        return Ok(refusal);
    };
    match fields.code {
        HEADER_MISMATCH | CAPABILITY_REQUIRED => Err(refusal),
        UNSUPPORTED_VERSION => {
            let supported = fields.data.as_ref().and_then(|d| d.get("supported")).and_then(|s| s.as_array());
            let is_known = |v: &serde_json::Value| v.as_str().is_some_and(|v| LEGACY_VERSIONS.contains(&v));
            match supported {
                Some(versions) if !versions.iter().any(is_known) => {
                    Err(UpstreamError::Protocol("it speaks no version of the protocol that is known here".into()))
                }
                _ => Ok(refusal),
            }
        }
        _ => Ok(refusal),
    }
}

/// Whether a server of the negotiated era may give this answer to a probe. `is_duplex`: it is a process, or speaks HTTP+SSE.
pub(super) fn speaks_still(era: Era, is_duplex: bool, answer: &Answer) -> bool {
    match (era, answer) {
        (Era::Modern, Answer::Result(result)) => read_discovery(result).is_some(),
        (Era::Modern, Answer::Error(_)) => false,
        (Era::Legacy, Answer::Result(_)) => true,
        // Not every legacy server supports `ping`, so most errors prove nothing. A modern server over Streamable HTTP, however,
        // refuses a legacy request, because the request does not have the members that modern requests must have.
        (Era::Legacy, Answer::Error(error)) => {
            let code = code_of(error);
            let of_envelope = matches!(code, Some(INVALID_PARAMS | INVALID_REQUEST));
            !code.is_some_and(is_of_hop) && (is_duplex || !of_envelope)
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Capabilities,
    #[serde(default)]
    instructions: Option<Box<RawValue>>,
    #[serde(rename = "_meta", default)]
    meta: Option<DiscoveryMeta>,
}

#[derive(Deserialize)]
struct DiscoveryMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo", default)]
    server_info: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    tools: Option<Box<RawValue>>,
    #[serde(default)]
    prompts: Option<Box<RawValue>>,
    #[serde(default)]
    resources: Option<Box<RawValue>>,
    #[serde(default)]
    extensions: Option<Box<RawValue>>,
    #[serde(default)]
    experimental: Option<Box<RawValue>>,
    #[serde(default)]
    tasks: Option<Box<RawValue>>,
    #[serde(default)]
    completions: Option<Box<RawValue>>,
    #[serde(default)]
    logging: Option<Box<RawValue>>,
}

impl Capabilities {
    /// Whether the server says that it has a part of this capability, such as `listChanged`.
    fn has(capability: Option<&RawValue>, part: &str) -> bool {
        let capability = capability.and_then(|capability| RawObject::parse(capability.get()).ok());
        capability.is_some_and(|capability| capability.get(part).is_some_and(|value| value.get() == "true"))
    }

    /// The kinds of items whose lists the server announces when they change.
    fn announces(&self) -> Vec<ItemKind> {
        let announces = |kind: &ItemKind| {
            let capability = match kind {
                ItemKind::Tool => &self.tools,
                ItemKind::Prompt => &self.prompts,
                ItemKind::Resource | ItemKind::Template => &self.resources,
            };
            Self::has(capability.as_deref(), "listChanged")
        };
        ItemKind::ANNOUNCED.into_iter().filter(announces).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialization {
    protocol_version: String,
    #[serde(default)]
    capabilities: Capabilities,
    #[serde(default)]
    instructions: Option<Box<RawValue>>,
    #[serde(default)]
    server_info: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct Implementation {
    name: Option<String>,
    version: Option<String>,
}

fn facts(
    era: Era,
    version: &str,
    capabilities: &Capabilities,
    instructions: Option<&RawValue>,
    info: Option<&RawValue>,
) -> ServerFacts {
    let (extensions, experimental) = (capabilities.extensions.as_deref(), capabilities.experimental.as_deref());
    let tasks = capabilities.tasks.as_deref().filter(|_| era == Era::Legacy);
    let mut announcement = Announcement::read(Announced { extensions, experimental, tasks, instructions, info });
    if era == Era::Legacy {
        announcement.extensions = announcement.extensions.without(TASKS);
    }
    // The name and the version of a server are only shown to users, so they are left out if they cannot be read.
    let info: Implementation = info.and_then(|i| serde_json::from_str(i.get()).ok()).unwrap_or_default();
    let cut = |text: String| text.chars().filter(|c| !c.is_control()).take(200).collect();
    ServerFacts {
        era,
        version: version.to_owned(),
        server_name: info.name.map(cut),
        server_version: info.version.map(cut),
        has_tools: capabilities.tools.is_some(),
        has_prompts: capabilities.prompts.is_some(),
        has_resources: capabilities.resources.is_some(),
        announcement,
        has_completions: capabilities.completions.is_some(),
        has_subscriptions: Capabilities::has(capabilities.resources.as_deref(), "subscribe"),
        has_logging: capabilities.logging.is_some(),
        announces: capabilities.announces(),
    }
}

fn read_discovery(result: &RawValue) -> Option<ServerFacts> {
    let found: DiscoverResult = serde_json::from_str(result.get()).ok()?;
    if !found.supported_versions.iter().any(|v| v == MODERN_VERSION) {
        return None;
    }
    let info = found.meta.as_ref().and_then(|meta| meta.server_info.as_deref());
    Some(facts(Era::Modern, MODERN_VERSION, &found.capabilities, found.instructions.as_deref(), info))
}

fn read_initialization(result: &RawValue) -> Result<ServerFacts, UpstreamError> {
    let found: Initialization = serde_json::from_str(result.get())
        .map_err(|_| UpstreamError::Protocol("its answer to initialize cannot be read".into()))?;
    match LEGACY_VERSIONS.iter().find(|v| **v == found.protocol_version) {
        Some(version) => {
            let (instructions, info) = (found.instructions.as_deref(), found.server_info.as_deref());
            Ok(facts(Era::Legacy, version, &found.capabilities, instructions, info))
        }
        None => Err(UpstreamError::Refused {
            code: None,
            what: "its answer to initialize names a version of the protocol that is not known here".into(),
            said: found.protocol_version,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> Result<Answer, UpstreamError> {
        Ok(Answer::Result(RawValue::from_string(text.into()).unwrap()))
    }

    fn error(text: &str) -> Result<Answer, UpstreamError> {
        Ok(Answer::Error(RawValue::from_string(text.into()).unwrap()))
    }

    const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}}}"#;
    const INITIALIZED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"n","version":"1"}}"#;

    fn expected(era: Era, version: &str) -> HandshakeStep {
        HandshakeStep::Done(ServerFacts {
            server_name: Some("n".into()),
            server_version: Some("1".into()),
            has_tools: true,
            announcement: Announcement {
                info: Some(r#"{"name":"n","version":"1"}"#.into()),
                ..Announcement::default()
            },
            announces: if era == Era::Legacy { vec![ItemKind::Tool] } else { Vec::new() },
            ..ServerFacts::new(era, version)
        })
    }

    #[test]
    fn a_modern_server_is_found_at_once() {
        let mut shake = Handshake::new(EraSetting::Auto, None);
        assert_eq!(shake.first(), HandshakeStep::Discover);
        assert_eq!(shake.next(result(DISCOVERED)), expected(Era::Modern, MODERN_VERSION));
    }

    #[test]
    fn what_is_no_proof_of_a_modern_server_falls_back() {
        for outcome in [
            error(r#"{"code":-32601,"message":"x"}"#),
            error(r#"{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}"#),
            error(r#"{"code":-32022,"message":"x"}"#),
            error("7"),
            result(r#"{"supportedVersions":["2025-11-25"],"capabilities":{}}"#),
            result("[]"),
            Err(UpstreamError::Timeout(Duration::from_secs(1))),
            Err(UpstreamError::Protocol("HTTP 405".into())),
            Err(UpstreamError::Unauthorized { status: 401, said: String::new() }),
            Err(UpstreamError::Unauthorized { status: 403, said: String::new() }),
            Err(UpstreamError::Encoded("zstd".into())),
            Err(UpstreamError::TooLarge(1)),
        ] {
            let mut shake = Handshake::new(EraSetting::Auto, None);
            assert_eq!(shake.next(outcome.clone()), HandshakeStep::Initialize, "{outcome:?}");
            assert_eq!(shake.next(result(INITIALIZED)), expected(Era::Legacy, "2025-06-18"));
            let mut modern_only = Handshake::new(EraSetting::Modern, None);
            assert!(matches!(modern_only.next(outcome), HandshakeStep::Failed(_)));
        }
    }

    #[test]
    fn outages_and_modern_refusals_are_no_verdict_on_the_era() {
        for outcome in [
            Err(UpstreamError::Connect("x".into())),
            Err(UpstreamError::Lost("x".into())),
            Err(UpstreamError::RateLimited { said: String::new(), retry_after: None }),
            Err(UpstreamError::NoToken { is_refused: true, why: String::new() }),
            error(r#"{"code":-32020,"message":"x"}"#),
            error(r#"{"code":-32022,"message":"x","data":{"supported":["2027-01-01"]}}"#),
        ] {
            assert!(matches!(Handshake::new(EraSetting::Auto, None).next(outcome), HandshakeStep::Failed(_)));
        }
    }

    #[test]
    fn a_slow_modern_server_is_probed_once_more() {
        let late = r#"{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}"#;
        let mut shake = Handshake::new(EraSetting::Auto, None);
        assert_eq!(shake.next(Err(UpstreamError::Timeout(Duration::ZERO))), HandshakeStep::Initialize);
        assert_eq!(shake.next(error(late)), HandshakeStep::Discover);
        assert_eq!(shake.next(Err(UpstreamError::Timeout(Duration::ZERO))), HandshakeStep::Initialize);
        assert!(matches!(shake.next(error(late)), HandshakeStep::Failed(_)));
    }

    #[test]
    fn the_setting_and_what_is_known_decide_where_to_begin() {
        assert_eq!(Handshake::new(EraSetting::Legacy, Some(Era::Modern)).first(), HandshakeStep::Initialize);
        assert_eq!(Handshake::new(EraSetting::Auto, Some(Era::Legacy)).first(), HandshakeStep::Initialize);
        assert_eq!(Handshake::new(EraSetting::Auto, Some(Era::Modern)).first(), HandshakeStep::Discover);
        assert_eq!(Handshake::new(EraSetting::Modern, Some(Era::Legacy)).first(), HandshakeStep::Discover);
    }

    #[test]
    fn versions_that_are_not_spoken_are_named() {
        let mut shake = Handshake::new(EraSetting::Legacy, None);
        let HandshakeStep::Failed(error) = shake.next(result(r#"{"protocolVersion":"2024-10-07"}"#)) else { panic!() };
        assert!(error.to_string().contains("2024-10-07"));
        assert!(!error.to_client().contains("2024"), "it is the server's text");
    }
}
