//! Packs the pieces of a plan into shards of a snapshot, and unpacks them.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::snapshot::{Shard, ShardEncoding, ShardKind, ShardRef, SnapshotRevision};
use crate::config::shards::{JoinError, PieceKind, PlanPiece, join};
use crate::domain::digest::{self, sha256_hex};
use crate::domain::plan::Plan;

/// The compression level: the default of Zstandard, which compresses a plan within milliseconds.
const LEVEL: i32 = 3;
/// Maximum number of characters in `data`, as in the schema. This limit keeps an object below etcd's limit of 1.5 MiB.
const MAX_DATA: usize = 1_300_000;
/// Maximum size of a shard after decompression, in bytes, whatever size the shard states.
const MAX_PLAIN: usize = 64 << 20;

/// The error for a piece of a plan that is too large for one object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a piece of kind {kind:?} has {size} bytes, which do not fit into one object: use fewer or smaller configs")]
pub struct TooLarge {
    /// Kind of the piece.
    pub kind: PieceKind,
    /// Size of the piece's JSON in bytes.
    pub size: usize,
}

/// Why a shard cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The data cannot be decoded or is larger than the shard states, or the size that the shard states exceeds the
    /// limit.
    #[error("it cannot be unpacked: {0}")]
    Packed(String),
    /// The content does not match the shard's digest.
    #[error("its content has digest {found:.12}, where it says {said:.12}")]
    Digest {
        /// Digest of the content.
        found: String,
        /// Digest that the shard states.
        said: String,
    },
    /// This version does not know the shard's kind.
    #[error("this version does not know shards of kind {0:?}")]
    Kind(ShardKind),
}

/// Why a stored revision cannot be turned into a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The shard of this name is missing.
    #[error("shard {0} is not there")]
    Lacks(String),
    /// The shard of this name cannot be used.
    #[error("shard {0}: {1}")]
    Unpack(String, UnpackError),
    /// The pieces in the shards do not form a plan.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// Returns the plan of a revision. `shards` contains the gateway's shards, by the names of their objects.
///
/// # Errors
/// See [`PlanError`]. A partial plan is never returned.
pub fn plan(revision: &SnapshotRevision, shards: &HashMap<String, Shard>) -> Result<Plan, PlanError> {
    let mut pieces = Vec::with_capacity(revision.shards.len());
    for ShardRef { name, .. } in revision.shards.iter().filter(|shard| is_known(shard.kind)) {
        let shard = shards.get(name).ok_or_else(|| PlanError::Lacks(name.clone()))?;
        pieces.push(unpack(shard).map_err(|error| PlanError::Unpack(name.clone(), error))?);
    }
    let mut plan = join(pieces.iter().map(|(kind, json)| (*kind, json.as_str())))?;
    plan.revision.clone_from(&revision.revision);
    Ok(plan)
}

impl TooLarge {
    fn of(piece: &PlanPiece) -> Self {
        Self { kind: piece.kind, size: piece.json.len() }
    }
}

/// Returns the reference to a piece's shard, as the index of `gateway` stores it.
///
/// # Errors
/// If the piece is too large for an object.
pub fn reference(gateway: &str, piece: &PlanPiece) -> Result<ShardRef, TooLarge> {
    let kind = kind(piece.kind);
    Ok(ShardRef {
        name: format!("{gateway}.{}.{:.32}", format!("{kind:?}").to_ascii_lowercase(), piece.sha256),
        kind,
        bucket: Some(piece.bucket),
        sha256: piece.sha256.clone(),
        size_bytes: u32::try_from(piece.json.len()).map_err(|_| TooLarge::of(piece))?,
    })
}

/// Packs a piece into a shard.
///
/// # Errors
/// If the piece is too large for an object.
pub fn pack(piece: &PlanPiece) -> Result<Shard, TooLarge> {
    let too_large = || TooLarge::of(piece);
    let packed = zstd::bulk::compress(piece.json.as_bytes(), LEVEL).map_err(|_| too_large())?;
    let data = STANDARD.encode(packed);
    if data.len() > MAX_DATA || piece.json.len() > MAX_PLAIN {
        return Err(too_large());
    }
    Ok(Shard {
        kind: kind(piece.kind),
        encoding: ShardEncoding::JSONZstd,
        sha256: piece.sha256.clone(),
        size_bytes: u32::try_from(piece.json.len()).map_err(|_| too_large())?,
        data,
    })
}

