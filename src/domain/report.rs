//! What a gateway's pod tells its operator: the plan that it runs, what it cannot run, and what it sees of the outside.
//!
//! Nothing in it changes by time alone, so that equal states give equal bytes. A reader of another version leaves out
//! what it does not know: fields, and members of lists with words that it cannot read.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::health::ConnectionState;
use super::ids::ObjectId;
use super::problem::Problem;
use super::sandbox::SandboxLack;
use super::seen::SeenNames;

/// The most tools of one upstream that are listed; `toolCount` counts all.
pub const MAX_TOOLS: usize = 512;
/// The most bytes of tools in a report, as JSON; upstreams with the most of them list none where there are more.
pub const MAX_TOOL_BYTES: usize = 8 << 20;

/// All of it. Lists are in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// The revision in force; empty before the first plan.
    pub revision: String,
    /// Digest of what counts at once and was applied to it; empty where there is nothing of that kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restrictions: String,
    /// What the pod found wrong with it: what the operator could not see.
    #[serde(deserialize_with = "known")]
    pub problems: Vec<Problem>,
    /// Upstreams of the plan.
    #[serde(deserialize_with = "known")]
    pub upstreams: Vec<UpstreamReport>,
    /// Plugins of the plan.
    #[serde(deserialize_with = "known")]
    pub plugins: Vec<PluginReport>,
    /// Plugins of the plan whose code this pod could not load, whatever runs in its place.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<NotLoadedReport>,
    /// Plugins that do not run in the form of the plan, such as one that is still loaded, and the chains that name them.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub not_in_force: Vec<ObjectId>,
    /// Keys of Secrets that the plan names.
    #[serde(deserialize_with = "known")]
    pub secrets: Vec<SecretReport>,
    /// What the pod's kernel does not enforce of the sandbox of plugins.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub sandbox_lacks: Vec<SandboxLack>,
    /// Names of tools that upstreams of the plan were seen to have and that the index does not have, if tools keep theirs.
    #[serde(skip_serializing_if = "SeenNames::is_empty")]
    pub seen_names: SeenNames,
    /// A revision that it has seen and does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingReport>,
}

/// An upstream, as this pod sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamReport {
    /// `namespace/name`.
    pub upstream: String,
    /// Document 003's state.
    pub connection_state: ConnectionState,
    /// Failures since the last success.
    #[serde(default)]
    pub failures: u32,
    /// Whether it left routing.
    #[serde(default)]
    pub auto_disabled: bool,
    /// When it left routing, RFC 3339; none while it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_disabled_at: Option<String>,
    /// The word of the annotation `hawsepipe.dev/enable` that this pod has obeyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<String>,
    /// When it last became connected, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_connected_at: Option<String>,
    /// What the last failure said, or why its calls are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `Legacy` or `Modern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// The protocol version agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `StreamableHTTP` or `Stdio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What the server calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// See `server_name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Tools that the server lists; none before its first list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<u32>,
    /// Digest of the list, 12 hex characters; none before its first list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_revision: Option<String>,
    /// The first [`MAX_TOOLS`] of the list, by name; none where those of all upstreams would be more than
    /// [`MAX_TOOL_BYTES`] and this is one of the largest.
    #[serde(default, deserialize_with = "known")]
    pub tools: Vec<ToolReport>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// The server's own name.
    pub name: String,
    /// The name that clients see; none where it is not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#as: Option<String>,
    /// Digest of its definition as the server sent it, hex.
    pub sha256: String,
}

/// Leaves the tools of the largest upstreams out until all of them have `most` bytes at most: a report that is larger than
/// its reader takes says nothing of the whole gateway.
pub fn bound_tools(upstreams: &mut [UpstreamReport], most: usize) {
    let size_of = |tools: &[ToolReport]| serde_json::to_vec(tools).map_or(0, |json| json.len());
    let mut sizes: Vec<_> = upstreams.iter_mut().map(|upstream| (size_of(&upstream.tools), upstream)).collect();
    let mut total: usize = sizes.iter().map(|(size, _)| size).sum();
    sizes.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    for (size, upstream) in sizes {
        if total <= most {
            break;
        }
        upstream.tools.clear();
        total -= size;
    }
}

