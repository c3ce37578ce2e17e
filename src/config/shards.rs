//! A plan in pieces that can be stored apart, so that an edit moves only the pieces that it touches.
//!
//! Objects fall into buckets by their names, code by its digest. The piece of the gateway holds the order of the rest.
//! No piece holds the plan's revision, which changes with every edit: it follows from the others.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::domain::digest::{revision, sha256_hex};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{ChainPlan, FORMAT_VERSION, GatewayPlan, GatewayTakes, Plan, PluginPlan, UpstreamPlan};

/// Buckets of upstreams, and of chains with plugins.
const BUCKETS: u32 = 64;
/// Bytes of code in a piece; a single text may be larger.
const MAX_CODE: usize = 512 << 10;
/// The oldest format that can be read.
const OLDEST_FORMAT: u32 = if FORMAT_VERSION > 1 { FORMAT_VERSION - 1 } else { 1 };

/// What a piece holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PieceKind {
    /// The gateway's settings, and the order of what is in the others.
    Gateway,
    /// Upstreams.
    Upstreams,
    /// Chains, and the plugins that they run.
    Chains,
    /// Texts of plugins by their digests.
    Code,
}

/// One piece of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What is in it.
    pub kind: PieceKind,
    /// Which of its kind.
    pub bucket: u32,
    /// Its content.
    pub json: String,
    /// SHA-256 of `json` in hex: the piece's identity.
    pub sha256: String,
}

/// Why pieces make no plan.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A piece is not what its kind says.
    #[error("a piece of kind {kind:?} cannot be read: {error}")]
    Unreadable {
        /// The piece's kind.
        kind: PieceKind,
        /// What the parser says.
        error: serde_json::Error,
    },
    /// It was written by a version too far from this one.
    #[error("the plan has format {found}; this version reads {OLDEST_FORMAT} to {FORMAT_VERSION}")]
    Format {
        /// The format.
        found: u32,
    },
    /// There is not exactly one piece of the gateway.
    #[error("there are {0} pieces of the gateway, where there must be one")]
    Gateways(usize),
    /// A piece lacks.
    #[error("{what} {key} is named, and in no piece")]
    Missing {
        /// The kind of object.
        what: &'static str,
        /// Which one.
        key: String,
    },
}

#[derive(Deserialize)]
struct Format {
    format_version: u32,
}

#[derive(Serialize, Deserialize)]
struct GatewayPiece {
    format_version: u32,
    gateway: GatewayPlan,
    takes: Option<GatewayTakes>,
    upstreams: Vec<ObjectKey>,
    plugins: Vec<ObjectKey>,
    chains: Vec<ObjectKey>,
}

#[derive(Serialize)]
struct Objects<'a> {
    plugins: Vec<&'a PluginPlan>,
    chains: Vec<&'a ChainPlan>,
}

#[derive(Deserialize)]
struct OwnObjects {
    plugins: Vec<PluginPlan>,
    chains: Vec<ChainPlan>,
}

/// Whether plans of this format can be read.
pub fn is_readable(format_version: u32) -> bool {
    (OLDEST_FORMAT..=FORMAT_VERSION).contains(&format_version)
}

/// Takes a plan apart. The same plan gives the same pieces.
pub fn split(plan: &Plan) -> Vec<Piece> {
    let gateway = GatewayPiece {
        format_version: plan.format_version,
        gateway: plan.gateway.clone(),
        takes: plan.takes.clone(),
        upstreams: plan.upstreams.iter().map(|upstream| upstream.key.clone()).collect(),
        plugins: plan.plugins.iter().map(|plugin| plugin.key.clone()).collect(),
        chains: plan.chains.iter().map(|chain| chain.key.clone()).collect(),
    };
    let mut upstreams: BTreeMap<u32, Vec<&UpstreamPlan>> = BTreeMap::new();
    for upstream in &plan.upstreams {
        upstreams.entry(bucket(&upstream.key)).or_default().push(upstream);
    }
    let mut objects: BTreeMap<u32, Objects<'_>> = BTreeMap::new();
    let empty = || Objects { plugins: Vec::new(), chains: Vec::new() };
    for plugin in &plan.plugins {
        objects.entry(bucket(&plugin.key)).or_insert_with(empty).plugins.push(plugin);
    }
    for chain in &plan.chains {
        objects.entry(bucket(&chain.key)).or_insert_with(empty).chains.push(chain);
    }
    let mut pieces = vec![Piece::of(PieceKind::Gateway, 0, &gateway)];
    pieces.extend(upstreams.iter().map(|(bucket, list)| Piece::of(PieceKind::Upstreams, *bucket, list)));
    pieces.extend(objects.iter().map(|(bucket, objects)| Piece::of(PieceKind::Chains, *bucket, objects)));
    pieces.extend(split_code(&plan.code));
    pieces
}