/// Returns the kind and the JSON of the piece in a shard.
///
/// # Errors
/// See [`UnpackError`].
pub fn unpack(shard: &Shard) -> Result<(PieceKind, String), UnpackError> {
    let wrong = |error: &dyn std::fmt::Display| UnpackError::Packed(error.to_string());
    let kind = piece_kind(shard.kind)?;
    let packed = STANDARD.decode(&shard.data).map_err(|error| wrong(&error))?;
    let size = usize::try_from(shard.size_bytes).unwrap_or(usize::MAX);
    if size > MAX_PLAIN {
        return Err(wrong(&format!("{size} bytes are more than {MAX_PLAIN}")));
    }
    let plain = zstd::bulk::decompress(&packed, size).map_err(|error| wrong(&error))?;
    let found = sha256_hex(&plain);
    if found != shard.sha256 {
        return Err(UnpackError::Digest { found, said: shard.sha256.clone() });
    }
    Ok((kind, String::from_utf8(plain).map_err(|error| wrong(&error))?))
}

/// Whether this version can read shards of this kind. Shards of any other kind are ignored, unless the plan also lists
/// a feature in `requires` that this version does not support: the gateway then refuses the plan.
pub fn is_known(kind: ShardKind) -> bool {
    piece_kind(kind).is_ok()
}

/// Returns a name for the revision that consists of `shards`: the first 12 characters of a digest over the shards'
/// digests. With so few characters, anyone who can write objects can force a collision, so the function skips names
/// that a different revision in `kept` has.
pub fn revision(shards: &[ShardRef], kept: &[SnapshotRevision]) -> String {
    let wanted = digests(shards);
    let is_free = |name: &String| !kept.iter().any(|other| other.revision == *name && digests(&other.shards) != wanted);
    let names =
        std::iter::successors(Some(digest::revision(&wanted)), |taken| Some(digest::revision(&(taken, &wanted))));
    names.take(1 + kept.len()).find(is_free).unwrap_or_default()
}

fn digests(shards: &[ShardRef]) -> Vec<&str> {
    let mut digests: Vec<_> = shards.iter().map(|shard| shard.sha256.as_str()).collect();
    digests.sort_unstable();
    digests
}

fn kind(kind: PieceKind) -> ShardKind {
    match kind {
        PieceKind::Gateway => ShardKind::Gateway,
        PieceKind::Upstreams => ShardKind::Upstreams,
        PieceKind::Chains => ShardKind::Chains,
        PieceKind::Sections => ShardKind::Sections,
        PieceKind::Code => ShardKind::Code,
    }
}

