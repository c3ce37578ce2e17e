//! Splits a plan into pieces that are stored separately, so that an edit changes only the pieces that it affects.
//!
//! Objects are assigned to buckets by their names, code by its digest. The gateway's piece holds the order of the
//! objects. No piece holds the plan's revision, because it changes with every edit; it is computed when the pieces are
//! joined.

use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::digest::{revision, sha256_hex};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{
    ChainPlan, FEATURES, FORMAT_VERSION, GatewayPlan, GatewayTakes, Plan, PluginPlan, SectionPlan, UpstreamPlan,
};

/// Number of buckets for upstreams. Chains and plugins together have the same number.
const BUCKETS: u32 = 64;
/// Maximum size of the code in a piece, in bytes. A single larger text has a piece of its own.
const MAX_CODE: usize = 512 << 10;
/// Maximum size of the objects in a piece, in bytes. A single larger object has a piece of its own.
const MAX_OBJECTS: usize = 512 << 10;
/// Oldest plan format that can be read.
const OLDEST_FORMAT: u32 = if FORMAT_VERSION > 1 { FORMAT_VERSION - 1 } else { 1 };

/// The kind of a piece's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PieceKind {
    /// The gateway's settings, and the order of the objects in other pieces.
    Gateway,
    /// The upstreams of one bucket.
    Upstreams,
    /// Chains and the plugins that they run.
    Chains,
    /// Bindings of sections of one bucket.
    Sections,
    /// Plugin code by its digest.
    Code,
}

/// A piece of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPiece {
    /// The kind of the piece's content.
    pub kind: PieceKind,
    /// Bucket that the content belongs to. Several pieces can have the same kind and bucket.
    pub bucket: u32,
    /// Content of the piece.
    pub json: String,
    /// SHA-256 digest of `json`, in hexadecimal. It identifies the piece.
    pub sha256: String,
}

/// Why pieces do not form a plan.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The content of a piece does not have the form that its kind requires.
    #[error("a piece of kind {kind:?} cannot be read: {error}")]
    Unreadable {
        /// Kind of the piece.
        kind: PieceKind,
        /// Error of the parser.
        error: serde_json::Error,
    },
    /// This version cannot read the plan's format.
    #[error("the plan has format {found}; this version reads {OLDEST_FORMAT} to {FORMAT_VERSION}")]
    Format {
        /// Format of the plan.
        found: u32,
    },
    /// The number of gateway pieces is not one.
    #[error("there are {0} pieces of the gateway, where there must be one")]
    Gateways(usize),
    /// The plan requires features that this version does not have.
    #[error("the plan requires {}, which this version does not have: use a newer version of the gateway", .0.join(", "))]
    Features(Vec<String>),
    /// The gateway's piece names an object, or a plugin needs code, that no piece contains.
    #[error("{what} {key} is named, and in no piece")]
    Missing {
        /// Kind of the object, or `the code of Plugin`.
        what: &'static str,
        /// Namespace and name of the object.
        key: String,
    },
}

#[derive(Deserialize)]
struct PlanFormat {
    format_version: u32,
    #[serde(default)]
    requires: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct GatewayPiece {
    format_version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requires: Vec<String>,
    gateway: GatewayPlan,
    takes: Option<GatewayTakes>,
    /// Keys of the objects of each kind, in order. Kinds that this version does not know are ignored; a plan that must
    /// not be read without them names a feature in `requires`.
    #[serde(default)]
    objects: BTreeMap<String, Vec<ObjectKey>>,
    /// Order of the objects in a plan of format 1, which has no `objects`.
    #[serde(flatten, skip_serializing)]
    before: ListsBefore,
}

/// Order of objects in format 1.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListsBefore {
    upstreams: Vec<ObjectKey>,
    plugins: Vec<ObjectKey>,
    chains: Vec<ObjectKey>,
}

impl GatewayPiece {
    /// Removes and returns the keys of the objects of a kind, in their order.
    fn order(&mut self, kind: Kind) -> Vec<ObjectKey> {
        let before = match kind {
            Kind::MCPUpstream => &mut self.before.upstreams,
            Kind::Plugin => &mut self.before.plugins,
            Kind::PluginChain => &mut self.before.chains,
            _ => &mut Vec::new(),
        };
        self.objects.remove(kind.as_str()).unwrap_or_else(|| std::mem::take(before))
    }
}

