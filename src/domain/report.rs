//! The report of a gateway's pod to its operator: the plan that runs, what cannot run, and what the pod sees of
//! upstreams.
//!
//! Nothing in a report changes with time alone, so equal states have equal bytes. A reader of another version ignores
//! what it does not know: unknown fields, and list members that contain unknown values.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::health::ConnectionState;
use super::ids::ObjectId;
use super::problem::Problem;
use super::sandbox::SandboxLack;
use super::seen::SeenNames;

/// `sealKey` of a pod that shares no key with other pods.
pub const OWN_SEAL_KEY: &str = "own";

/// Maximum number of tools of one upstream that a report lists. `toolCount` counts all of them.
pub const MAX_TOOLS: usize = 512;
/// Maximum size of all tools in a report, in bytes of JSON. If it is exceeded, the tools of the largest upstreams are
/// left out.
pub const MAX_TOOL_BYTES: usize = 8 << 20;
/// Maximum number of refusing chains whose message a report has. One plugin can make every chain refuse, and the operator
/// would discard a report that is too large.
pub const MAX_REFUSALS: usize = 1024;

/// The whole report. Lists are sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// The revision in force; empty before the first plan.
    pub revision: String,
    /// Digest of the restrictions that were applied to the revision; empty if there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restrictions: String,
    /// Problems with the plan, including those that only the pod can find.
    #[serde(deserialize_with = "known")]
    pub problems: Vec<Problem>,
    /// Upstreams of the plan.
    #[serde(deserialize_with = "known")]
    pub upstreams: Vec<UpstreamReport>,
    /// Plugins of the plan.
    #[serde(deserialize_with = "known")]
    pub plugins: Vec<PluginReport>,
    /// Plugins of the plan whose code this pod could not load, whether or not an older form runs instead.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<NotLoadedReport>,
    /// Chains of the plan that refuse the calls that they select.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub refusing: Vec<RefusingReport>,
    /// Plugins that do not run in the form that the plan has of them, such as those that are still being loaded; and
    /// the chains that name such plugins.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub not_in_force: Vec<ObjectId>,
    /// The state of each Secret key that the plan names.
    #[serde(deserialize_with = "known")]
    pub secrets: Vec<SecretReport>,
    /// The properties of the plugin sandbox that the pod's kernel cannot enforce.
    #[serde(deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub sandbox_lacks: Vec<SandboxLack>,
    /// `shared` if the pod can take over sessions of other pods, because it has the key that seals their ids; `own` if
    /// it cannot. Empty in reports of older versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seal_key: String,
    /// Names of tools that upstreams of the plan were seen to have and that are not in the index. Empty unless the
    /// prefix mode is `OnConflict`.
    #[serde(skip_serializing_if = "SeenNames::is_empty")]
    pub seen_names: SeenNames,
    /// A revision that the pod has received but cannot run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingReport>,
}

/// The state of an upstream, as this pod sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpstreamReport {
    /// The upstream, as `namespace/name`.
    pub upstream: String,
    /// The connection state, as defined in document 003.
    pub connection_state: ConnectionState,
    /// Number of failures since the last success: probes, and requests for the tool list.
    #[serde(default)]
    pub failures: u32,
    /// Whether the upstream was taken out of routing.
    #[serde(default)]
    pub auto_disabled: bool,
    /// When the upstream was taken out of routing, in RFC 3339; `None` while it is in routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_disabled_at: Option<String>,
    /// The newest value of the annotation `hawsepipe.dev/enable` that this pod has acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<String>,
    /// When the pod last connected to the upstream, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_connected_at: Option<String>,
    /// Why calls to the upstream are refused, or else the message of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `Legacy` or `Modern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// The MCP version that gateway and server agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `StreamableHTTP` or `Stdio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// The name that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The version that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Number of tools that the server lists; `None` before its first list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<u32>,
    /// Digest of the tool list, 12 hex characters; `None` before the first list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_revision: Option<String>,
    /// The first [`MAX_TOOLS`] tools by name. Empty if the tools of all upstreams exceed [`MAX_TOOL_BYTES`] and this
    /// upstream is one of the largest.
    #[serde(default, deserialize_with = "known")]
    pub tools: Vec<ToolReport>,
}