fn piece_kind(kind: ShardKind) -> Result<PieceKind, UnpackError> {
    match kind {
        ShardKind::Gateway => Ok(PieceKind::Gateway),
        ShardKind::Upstreams => Ok(PieceKind::Upstreams),
        ShardKind::Chains => Ok(PieceKind::Chains),
        ShardKind::Sections => Ok(PieceKind::Sections),
        ShardKind::Code => Ok(PieceKind::Code),
        ShardKind::Access | ShardKind::Pipelines | ShardKind::Unknown => Err(UnpackError::Kind(kind)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::api::snapshot::tests::empty_revision;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{add_plugin, folder};
    use crate::config::shards::split;
    use crate::domain::ids::ObjectKey;

    fn piece(json: &str) -> PlanPiece {
        PlanPiece { kind: PieceKind::Chains, bucket: 3, json: json.to_owned(), sha256: sha256_hex(json.as_bytes()) }
    }

    #[test]
    fn a_piece_comes_back() {
        let piece = piece(r#"{"plugins":[],"chains":[]}"#);
        let (reference, shard) = (reference("main", &piece).unwrap(), pack(&piece).unwrap());
        assert_eq!(reference.name, format!("main.chains.{:.32}", piece.sha256));
        let (kind, json) = unpack(&shard).unwrap();
        assert_eq!((kind, json), (piece.kind, piece.json));
    }

    #[test]
    fn what_is_not_as_it_says_is_refused() {
        let good = pack(&piece(&"[1, 2]".repeat(100))).unwrap();
        let longer = Shard { size_bytes: 10, ..good.clone() };
        assert!(matches!(unpack(&longer), Err(UnpackError::Packed(_))));
        let huge = Shard { size_bytes: u32::MAX, ..good.clone() };
        assert!(matches!(unpack(&huge), Err(UnpackError::Packed(_))));
        let other = Shard { sha256: sha256_hex(b"other"), ..good.clone() };
        assert!(matches!(unpack(&other), Err(UnpackError::Digest { .. })));
        let broken = Shard { data: "!".to_owned(), ..good.clone() };
        assert!(matches!(unpack(&broken), Err(UnpackError::Packed(_))));
        let unknown = Shard { kind: ShardKind::Access, ..good };
        assert!(matches!(unpack(&unknown), Err(UnpackError::Kind(ShardKind::Access))));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let noise: String = (0..60_000_u32).map(|n| sha256_hex(&n.to_le_bytes())).collect();
        assert!(pack(&piece(&noise)).is_err());
    }

    #[test]
    fn a_revision_follows_from_the_shards_alone() {
        let [a, b] = ["[1]", "[2]"].map(|json| reference("main", &piece(json)).unwrap());
        assert_eq!(revision(&[a.clone(), b.clone()], &[]), revision(&[b.clone(), a.clone()], &[]));
        assert_ne!(revision(&[a], &[]), revision(&[b], &[]));
    }

    #[test]
    fn two_kept_revisions_never_have_one_name() {
        let [a, b] = ["[1]", "[2]"].map(|json| vec![reference("main", &piece(json)).unwrap()]);
        let name = revision(&b, &[]);
        let entry =
            |name: &str, shards: &[ShardRef]| SnapshotRevision { shards: shards.to_vec(), ..empty_revision(name) };
        // The kept revision has other content but the same name, as if that content had been crafted for a collision.
        let crafted = entry(&name, &a);
        let other = revision(&b, std::slice::from_ref(&crafted));
        assert!(other != name && other.len() == name.len());
        assert_eq!(revision(&b, &[entry(&other, &a), crafted]).len(), name.len());
        assert_eq!(revision(&b, &[entry(&name, &b)]), name, "it is the same one");
    }

    #[test]
    fn whatever_is_within_bounds_fits_into_objects() {
        let noise = |size: usize, seed: usize| -> String {
            (0..size / 64).map(|n| sha256_hex(&(n * 100_003 + seed).to_le_bytes())).collect()
        };
        let mut inputs = folder();
        for number in 0..12 {
            let text = format!(r#"{{"noise":"{}"}}"#, noise(500 << 10, number));
            add_plugin(&mut inputs, &format!("big{number}"), |plugin| {
                plugin.config = Some(RawValue::from_string(text).unwrap());
            });
        }
        let (mut plan, problems) = compile(&inputs, None);
        assert!(problems.is_empty(), "{problems:?}");
        // Evenly distributed printable ASCII, because few texts compress worse.
        let code: String = noise(2 * (900 << 10), 77)
            .as_bytes()
            .chunks(2)
            .map(|pair| char::from(32 + u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap() % 95))
            .collect();
        plan.code.insert("aa".repeat(32), code);
        for piece in split(&plan) {
            assert!(pack(&piece).is_ok(), "{:?} of {} bytes", piece.kind, piece.json.len());
        }
    }

    #[test]
    fn the_names_of_as_many_objects_as_a_plan_has_fit_into_an_object() {
        // Evenly distributed names of 63 characters, because few names compress worse.
        let name = |seed: String| -> String {
            let digest = sha256_hex(seed.as_bytes()) + &sha256_hex(format!("{seed}.").as_bytes());
            let pairs = digest.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let places = pairs.map(|pair| usize::from_str_radix(pair, 16).unwrap() % 36);
            places.take(63).map(|place| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[place])).collect()
        };
        let (mut plan, _) = compile(&folder(), None);
        let (namespaces, each) = (512, 32);
        plan.upstreams = (0..namespaces * each)
            .map(|number| {
                let mut upstream = plan.upstreams[0].clone();
                upstream.key = ObjectKey::new(name(format!("of {}", number / each)), name(number.to_string()));
                upstream
            })
            .collect();
        let gateway = split(&plan).into_iter().find(|piece| piece.kind == PieceKind::Gateway).unwrap();
        assert!(pack(&gateway).is_ok(), "{} bytes", gateway.json.len());
    }
}
