//! Pieces of a plan as shards of a snapshot, and back.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::snapshot::{Shard, ShardEncoding, ShardKind, ShardRef, SnapshotRevision};
use crate::config::shards::{JoinError, PieceKind, PlanPiece, join};
use crate::domain::digest::{self, sha256_hex};
use crate::domain::plan::Plan;

/// Zstandard's own default: a plan is packed within milliseconds.
const LEVEL: i32 = 3;
/// The most characters of `data`; the schema's bound, so that an object stays far below etcd's.
const MAX_DATA: usize = 1_300_000;
/// The most bytes that are unpacked, whatever a shard says of itself.
const MAX_PLAIN: usize = 64 << 20;

/// Why a piece cannot be stored.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a piece of kind {kind:?} has {size} bytes, which do not fit into one object: use fewer or smaller configs")]
pub struct TooLarge {
    /// The piece's kind.
    pub kind: PieceKind,
    /// Bytes of its JSON.
    pub size: usize,
}

/// Why a shard is not used.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It cannot be unpacked within its own and our bounds.
    #[error("it cannot be unpacked: {0}")]
    Packed(String),
    /// It is not what its digest says.
    #[error("its content has digest {found:.12}, where it says {said:.12}")]
    Digest {
        /// What the content has.
        found: String,
        /// What the shard says.
        said: String,
    },
    /// It is of a kind that this version does not know.
    #[error("this version does not know shards of kind {0:?}")]
    Kind(ShardKind),
}

/// Why a stored revision makes no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A shard is missing.
    #[error("shard {0} is not there")]
    Lacks(String),
    /// See [`UnpackError`].
    #[error("shard {0}: {1}")]
    Unpack(String, UnpackError),
    /// See [`JoinError`].
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// The plan of a revision. `shards` are those of its gateway, by name.
///
/// # Errors
/// See [`PlanError`]. A plan in part is never given.
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

/// How the index of `gateway` names the shard of a piece.
///
/// # Errors
/// If it does not fit into an object.
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

/// A piece as a shard.
///
/// # Errors
/// If it does not fit into an object.
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

/// The JSON in a shard.
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

/// Whether this version has what shards of this kind hold. Others are left out: where a plan is not to run without them,
/// it requires them.
pub fn is_known(kind: ShardKind) -> bool {
    piece_kind(kind).is_ok()
}

/// What a revision that consists of `shards` is called: the start of the digest of theirs. Twelve characters can be
/// brought to collide by who may write objects: a name that another one of `kept` has is not given again.
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
        PieceKind::Code => ShardKind::Code,
    }
}

fn piece_kind(kind: ShardKind) -> Result<PieceKind, UnpackError> {
    match kind {
        ShardKind::Gateway => Ok(PieceKind::Gateway),
        ShardKind::Upstreams => Ok(PieceKind::Upstreams),
        ShardKind::Chains => Ok(PieceKind::Chains),
        ShardKind::Code => Ok(PieceKind::Code),
        ShardKind::Access | ShardKind::Pipelines | ShardKind::Sections | ShardKind::Unknown => {
            Err(UnpackError::Kind(kind))
        }
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
        // As if its content had been crafted to be called as the other one is.
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
        // Bytes of ASCII drawn evenly, control characters aside: few texts pack worse.
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
        // Names of 63 characters drawn evenly: few names pack worse.
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
