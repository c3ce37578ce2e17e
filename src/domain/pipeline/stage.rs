//! The results of plugins of the stages of a planned pipeline (document 004).

use serde::Deserialize;
use serde_json::Value;

use crate::domain::plugin::PluginKind;
use crate::domain::quoted::Quoted;

/// An error that a plugin reports in its result.
#[derive(Deserialize)]
struct ReportedError {
    #[allow(dead_code, reason = "its presence is checked")]
    code: String,
    #[allow(dead_code, reason = "its presence is checked")]
    message: String,
}

/// Returns the functions of plugins of this type, with the statuses that the result of each can have. The first one is that which
/// a stage calls.
pub fn stage_functions(kind: PluginKind) -> &'static [(&'static str, &'static [&'static str])] {
    match kind {
        PluginKind::SdPlugin => &[
            ("detectSeeds", &["success", "unsupported", "error"]),
            ("normalizePersistentContext", &["success", "error"]),
        ],
        PluginKind::KbPlugin => &[
            ("retrieve", &["success", "insufficient", "no-context", "unsupported", "error"]),
            ("onSourceText", &["accepted", "skipped", "error"]),
        ],
        PluginKind::GsPlugin => {
            &[("solve", &["success", "insufficient", "no-context", "unsupported", "needs-decomposition", "error"])]
        }
        PluginKind::ValPlugin => &[("validate", &["accepted", "rejected", "unsupported", "error"])],
        PluginKind::MrpPlanPlugin => &[("buildPlan", &[]), ("recordOutcome", &[])],
        _ => &[],
    }
}

/// Returns the type of plugins that have a function of this name in a stage.
pub fn kind_of_stage_function(function: &str) -> Option<PluginKind> {
    use PluginKind::{GsPlugin, KbPlugin, MrpPlanPlugin, SdPlugin, ValPlugin};
    let kinds = [SdPlugin, KbPlugin, GsPlugin, ValPlugin, MrpPlanPlugin];
    kinds.into_iter().find(|kind| stage_functions(*kind).iter().any(|(name, _)| *name == function))
}

/// Checks the result of a function of a plugin of this type. Members that are not known are left as they are.
///
/// # Errors
/// What is wrong with it, as a message that quotes only the status.
pub fn check_stage_result(kind: PluginKind, function: &str, json: &str) -> Result<(), String> {
    let Some((_, statuses)) = stage_functions(kind).iter().find(|(name, _)| *name == function) else { return Ok(()) };
    if function == "recordOutcome" {
        return Ok(());
    }
    let result: Value = serde_json::from_str(json).map_err(|_| "its result is no JSON".to_owned())?;
    if !result.is_object() {
        return Err("its result is no object".to_owned());
    }
    if kind == PluginKind::MrpPlanPlugin {
        return ["kbPluginOrder", "goalSolverOrder"].iter().try_for_each(|order| check_names(&result, order));
    }
    let status = result["status"].as_str();
    let Some(status) = status.filter(|status| statuses.contains(status)) else {
        let shown = status.map_or_else(|| "it".to_owned(), |status| Quoted(status, 40).to_string());
        return Err(format!("status: {shown} is none of {}", statuses.join(", ")));
    };
    let error = &result["error"];
    if !error.is_null() && ReportedError::deserialize(error).is_err() {
        return Err("error: it is neither null nor {code, message}".to_owned());
    }
    if status != "success" {
        return Ok(());
    }
    match function {
        "detectSeeds" => check_texts(&result, "seeds", &["act", "intent"]),
        "retrieve" => check_texts(&result, "evidence", &["text"]),
        "solve" if !result["responseMarkdown"].is_string() => Err("responseMarkdown: it is no text".to_owned()),
        "normalizePersistentContext" => check_texts(&result, "units", &["text"]),
        _ => Ok(()),
    }
}

/// Checks that a member, if there is one, is a list of texts.
fn check_names(result: &Value, member: &str) -> Result<(), String> {
    let is_names = |list: &Vec<Value>| list.iter().all(Value::is_string);
    match &result[member] {
        Value::Null => Ok(()),
        Value::Array(list) if is_names(list) => Ok(()),
        _ => Err(format!("{member}: it is no list of ids of plugins")),
    }
}

/// Checks that a member is a list of objects with these texts.
fn check_texts(result: &Value, member: &str, texts: &[&str]) -> Result<(), String> {
    let list = result[member].as_array().ok_or_else(|| format!("{member}: it is no list"))?;
    let missing = |(index, item): (usize, &Value)| {
        texts
            .iter()
            .find(|text| !item[**text].is_string())
            .map(|text| format!("{member}[{index}].{text}: it is no text"))
    };
    list.iter().enumerate().find_map(missing).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_shape_of_their_function() {
        use PluginKind::{GsPlugin, KbPlugin, MrpPlanPlugin, SdPlugin, ValPlugin};
        let words = "success, insufficient, no-context, unsupported, error";
        for (kind, function, json, why) in [
            (KbPlugin, "retrieve", r#"{"status":"success","evidence":[{"text":"t"}],"more":1}"#, None),
            (KbPlugin, "retrieve", r#"{"status":"done"}"#, Some(format!("status: \"done\" is none of {words}"))),
            (KbPlugin, "retrieve", "{}", Some(format!("status: it is none of {words}"))),
            (KbPlugin, "retrieve", "[]", Some("its result is no object".into())),
            (
                KbPlugin,
                "retrieve",
                r#"{"status":"success","evidence":[{}]}"#,
                Some("evidence[0].text: it is no text".into()),
            ),
            (
                KbPlugin,
                "retrieve",
                r#"{"status":"error","error":{"code":"X"}}"#,
                Some("error: it is neither null nor {code, message}".into()),
            ),
            (KbPlugin, "onSourceText", r#"{"status":"skipped","error":null}"#, None),
            (SdPlugin, "detectSeeds", r#"{"status":"success","seeds":[{"act":"a","intent":"i"}]}"#, None),
            (SdPlugin, "detectSeeds", r#"{"status":"success"}"#, Some("seeds: it is no list".into())),
            (GsPlugin, "solve", r#"{"status":"needs-decomposition"}"#, None),
            (GsPlugin, "solve", r#"{"status":"success"}"#, Some("responseMarkdown: it is no text".into())),
            (ValPlugin, "validate", r#"{"status":"rejected","reason":"r"}"#, None),
            (
                MrpPlanPlugin,
                "buildPlan",
                r#"{"kbPluginOrder":[1]}"#,
                Some("kbPluginOrder: it is no list of ids of plugins".into()),
            ),
            (MrpPlanPlugin, "recordOutcome", "null", None),
        ] {
            assert_eq!(check_stage_result(kind, function, json).err(), why, "{function} {json}");
        }
    }

    #[test]
    fn each_function_is_that_of_one_type() {
        assert_eq!(kind_of_stage_function("onSourceText"), Some(PluginKind::KbPlugin));
        assert_eq!(kind_of_stage_function("execute"), None);
        for kind in [PluginKind::SdPlugin, PluginKind::GsPlugin, PluginKind::ValPlugin, PluginKind::MrpPlanPlugin] {
            assert_eq!(kind.required_exports()[0][0], stage_functions(kind)[0].0);
        }
    }
}