#[derive(Serialize)]
struct ChainObjects {
    plugins: Vec<Box<RawValue>>,
    chains: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct OwnObjects {
    plugins: Vec<PluginPlan>,
    chains: Vec<ChainPlan>,
}

/// Whether this version can read plans of this format.
pub fn is_readable(format_version: u32) -> bool {
    (OLDEST_FORMAT..=FORMAT_VERSION).contains(&format_version)
}

/// Splits a plan into pieces. The same plan always has the same pieces.
pub fn split(plan: &Plan) -> Vec<PlanPiece> {
    let sections: Vec<_> = plan.sections.iter().map(|section| section.key.clone()).collect();
    let objects = [
        (Kind::MCPUpstream, plan.upstreams.iter().map(|upstream| upstream.key.clone()).collect()),
        (Kind::Plugin, plan.plugins.iter().map(|plugin| plugin.key.clone()).collect()),
        (Kind::PluginChain, plan.chains.iter().map(|chain| chain.key.clone()).collect()),
    ];
    // A plan without bindings is stored as before there were any.
    let sections = Some((Kind::SectionBinding, sections)).filter(|(_, keys)| !keys.is_empty());
    let gateway = GatewayPiece {
        format_version: plan.format_version,
        requires: plan.requires.clone(),
        gateway: plan.gateway.clone(),
        takes: plan.takes.clone(),
        objects: objects.into_iter().chain(sections).map(|(kind, keys)| (kind.as_str().to_owned(), keys)).collect(),
        before: ListsBefore::default(),
    };
    let upstreams = by_bucket(plan.upstreams.iter().map(|upstream| (&upstream.key, upstream)));
    let mut objects: BTreeMap<u32, Vec<ObjectJson>> = BTreeMap::new();
    for plugin in &plan.plugins {
        objects.entry(bucket(&plugin.key)).or_default().push(ObjectJson::Plugin(raw(plugin)));
    }
    for chain in &plan.chains {
        objects.entry(bucket(&chain.key)).or_default().push(ObjectJson::Chain(raw(chain)));
    }
    let sections = by_bucket(plan.sections.iter().map(|section| (&section.key, section)));
    let mut pieces = vec![PlanPiece::of(PieceKind::Gateway, 0, &gateway)];
    for (kind, lists) in [(PieceKind::Upstreams, upstreams), (PieceKind::Sections, sections)] {
        for (bucket, list) in lists {
            let parts = parts(list, |object| object.get().len());
            pieces.extend(parts.iter().map(|part| PlanPiece::of(kind, bucket, part)));
        }
    }
    for (bucket, objects) in objects {
        let parts = parts(objects, |object| object.json().get().len());
        pieces.extend(parts.into_iter().map(|part| PlanPiece::of(PieceKind::Chains, bucket, &ChainObjects::of(part))));
    }
    pieces.extend(split_code(&plan.code));
    pieces
}

/// Groups objects by their buckets, as JSON.
fn by_bucket<'p, T: Serialize + 'p>(
    objects: impl Iterator<Item = (&'p ObjectKey, &'p T)>,
) -> BTreeMap<u32, Vec<Box<RawValue>>> {
    let mut buckets: BTreeMap<_, Vec<_>> = BTreeMap::new();
    objects.for_each(|(key, object)| buckets.entry(bucket(key)).or_default().push(raw(object)));
    buckets
}

/// A plugin or a chain as JSON.
enum ObjectJson {
    Plugin(Box<RawValue>),
    Chain(Box<RawValue>),
}

impl ObjectJson {
    fn json(&self) -> &RawValue {
        match self {
            Self::Plugin(json) | Self::Chain(json) => json,
        }
    }
}

impl ChainObjects {
    fn of(part: Vec<ObjectJson>) -> Self {
        let mut objects = Self { plugins: Vec::new(), chains: Vec::new() };
        for object in part {
            match object {
                ObjectJson::Plugin(json) => objects.plugins.push(json),
                ObjectJson::Chain(json) => objects.chains.push(json),
            }
        }
        objects
    }
}

/// Serializes an object of a plan. This cannot fail.
fn raw(object: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(object).unwrap_or_default()
}

/// Divides the content of a bucket into parts of at most [`MAX_OBJECTS`] bytes; a single larger object is a part of its
/// own.
fn parts<T>(content: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut held) = (Vec::<Vec<T>>::new(), 0);
    for object in content {
        held += size(&object);
        match parts.last_mut().filter(|_| held <= MAX_OBJECTS) {
            Some(open) => open.push(object),
            None => {
                held = size(&object);
                parts.push(vec![object]);
            }
        }
    }
    parts
}

/// Groups code by the first byte of its digest, and starts another piece before one exceeds [`MAX_CODE`]. A single
/// larger text is a piece of its own.
fn split_code(code: &BTreeMap<String, String>) -> Vec<PlanPiece> {
    let mut pieces = Vec::new();
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    let mut current = 0;
    let mut close = |bucket: u32, open: &mut BTreeMap<&str, &str>| {
        if !open.is_empty() {
            pieces.push(PlanPiece::of(PieceKind::Code, bucket, open));
            open.clear();
        }
    };
    for (digest, text) in code {
        let bucket = first_byte(digest);
        let held: usize = open.values().map(|text| text.len()).sum();
        if bucket != current || held + text.len() > MAX_CODE {
            close(current, &mut open);
        }
        current = bucket;
        open.insert(digest, text);
    }
    close(current, &mut open);
    pieces
}