/// A plugin, as this pod sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginReport {
    /// `namespace/name`.
    pub plugin: String,
    /// Whether it runs here.
    pub state: PluginState,
    /// One word of the closed list, of the pod's version; where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people; where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// SHA-256 of its code, hex; empty where the pod has none.
    #[serde(default)]
    pub digest: String,
    /// Bytes of that code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// `Once` or `Module`; none where the pod has no code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// Document 000's states of a Plugin, those apart that come and go with each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PluginState {
    /// No chain names it.
    Registered,
    /// It can run.
    Enabled,
    /// It cannot be started here.
    Failed,
    /// Switched off.
    Disabled,
}

/// A form of a plugin that was tried in a worker and could not be loaded: its module throws, imports what is missing,
/// exports no function, or does not come to an end. Where an older form runs in its place, [`PluginReport::digest`] is
/// that one's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotLoadedReport {
    /// `namespace/name`.
    pub plugin: String,
    /// SHA-256 of the code that the plan names, hex.
    pub digest: String,
    /// For people.
    pub message: String,
}

/// A key of a Secret that the plan names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretReport {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The key.
    pub key: String,
    /// Whether the pod has it.
    pub state: SecretState,
}

/// Whether a pod has the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SecretState {
    /// It has.
    Found,
    /// There is no such Secret, or no such key in it.
    NotFound,
    /// The Secret's owner has not granted it.
    NotGranted,
    /// The value cannot be used as it is: no UTF-8 text, or too large.
    Invalid,
}

/// A revision that a pod has seen and cannot run. It runs what it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingReport {
    /// The revision.
    pub revision: String,
    /// One word of the closed list, of the pod's version.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// The members of a list that this version can read.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(list: D) -> Result<Vec<T>, D::Error> {
    let members = Vec::<Value>::deserialize(list)?;
    Ok(members.into_iter().filter_map(|member| serde_json::from_value(member).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back() {
        let report = Report {
            revision: "9b1d7c02e4f5".into(),
            upstreams: vec![UpstreamReport {
                upstream: "mcp/files".into(),
                connection_state: ConnectionState::Connected,
                tool_count: Some(1),
                tools: vec![ToolReport { name: "read".into(), r#as: None, sha256: "ab".into() }],
                ..UpstreamReport::default()
            }],
            pending: Some(PendingReport { revision: "0".into(), reason: "R".into(), message: "m".into() }),
            not_loaded: vec![NotLoadedReport { plugin: "t/p".into(), digest: "ab".into(), message: "m".into() }],
            ..Report::default()
        };
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""connectionState":"Connected""#), "{json}");
        assert!(json.contains(r#""notLoaded":[{"plugin":"t/p","digest":"ab","message":"m"}]"#), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }

    #[test]
    fn tools_of_the_largest_upstreams_are_left_out_where_there_are_too_many() {
        let tool = |number| ToolReport { name: format!("{number:0128}"), r#as: None, sha256: "a".repeat(64) };
        let upstream = |(name, tools): (&str, u32)| UpstreamReport {
            upstream: name.into(),
            tool_count: Some(tools),
            tools: (0..tools).map(tool).collect(),
            ..UpstreamReport::default()
        };
        let mut upstreams: Vec<_> = [("a", 3), ("b", 9), ("c", 2), ("d", 10)].map(upstream).into();
        let listed = |upstreams: &[UpstreamReport]| upstreams.iter().map(|u| u.tools.len()).collect::<Vec<_>>();
        bound_tools(&mut upstreams, MAX_TOOL_BYTES);
        assert_eq!(listed(&upstreams), [3, 9, 2, 10]);
        bound_tools(&mut upstreams, 6 * 256);
        assert_eq!(listed(&upstreams), [3, 0, 2, 0]);
        let counts: Vec<_> = upstreams.iter().filter_map(|upstream| upstream.tool_count).collect();
        assert_eq!(counts, [3, 9, 2, 10], "they are counted");
        let size = serde_json::to_vec(&upstreams.iter().flat_map(|u| &u.tools).collect::<Vec<_>>()).unwrap().len();
        assert!(size <= 6 * 256, "{size}");
    }

    #[test]
    fn what_another_version_says_is_left_out_and_the_rest_is_read() {
        let json = r#"{"revision": "a", "mood": "good", "secrets": [
            {"namespace": "n", "name": "s", "key": "k", "state": "Melted"},
            {"namespace": "n", "name": "s", "key": "l", "state": "NotGranted", "since": 1}]}"#;
        let report: Report = serde_json::from_str(json).unwrap();
        assert_eq!(report.revision, "a");
        let states: Vec<_> = report.secrets.iter().map(|secret| (secret.key.as_str(), secret.state)).collect();
        assert_eq!(states, [("l", SecretState::NotGranted)]);
    }
}
