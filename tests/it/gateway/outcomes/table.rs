//! Every row of the table of outcomes: one gateway, one server, a tool and a chain for each case.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, HEAVY};
use super::super::http::Http;
use super::super::manifests::{gateway, raw_server, yaml};
use super::acts::plugins;
use super::cases::{self, Case, Expected};
use super::seen::Seen;

/// Calls at once: fewer than a session may have, more than there are cores.
const AT_ONCE: usize = 8;

#[tokio::test]
async fn every_answer_does_what_the_table_says() {
    let _alone = HEAVY.lock().await;
    let cases = cases::all();
    let folder = Folder::new();
    let names: Vec<_> = cases.iter().map(Case::name).collect();
    folder.write("tools.json.txt", &json!(names).to_string());
    let (log, tools) = (folder.path().join("received.txt"), folder.path().join("tools.json.txt"));
    let server = raw_server("up", &["--log", log.to_str().unwrap(), "--also", tools.to_str().unwrap()]);
    // The deadlines of a busy machine are not what is tried here.
    let patient = json!({"plugins": {"queueTimeoutMs": 30_000, "poolSizePerPlugin": 4, "maxConcurrentExecutions": 8}});
    let mut objects = vec![gateway(&patient), server];
    objects.extend(plugins());
    objects.extend(cases.iter().map(Case::chain));
    folder.write("manifests.yaml", &yaml(&objects));

    let running = Gateway::start(&folder);
    let (http, url) = (Http::new(), running.url());
    let answers: Vec<_> = stream::iter(cases)
        .map(|case| {
            let (http, url) = (http.clone(), url.clone());
            async move {
                let meta = json!({"hawsepipe.dev/trace": true});
                let answer = http.call(&url, &format!("up__{}", case.name()), &json!({"m": "a"}), &meta).await;
                (case, answer)
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let seen = Seen::of(&running, &log).await;
    let wrong: Vec<_> = answers.iter().flat_map(|(case, answer)| differences(case, answer, &seen)).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
}

/// Where what happened differs from what the table says.
fn differences(case: &Case, answer: &Value, seen: &Seen) -> Vec<String> {
    let (name, expected) = (case.name(), case.expected());
    let mut found = Vec::new();
    let mut compare = |what: &str, got: Value, want: Value| {
        if got != want {
            found.push(format!("{name}: {what} is {got}, not {want}"));
        }
    };
    let result = &answer["result"];
    compare("the answer", client_gets(result), client_should_get(&expected));
    compare("the trace", traced(&result["_meta"]["hawsepipe.dev/trace"]), should_be_traced(case, &expected));
    let call = seen.calls.get(&name).map_or(Value::Null, |calls| calls[0].clone());
    compare("the call's record", traced(&call["entries"]), should_be_traced(case, &expected));
    compare("what the plugin said", said(seen, &name), json!(case.said()));
    compare("the call's outcome", call["outcome"].clone(), json!(expected.outcome));
    compare("the history", history(seen, &name), should_be_history(case, &expected));
    let counted = seen.counted.get(&format!("default/{name}")).cloned().unwrap_or_default();
    compare("the count", json!(counted), json!(should_be_counted(case, &expected)));
    compare("reaching the upstream", json!(seen.reached.contains(&name)), json!(expected.reached));
    found
}

/// The words that came back, or the text and `_meta` of a call that was ended.
fn client_gets(result: &Value) -> Value {
    let mut meta = result["_meta"].clone();
    meta.as_object_mut().map(|meta| meta.remove("hawsepipe.dev/trace"));
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    match result["isError"] == json!(true) {
        true => json!({"isError": true, "text": text, "meta": meta}),
        false => {
            let content: Value = serde_json::from_str(text).unwrap_or(Value::Null);
            json!({"isError": false, "words": content["m"], "meta": meta})
        }
    }
}

fn client_should_get(expected: &Expected) -> Value {
    match &expected.ended {
        Some((text, meta)) => json!({"isError": true, "text": text, "meta": meta}),
        None => json!({"isError": false, "words": expected.words, "meta": {}}),
    }
}

fn traced(entries: &Value) -> Value {
    let entries = entries.as_array().cloned().unwrap_or_default();
    let traced = entries.iter().map(|e| {
        let mode = e.get("mode").cloned().unwrap_or(json!("Enforce"));
        json!([e["chain"], e["plugin"], e["phase"], e["outcome"], mode, e["changed"]])
    });
    traced.collect()
}

fn should_be_traced(case: &Case, expected: &Expected) -> Value {
    let chain = format!("default/{}", case.name());
    let recorded = expected.recorded.iter();
    recorded.map(|r| json!([chain, r.plugin, case.phase(), r.outcome, r.mode, r.changed])).collect()
}

/// Rows by plugin: status, reason, phase and mode.
fn history(seen: &Seen, tool: &str) -> Value {
    let rows = seen.executions.get(tool).cloned().unwrap_or_default();
    let row = |row: &Value| {
        let told = [&row["status"], &row["reason"], &row["phase"], &row["mode"], &row["chainId"], &row["upstream"]];
        (row["plugin"].as_str().unwrap().to_owned(), json!(told))
    };
    json!(rows.iter().map(row).collect::<BTreeMap<_, _>>())
}

/// The message of the row of a plugin that reported an error.
fn said(seen: &Seen, tool: &str) -> Value {
    let mut rows = seen.executions.get(tool).into_iter().flatten();
    rows.find(|row| row["reason"] == "PluginError").map_or(Value::Null, |row| row["errorMessage"].clone())
}

fn should_be_history(case: &Case, expected: &Expected) -> Value {
    let chain = format!("default/{}", case.name());
    let ran = expected.recorded.iter().filter(|r| !r.outcome.starts_with("skipped"));
    let row = |r: &super::cases::Recorded| {
        let (status, reason) = status(&r.outcome);
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        (r.plugin.clone(), json!([status, reason, case.phase(), r.mode, chain, "up"]))
    };
    json!(ran.map(row).collect::<BTreeMap<_, _>>())
}

/// The history's word for an outcome, and its reason.
fn status(outcome: &str) -> (&str, &str) {
    let (word, inside) = outcome.split_once('(').unwrap_or((outcome, ""));
    match (word, inside.trim_end_matches(')')) {
        ("ran", _) => ("Success", ""),
        ("denied", _) => ("Denied", ""),
        ("failed", "Timeout") => ("Timeout", "Timeout"),
        ("failed", reason) => ("Failed", reason),
        (_, cause) => ("Skipped", cause),
    }
}

fn should_be_counted(case: &Case, expected: &Expected) -> BTreeMap<String, u64> {
    let (phase, mut counted) = (case.phase().to_lowercase(), BTreeMap::new());
    for r in &expected.recorded {
        let (status, reason) = status(&r.outcome);
        let words = [&r.plugin, &phase, &r.mode.to_lowercase(), &status.to_lowercase(), reason].map(String::from);
        *counted.entry(words.join(" ")).or_default() += 1;
    }
    counted
}
