//! Results that violate the protocol, or say in two ways what they say: nothing in them is hidden from a Guard.

use super::*;

/// Each result has SECRET in a place where the protocol expects something else.
const MALFORMED: [&str; 10] = [
    r#"{"content":{"type":"text","text":"SECRET"}}"#,
    r#"{"content":"SECRET"}"#,
    r#"{"content":null,"text":"SECRET"}"#,
    r#"{"text":"SECRET"}"#,
    r#"{"content":[{"text":"SECRET"}]}"#,
    r#"{"content":[{"type":7,"text":"SECRET"}]}"#,
    r#"{"content":[{"type":"text","text":{"SECRET":1}}]}"#,
    r#"{"content":[{"type":"text","text":"s"},"SECRET"]}"#,
    r#"{"content":[[{"type":"text","text":"SECRET"}]]}"#,
    r#"{"content":[{"type":"text","text":"s"}],"isError":"SECRET"}"#,
];

/// Returns what a client receives of this result if a Guard with this script checks it, and what the Guard saw.
async fn guarded(script: &str, result: &str) -> (String, Vec<String>) {
    let mut inputs = bare();
    scripts(&mut inputs, "r", Phase::Response, &[(Role::Guard, script)]);
    let engine = start(&inputs).await;
    *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(result)));
    let text = call_as(&engine, &caller(Era::Legacy), "{}", None, &Heard::default()).await;
    let ran = engine.plugins.ran.lock().unwrap().clone();
    (text, ran)
}

#[tokio::test]
async fn where_nothing_acts_it_passes_and_a_guard_sees_it_whole() {
    for result in MALFORMED {
        let passed = format!(r#"{{"result":{result}}}"#);
        let engine = start(&bare()).await;
        *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(result)));
        assert_eq!(call_as(&engine, &caller(Era::Legacy), "{}", None, &Heard::default()).await, passed);
        let (text, saw) = guarded("same", result).await;
        assert_eq!((text, saw), (passed, vec![format!("r0 <- {result}")]));
    }
}

#[tokio::test]
async fn a_guard_that_takes_something_out_of_it_has_to_make_it_valid() {
    for result in MALFORMED {
        let (text, _) = guarded(&format!("put {}", result.replace("SECRET", "***")), result).await;
        assert!(text.contains("InvalidOutput") && !text.contains("SECRET"), "{text}");
        let (text, _) = guarded(r#"put {"content":[]}"#, result).await;
        assert_eq!(text, r#"{"result":{"content":[]}}"#);
    }
}

#[tokio::test]
async fn a_guard_sees_and_changes_structured_content_that_is_no_object() {
    const LEGACY: &str = r#"{"result":{"content":[{"type":"text","text":"s"}]}}"#;
    for structured in [r#""SECRET""#, r#"["SECRET"]"#] {
        let result = format!(r#"{{"content":[{{"type":"text","text":"s"}}],"structuredContent":{structured}}}"#);
        assert_eq!(guarded("same", &result).await, (LEGACY.to_owned(), vec![format!("r0 <- {result}")]));
        let masked = result.replace("SECRET", "***");
        assert_eq!(guarded(&format!("put {masked}"), &result).await.0, LEGACY);
        let mut inputs = bare();
        scripts(&mut inputs, "r", Phase::Response, &[(Role::Guard, &format!("put {masked}"))]);
        let engine = start(&inputs).await;
        *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(&result)));
        let modern = call_as(&engine, &caller(Era::Modern), "{}", None, &Heard::default()).await;
        let expected = masked[..masked.len() - 1].to_owned() + r#","resultType":"complete"}"#;
        assert_eq!(modern, format!(r#"{{"result":{expected}}}"#));
    }
}

#[tokio::test]
async fn what_the_text_says_in_escapes_is_not_hidden_in_structured_content() {
    let text = |name: &str| json!({"type": "text", "text": format!(r#"{{"name": "{name}"}}"#)});
    let result = |name: &str, escaped: &str| json!({"content": [text(escaped)], "structuredContent": {"name": name}});
    let (plain, escaped) = (result("Muller", "Muller").to_string(), result("Müller", r"M\u00fcller").to_string());
    assert_eq!(guarded("same", &plain).await.1, [r#"r0 <- {"name": "Muller"}"#]);
    let masked = result("***", "***").to_string();
    let (answer, saw) = guarded(&format!("put {masked}"), &escaped).await;
    assert_eq!((answer, saw), (format!(r#"{{"result":{masked}}}"#), vec![format!("r0 <- {escaped}")]));
}