/// Joins pieces, in any order, into a plan. The caller must have checked each piece against its digest.
///
/// # Errors
/// See [`JoinError`]. A partial plan is never returned.
pub fn join<'p>(pieces: impl IntoIterator<Item = (PieceKind, &'p str)>) -> Result<Plan, JoinError> {
    let mut gateways = Vec::new();
    let (mut upstreams, mut sections) = (HashMap::new(), HashMap::new());
    let (mut plugins, mut chains, mut code) = (HashMap::new(), HashMap::new(), BTreeMap::new());
    for (kind, json) in pieces {
        match kind {
            PieceKind::Gateway => gateways.push(read_gateway(json)?),
            PieceKind::Upstreams => read_list(kind, json, &mut upstreams, |upstream: &UpstreamPlan| &upstream.key)?,
            PieceKind::Chains => {
                let objects: OwnObjects = read(kind, json)?;
                plugins.extend(objects.plugins.into_iter().map(|plugin| (plugin.key.clone(), plugin)));
                chains.extend(objects.chains.into_iter().map(|chain| (chain.key.clone(), chain)));
            }
            PieceKind::Sections => read_list(kind, json, &mut sections, |section: &SectionPlan| &section.key)?,
            PieceKind::Code => code.extend(read::<BTreeMap<String, String>>(kind, json)?),
        }
    }
    let count = gateways.len();
    let (Some(mut piece), 1) = (gateways.pop(), count) else { return Err(JoinError::Gateways(count)) };
    let plugins = in_order(Kind::Plugin, &mut piece, plugins)?;
    if let Some(lacks) = plugins.iter().find(|plugin| plugin.path.is_none() && !code.contains_key(&plugin.digest)) {
        return Err(JoinError::Missing { what: "the code of Plugin", key: lacks.key.to_string() });
    }
    let upstreams = in_order(Kind::MCPUpstream, &mut piece, upstreams)?;
    let chains = in_order(Kind::PluginChain, &mut piece, chains)?;
    let sections = in_order(Kind::SectionBinding, &mut piece, sections)?;
    let mut plan = Plan {
        format_version: piece.format_version,
        revision: String::new(),
        requires: piece.requires,
        restrictions: String::new(),
        gateway: piece.gateway,
        takes: piece.takes,
        upstreams,
        plugins,
        chains,
        sections,
        code,
    };
    plan.revision = revision(&plan);
    Ok(plan)
}

fn read_gateway(json: &str) -> Result<GatewayPiece, JoinError> {
    let PlanFormat { format_version: found, requires } = read(PieceKind::Gateway, json)?;
    if !is_readable(found) {
        return Err(JoinError::Format { found });
    }
    let unknown: Vec<_> = requires.into_iter().filter(|feature| !FEATURES.contains(&feature.as_str())).collect();
    if !unknown.is_empty() {
        return Err(JoinError::Features(unknown));
    }
    read(PieceKind::Gateway, json)
}

fn read<'p, T: Deserialize<'p>>(kind: PieceKind, json: &'p str) -> Result<T, JoinError> {
    serde_json::from_str(json).map_err(|error| JoinError::Unreadable { kind, error })
}

/// Adds the objects of a piece that is a list to those of other pieces.
fn read_list<T: DeserializeOwned>(
    kind: PieceKind,
    json: &str,
    objects: &mut HashMap<ObjectKey, T>,
    key: impl Fn(&T) -> &ObjectKey,
) -> Result<(), JoinError> {
    let list: Vec<T> = read(kind, json)?;
    objects.extend(list.into_iter().map(|object| (key(&object).clone(), object)));
    Ok(())
}

fn in_order<T>(kind: Kind, piece: &mut GatewayPiece, mut objects: HashMap<ObjectKey, T>) -> Result<Vec<T>, JoinError> {
    let what = kind.as_str();
    let take = |key: ObjectKey| objects.remove(&key).ok_or_else(|| JoinError::Missing { what, key: key.to_string() });
    piece.order(kind).into_iter().map(take).collect()
}

impl PlanPiece {
    fn of(kind: PieceKind, bucket: u32, content: &impl Serialize) -> Self {
        // Serializing parts of a plan cannot fail.
        let json = serde_json::to_string(content).unwrap_or_default();
        let sha256 = sha256_hex(json.as_bytes());
        Self { kind, bucket, json, sha256 }
    }
}

fn bucket(key: &ObjectKey) -> u32 {
    first_byte(&sha256_hex(key.to_string().as_bytes())) % BUCKETS
}

fn first_byte(digest: &str) -> u32 {
    digest.get(..2).and_then(|byte| u32::from_str_radix(byte, 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
