//! Guards that pods cannot load. If the newest code throws while it is loaded, the form before it guards on, in a pod that
//! is started anew too. If no form was ever loaded, the chain says that it refuses, and why.

use serde_json::{Value, json};

use super::harness::{Operated, condition, object};
use super::pods::Served;
use super::whole::{objects, says};
use crate::gateway::process::Folder;
use crate::harness::until;

/// The guard with code that parses, and throws while it is loaded.
fn throws(word: &str) -> Value {
    let code = format!("throw new Error('{word}');\nexport default ({{ rawContent }}) => ({{ text: rawContent }});");
    object("Plugin", "say", &json!({"source": {"inline": code}, "role": "Guard"}))
}

async fn until_refused(served: &Served<'_>) {
    until("the call is refused", async || {
        let answer = served.gateway.call("up__whoami").await;
        answer.expect_err("it is unguarded").contains("NotLoaded").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_guard_that_cannot_be_loaded_leaves_the_form_before_it_in_new_pods_too() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let mut served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_condition("plugins", "say", "Programmed", "True Programmed").await;

    operated.apply(&[throws("not today")]).await;
    let message = operated.until_condition("plugins", "say", "Accepted", "False NotLoaded").await;
    assert!(message.contains("not today"), "{message}");
    operated.until_condition("plugins", "say", "Programmed", "False PreviousRevision").await;
    operated.until_condition("pluginchains", "answers", "PartiallyInvalid", "True PreviousRevision").await;
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");

    served.restart(&[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_condition("plugins", "say", "Accepted", "False NotLoaded").await;

    operated.apply(&[says("two")]).await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
    operated.until_condition("plugins", "say", "Ready", "True Ready").await;
}

#[tokio::test]
async fn a_guard_that_was_never_loaded_refuses_and_says_so() {
    let operated = Operated::start().await;
    let mut all = objects().await;
    all[2] = throws("not ever");
    operated.apply(&all).await;
    let served = operated.serve("main", &[]).await;
    until_refused(&served).await;
    let message = operated.until_condition("plugins", "say", "Accepted", "False NotLoaded").await;
    assert!(message.contains("not ever"), "{message}");
    until_refusing(&operated, &["say: ", "not ever", "(NotLoaded)"]).await;
    operated.until_event("PluginChain", "answers", "Warning GuardUnavailable").await;
    let words = served.gateway.report().await.refusing;
    let explained = served.gateway.get("/api/v1/explain?tool=up__whoami").await.text;
    let shown = served.gateway.get("/api/v1/chains").await.text;
    for text in [words[0].message.as_str(), &explained, &shown] {
        assert!(text.contains("not ever"), "{text}");
    }

    operated.apply(&[says("one")]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_condition("plugins", "say", "Ready", "True Ready").await;
    until_not_refusing(&operated).await;
}

#[tokio::test]
async fn a_guard_whose_file_pods_do_not_accept_has_their_reason_and_words() {
    let (operated, files) = (Operated::start().await, Folder::new());
    let mut all = objects().await;
    all[0]["spec"]["plugins"] = json!({"pluginDir": files.path()});
    all[2] = object("Plugin", "say", &json!({"source": {"path": "say.js"}, "role": "Guard"}));
    operated.apply(&all).await;
    let served = operated.serve("main", &[]).await;
    until_refused(&served).await;
    let message = operated.until_condition("plugins", "say", "ResolvedRefs", "False FileNotFound").await;
    assert!(message.contains("spec.source.path: ") && message.contains("say.js cannot be read"), "{message}");
    operated.until_condition("plugins", "say", "Programmed", "False NotLoaded").await;
    let status = operated.object("plugins", "say").await["status"].clone();
    assert!(condition(&status, "CrashLooping").is_none(), "{status:#}");
    until_refusing(&operated, &["say: its code is not accepted", "say.js cannot be read", "(FileNotFound)"]).await;

    files.write("say.js", "export default ({ rawContent }) => ({ text: `one ${rawContent}`, continue: true });");
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_condition("plugins", "say", "Ready", "True Ready").await;
    until_not_refusing(&operated).await;

    files.write("say.js", "export default (");
    let message = operated.until_condition("plugins", "say", "Accepted", "False SyntaxError").await;
    assert!(message.contains("say.js:1:"), "{message}");
    operated.until_condition("plugins", "say", "Programmed", "False PreviousRevision").await;
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");
}

/// Waits until the chain is not ready and the gateway tells of it, because calls are refused, with each of `words`.
async fn until_refusing(operated: &Operated<'_>, words: &[&str]) {
    for (plural, name, condition, is) in [
        ("pluginchains", "answers", "Refusing", "True GuardUnavailable"),
        ("pluginchains", "answers", "Ready", "False GuardUnavailable"),
        ("mcpgateways", "main", "Refusing", "True GuardUnavailable"),
    ] {
        let message = operated.until_condition(plural, name, condition, is).await;
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    // The gateway itself works, so that its READY alone would not show it.
    operated.until_row("mcpgw", "main", &["1/1", "1/1", "1", "1", "1", "0", "True", "Ready", "GuardUnavailable"]).await;
}

/// Waits until chain and gateway are ready, and say no more that calls are refused.
async fn until_not_refusing(operated: &Operated<'_>) {
    for (plural, name) in [("pluginchains", "answers"), ("mcpgateways", "main")] {
        operated.until_condition(plural, name, "Ready", "True Ready").await;
        until("nothing is refused", async || {
            let status = operated.object(plural, name).await["status"].clone();
            condition(&status, "Refusing").is_none().then_some(())
        })
        .await;
    }
}
