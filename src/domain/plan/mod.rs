//! The plan: what a gateway does, as data. The compiler writes it, `link` makes it run.
//!
//! A plan holds references to secrets, never values, and plugin code by digest. It carries a format version, so that
//! gateways of neighbouring versions can read it.

mod chain;
mod gateway;
mod label;
mod plugin;
mod refusal;
mod restrictions;
mod runtime;
mod upstream;
mod value;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use chain::{ChainPlan, EntryPlan, UpstreamScope};
pub use gateway::{GatewayPlan, GatewayTakes, Limits, ListenerPlan, Namespaces, PrefixMode, Takes};
pub use label::{LabelExpression, LabelOperator, LabelSelector};
pub use plugin::{PluginLimits, PluginPlan};
pub use refusal::Refusal;
pub use restrictions::{Restrictions, Revoked};
pub use runtime::Runtime;
pub use upstream::{EraSetting, HealthPlan, ToolOverride, TransportPlan, UpstreamPlan};
pub use value::{NamedValue, ValueSource};

use super::ids::ObjectKey;

/// The format that this version writes.
pub const FORMAT_VERSION: u32 = 2;

/// What a plan may require of a gateway, as far as this version has it.
pub const FEATURES: &[&str] = &[];

/// Everything that one gateway runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Digest of all below it, 12 hex characters.
    pub revision: String,
    /// What a gateway must know to run the plan as it is meant, such as a guard that an older version would leave out.
    /// One that does not know all of it refuses the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// [`Restrictions::digest`] of what was applied to it; empty where nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub restrictions: String,
    /// The gateway's own settings.
    pub gateway: GatewayPlan,
    /// What the gateway takes; none is everything there is, as the implicit gateway does.
    pub takes: Option<GatewayTakes>,
    /// In routing order: by creation, in a folder by file order.
    pub upstreams: Vec<UpstreamPlan>,
    /// Every plugin that was ever accepted and is still there, by key.
    pub plugins: Vec<PluginPlan>,
    /// In the order in which they run on a call that several select.
    pub chains: Vec<ChainPlan>,
    /// Plugin code by its SHA-256 in hex.
    pub code: BTreeMap<String, String>,
}

impl Plan {
    /// The plugin under `key`.
    pub fn plugin(&self, key: &ObjectKey) -> Option<&PluginPlan> {
        self.plugins.iter().find(|p| p.key == *key)
    }

    /// The chain under `key`.
    pub fn chain(&self, key: &ObjectKey) -> Option<&ChainPlan> {
        self.chains.iter().find(|c| c.key == *key)
    }

    /// The upstream of this name.
    pub fn upstream(&self, name: &str) -> Option<&UpstreamPlan> {
        self.upstreams.iter().find(|u| u.key.name == name)
    }

    /// Blanks where people put secrets although they should not, for showing the plan: values of headers and variables,
    /// arguments of processes, the parts of a URL that are not the address.
    pub fn hide_values(&mut self) {
        for upstream in &mut self.upstreams {
            match &mut upstream.transport {
                TransportPlan::External { url, .. } => *url = address_of(url),
                TransportPlan::Process { args, .. } => args.iter_mut().for_each(|arg| "[hidden]".clone_into(arg)),
                TransportPlan::None => {}
            }
        }
        let upstreams = self.upstreams.iter_mut().filter_map(|upstream| match &mut upstream.transport {
            TransportPlan::External { headers, .. } => Some(headers),
            TransportPlan::Process { env, .. } => Some(env),
            TransportPlan::None => None,
        });
        for value in upstreams.chain(self.plugins.iter_mut().map(|p| &mut p.env)).flatten() {
            if let ValueSource::Literal(text) = &mut value.value {
                "[hidden]".clone_into(text);
            }
        }
    }
}

/// A URL without user, query and fragment.
pub fn address_of(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else { return plain.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_address_holds_no_user_and_no_query() {
        for (url, address) in [
            ("https://user:pw@host:8443/mcp?token=x#y", "https://host:8443/mcp"),
            ("http://host/a@b", "http://host/a@b"),
            ("http://host", "http://host"),
        ] {
            assert_eq!(super::address_of(url), address);
        }
    }
}