/// Texts by the first byte of their digest; a piece that grows too large is closed, and another one begun.
fn split_code(code: &BTreeMap<String, String>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    let mut current = 0;
    let mut close = |bucket: u32, open: &mut BTreeMap<&str, &str>| {
        if !open.is_empty() {
            pieces.push(Piece::of(PieceKind::Code, bucket, open));
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

/// Puts a plan together again, whatever the order of its pieces. That each piece is what its digest says is to be
/// checked before.
///
/// # Errors
/// See [`JoinError`]. A plan in part is never given.
pub fn join<'p>(pieces: impl IntoIterator<Item = (PieceKind, &'p str)>) -> Result<Plan, JoinError> {
    let mut gateways = Vec::new();
    let mut upstreams = HashMap::new();
    let (mut plugins, mut chains, mut code) = (HashMap::new(), HashMap::new(), BTreeMap::new());
    for (kind, json) in pieces {
        match kind {
            PieceKind::Gateway => gateways.push(read_gateway(json)?),
            PieceKind::Upstreams => {
                let list: Vec<UpstreamPlan> = read(kind, json)?;
                upstreams.extend(list.into_iter().map(|upstream| (upstream.key.clone(), upstream)));
            }
            PieceKind::Chains => {
                let objects: OwnObjects = read(kind, json)?;
                plugins.extend(objects.plugins.into_iter().map(|plugin| (plugin.key.clone(), plugin)));
                chains.extend(objects.chains.into_iter().map(|chain| (chain.key.clone(), chain)));
            }
            PieceKind::Code => code.extend(read::<BTreeMap<String, String>>(kind, json)?),
        }
    }
    let count = gateways.len();
    let (Some(piece), 1) = (gateways.pop(), count) else { return Err(JoinError::Gateways(count)) };
    let plugins = in_order("Plugin", &piece.plugins, plugins)?;
    if let Some(lacks) = plugins.iter().find(|plugin| plugin.path.is_none() && !code.contains_key(&plugin.digest)) {
        return Err(JoinError::Missing { what: "the code of Plugin", key: lacks.key.to_string() });
    }
    let mut plan = Plan {
        format_version: piece.format_version,
        revision: String::new(),
        gateway: piece.gateway,
        takes: piece.takes,
        upstreams: in_order("MCPUpstream", &piece.upstreams, upstreams)?,
        plugins,
        chains: in_order("PluginChain", &piece.chains, chains)?,
        code,
    };
    plan.revision = revision(&plan);
    Ok(plan)
}

fn read_gateway(json: &str) -> Result<GatewayPiece, JoinError> {
    let Format { format_version: found } = read(PieceKind::Gateway, json)?;
    if !is_readable(found) {
        return Err(JoinError::Format { found });
    }
    read(PieceKind::Gateway, json)
}

fn read<'p, T: Deserialize<'p>>(kind: PieceKind, json: &'p str) -> Result<T, JoinError> {
    serde_json::from_str(json).map_err(|error| JoinError::Unreadable { kind, error })
}

fn in_order<T>(
    what: &'static str,
    order: &[ObjectKey],
    mut objects: HashMap<ObjectKey, T>,
) -> Result<Vec<T>, JoinError> {
    let take = |key: &ObjectKey| objects.remove(key).ok_or(JoinError::Missing { what, key: key.to_string() });
    order.iter().map(take).collect()
}

impl Piece {
    fn of(kind: PieceKind, bucket: u32, content: &impl Serialize) -> Self {
        // What a plan holds always has a form in JSON.
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
