//! A plan that was split is joined without any change, or not at all.

use super::*;
use crate::config::compile::compile;
use crate::config::compile::tests::random::random_folders;
use crate::config::compile::tests::{add_plugin, chain, folder, upstream};

fn joined(pieces: &[PlanPiece]) -> Result<Plan, JoinError> {
    join(pieces.iter().rev().map(|piece| (piece.kind, piece.json.as_str())))
}

fn same(plan: &Plan, other: &Plan) -> bool {
    serde_json::to_string(plan).unwrap() == serde_json::to_string(other).unwrap()
}

#[test]
fn what_was_split_is_joined_byte_for_byte() {
    let mut previous = None;
    for (number, inputs) in random_folders(11).take(300).enumerate() {
        let (plan, _) = compile(&inputs, previous.as_ref());
        let pieces = split(&plan);
        assert!(pieces.iter().all(|piece| piece.sha256 == sha256_hex(piece.json.as_bytes())));
        let back = joined(&pieces).unwrap();
        assert!(same(&plan, &back), "folder {number}");
        previous = Some(back);
    }
}

#[test]
fn an_edit_moves_only_what_it_touches() {
    let mut inputs = folder();
    for number in 0..200 {
        inputs.upstreams.push(upstream(&format!("up{number}")));
        inputs.chains.push(chain(&format!("chain{number}"), &["guard"]));
    }
    let before = split(&compile(&inputs, None).0);
    inputs.chains[7].order += 1;
    let after = split(&compile(&inputs, None).0);
    let moved = after.iter().filter(|piece| !before.contains(piece)).collect::<Vec<_>>();
    // The piece of the chain's bucket, and the gateway's piece, because the order of the chains changed.
    let kinds: Vec<_> = moved.iter().map(|piece| piece.kind).collect();
    assert_eq!(kinds, [PieceKind::Gateway, PieceKind::Chains]);
    assert!(after.len() > 100 && after.len() <= 512);
}

#[test]
fn code_is_apart_and_its_pieces_stay_small() {
    let mut inputs = folder();
    for number in 0..40 {
        add_plugin(&mut inputs, &format!("big{number}"), |plugin| plugin.order = number);
    }
    let (mut plan, _) = compile(&inputs, None);
    let text = "x".repeat(300 << 10);
    plan.code.values_mut().for_each(|code| *code = text.clone());
    for digest in ["00aa", "00ab", "00ac"] {
        plan.code.insert(digest.into(), text.clone());
    }
    let pieces = split_code(&plan.code);
    assert!(pieces.iter().all(|piece| piece.json.len() < MAX_CODE + 1024));
    let held: usize = pieces.iter().map(|p| read::<BTreeMap<String, String>>(p.kind, &p.json).unwrap().len()).sum();
    assert_eq!(held, plan.code.len());
}

#[test]
fn a_plan_in_part_is_no_plan() {
    let pieces = split(&compile(&folder(), None).0);
    for lacking in 0..pieces.len() {
        let mut some = pieces.clone();
        let piece = some.remove(lacking);
        let error = joined(&some).unwrap_err();
        let expected = match piece.kind {
            PieceKind::Gateway => matches!(error, JoinError::Gateways(0)),
            _ => matches!(error, JoinError::Missing { .. }),
        };
        assert!(expected, "{:?}: {error}", piece.kind);
    }
    let mut twice = pieces.clone();
    twice.push(pieces[0].clone());
    assert!(matches!(joined(&twice).unwrap_err(), JoinError::Gateways(2)));
    let mut other = pieces.clone();
    other[0].json = other[0].json.replacen(r#""format_version":2"#, r#""format_version":99"#, 1);
    assert_eq!(joined(&other).unwrap_err().to_string(), "the plan has format 99; this version reads 1 to 2");
    other[0].json = "{".into();
    assert!(matches!(joined(&other).unwrap_err(), JoinError::Unreadable { .. }));
}

/// Returns the plan of `folder`, and its pieces with `change` applied to the first one, the gateway's.
fn changed(change: impl FnOnce(&mut serde_json::Value)) -> (Plan, Vec<PlanPiece>) {
    let plan = compile(&folder(), None).0;
    let mut pieces = split(&plan);
    let mut gateway = serde_json::from_str(&pieces[0].json).unwrap();
    change(&mut gateway);
    pieces[0].json = gateway.to_string();
    (plan, pieces)
}

#[test]
fn a_plan_that_requires_what_is_not_known_is_refused() {
    let (_, pieces) = changed(|gateway| gateway["requires"] = serde_json::json!(["identity", "authorization"]));
    let error = joined(&pieces).unwrap_err();
    assert!(matches!(&error, JoinError::Features(unknown) if unknown.len() == 2), "{error}");
    assert!(error.to_string().contains("identity, authorization"), "{error}");
}

#[test]
fn a_kind_that_is_not_known_and_not_required_is_left_out() {
    let key = ObjectKey::new("ns", "later");
    let (plan, pieces) = changed(|gateway| gateway["objects"]["ToolPipeline"] = serde_json::json!([key]));
    assert!(same(&plan, &Plan { revision: plan.revision.clone(), ..joined(&pieces).unwrap() }));
}

#[test]
fn a_plan_of_format_1_is_read() {
    let (plan, pieces) = changed(|gateway| {
        gateway["format_version"] = 1.into();
        let objects = gateway.as_object_mut().unwrap().remove("objects").unwrap();
        for (list, kind) in [("upstreams", "MCPUpstream"), ("plugins", "Plugin"), ("chains", "PluginChain")] {
            gateway[list] = objects[kind].clone();
        }
    });
    let read = joined(&pieces).unwrap();
    assert_eq!(read.format_version, 1);
    let (format_version, revision) = (plan.format_version, plan.revision.clone());
    assert!(same(&plan, &Plan { format_version, revision, ..read }));
}

#[test]
fn a_piece_of_code_holds_the_texts_whose_digests_begin_alike() {
    let code = ["00aa", "00ab", "01aa", "ffaa", "ffab"].map(|digest| (digest.to_owned(), "x".to_owned())).into();
    let held = split_code(&code).into_iter().map(|piece| {
        let texts: BTreeMap<String, String> = read(piece.kind, &piece.json).unwrap();
        (piece.bucket, texts.into_keys().collect::<Vec<_>>())
    });
    let expected = [(0, &["00aa", "00ab"][..]), (1, &["01aa"]), (255, &["ffaa", "ffab"])];
    let expected = expected.map(|(bucket, digests)| (bucket, digests.iter().map(|d| (*d).to_owned()).collect()));
    assert_eq!(held.collect::<Vec<_>>(), expected);
}
