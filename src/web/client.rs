//! The client that sent a request, of either era.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::value::RawValue;

use super::client_sender::WantedNotices;
use super::envelope::{EnvelopeMeta, Params};
use super::requester::Requester;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::mirror::Mirrored;
use crate::domain::rpc::RpcError;
use crate::domain::version::{Era, LEGACY_VERSIONS, MODERN_VERSION};
use crate::engine::access::session::Session;
use crate::engine::{Caller, Engine};
use crate::transport::mcp_headers::check_mirrored;

/// The sender of a request, and what only its era has.
#[derive(Clone, Copy)]
pub(super) enum Client<'a> {
    /// A client without a session. Each of its requests carries its own envelope.
    Modern { headers: &'a HeaderMap, meta: &'a EnvelopeMeta<'a> },
    /// A client with this session.
    Legacy(&'a Arc<Session>),
}

impl<'a> Client<'a> {
    pub(super) fn era(&self) -> Era {
        match self {
            Self::Modern { .. } => Era::Modern,
            Self::Legacy(_) => Era::Legacy,
        }
    }

    pub(super) fn caller(&self, engine: &Engine, requester: &Requester) -> Caller {
        let (identity, token) = (Arc::clone(&requester.identity), requester.token.clone());
        match self {
            Self::Modern { meta, .. } => Caller {
                era: Era::Modern,
                version: MODERN_VERSION,
                by_address: identity.is_anonymous(),
                tracker: match identity.is_anonymous() {
                    true => engine.gate.sessions().addresses().of(requester.address),
                    false => engine.gate.sessions().principals().of(&identity),
                },
                identity,
                token,
                session: String::new(),
                capabilities: ClientCapabilities::read(meta.client_capabilities),
            },
            Self::Legacy(session) => Caller {
                era: Era::Legacy,
                version: LEGACY_VERSIONS.into_iter().find(|version| *version == session.version).unwrap_or_default(),
                identity,
                token,
                session: session.id.clone(),
                capabilities: session.capabilities.clone(),
                tracker: Arc::clone(&session.tracker),
                by_address: false,
            },
        }
    }

    /// The session of the client; `None` in the modern era.
    pub(super) fn session(&self) -> Option<&'a Arc<Session>> {
        if let Self::Legacy(session) = self { Some(session) } else { None }
    }

    /// Returns which notifications the client wants during a request with these parameters.
    pub(super) fn wanted(&self, params: &Params<'a>) -> WantedNotices<'a> {
        match self {
            Self::Modern { meta, .. } => WantedNotices { progress: meta.progress_token(), log_level: meta.log_level() },
            Self::Legacy(session) => WantedNotices {
                progress: params.read_meta().and_then(|meta| meta.progress_token()),
                log_level: Some(session.log_level()),
            },
        }
    }

    /// Checks the headers that repeat arguments of a call. Only the modern era has them.
    pub(super) fn check_mirrored(&self, marked: &[Mirrored], arguments: Option<&RawValue>) -> Result<(), RpcError> {
        match self {
            Self::Modern { headers, .. } => {
                marked.iter().try_for_each(|argument| check_mirrored(headers, argument, arguments))
            }
            Self::Legacy(_) => Ok(()),
        }
    }
}