/// A tool of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// The server's own name for the tool.
    pub name: String,
    /// The name that clients see; `None` if the tool is not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#as: Option<String>,
    /// The digest of the tool's definition that owners approve; `hawsepipe tools pin` prints it.
    pub sha256: String,
    /// Whether this definition is approved; `None` if it need not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// Leaves out the tools of the largest upstreams until the JSON of the other tools has at most `most` bytes. The
/// operator would discard a larger report as a whole.
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

/// The state of a plugin, as this pod sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginReport {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The state of the plugin in this pod.
    pub state: PluginState,
    /// Why the plugin failed, a `Reason` of the pod's version; `None` if it did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Details of the failure, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// SHA-256 of the code that runs, in hex; empty if the pod has none.
    #[serde(default)]
    pub digest: String,
    /// Size of the code that runs, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// `Once`, `Lines` or `Module`; `None` if the pod has no code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// The state of a plugin in one pod: the states of Plugin in document 000, except those that change with each
/// execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum PluginState {
    /// No chain names the plugin, or none that can run it.
    Registered,
    /// The plugin can run.
    Enabled,
    /// The plugin cannot be started in this pod.
    Failed,
    /// The plugin is disabled.
    Disabled,
}

/// A form of a plugin that a worker tried but failed to load: its module throws, imports a file that does not exist,
/// exports no function, or does not finish loading. If an older form runs instead, [`PluginReport::digest`] is the
/// digest of the older form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct NotLoadedReport {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// SHA-256 of the code that the plan names, in hex.
    pub digest: String,
    /// Why the code could not be loaded, as text for users.
    pub message: String,
}

/// A chain that refuses the calls that it selects: the plan refuses them, or a plugin that must run cannot run in this
/// pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RefusingReport {
    /// The chain, as `namespace/name`.
    pub chain: String,
    /// Why the calls are refused, a `Reason` of the pod's version.
    pub reason: String,
    /// Details, as text for users; empty for chains after the first [`MAX_REFUSALS`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The state of a key of a Secret that the plan names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct SecretReport {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The key in the Secret.
    pub key: String,
    /// The state of the value in this pod.
    pub state: SecretState,
}

/// The state of a Secret's value in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum SecretState {
    /// The pod has the value.
    Found,
    /// There is no such Secret, or no such key in it.
    NotFound,
    /// The Secret's owner has not granted it.
    NotGranted,
    /// The value cannot be used: it is not UTF-8 text, or too large.
    Invalid,
}

/// A revision that a pod has received but cannot run. The pod continues to run its previous revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct PendingReport {
    /// The revision that cannot run.
    pub revision: String,
    /// Why the revision cannot run, a `Reason` of the pod's version.
    pub reason: String,
    /// Details, as text for users.
    pub message: String,
}

/// Deserializes a list. Members that this version cannot read are left out.
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
                tools: vec![ToolReport { name: "read".into(), r#as: None, sha256: "ab".into(), approved: None }],
                ..UpstreamReport::default()
            }],
            pending: Some(PendingReport { revision: "0".into(), reason: "R".into(), message: "m".into() }),
            not_loaded: vec![NotLoadedReport { plugin: "t/p".into(), digest: "ab".into(), message: "m".into() }],
            refusing: vec![RefusingReport { chain: "t/c".into(), reason: "R".into(), message: String::new() }],
            ..Report::default()
        };
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""connectionState":"Connected""#), "{json}");
        assert!(json.contains(r#""notLoaded":[{"plugin":"t/p","digest":"ab","message":"m"}]"#), "{json}");
        assert!(json.contains(r#""refusing":[{"chain":"t/c","reason":"R"}]"#), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }

    #[test]
    fn tools_of_the_largest_upstreams_are_left_out_where_there_are_too_many() {
        let tool =
            |number| ToolReport { name: format!("{number:0128}"), r#as: None, sha256: "a".repeat(64), approved: None };
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
