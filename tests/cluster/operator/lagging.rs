//! A pod that lags: nothing is said to be programmed that is not.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hawsepipe::domain::digest::sha256_hex;

use serde_json::{Value, json};

use super::harness::{Operated, condition, gateway, object};
use super::pods::Served;
use crate::gateway::upstream;
use crate::harness::until;

/// How long `Programmed=True` may be shown while a ready pod runs an older form.
const MOST: Duration = Duration::from_secs(2);
/// How long a poll and its wait last.
const ONE_POLL: Duration = Duration::from_millis(1500);

/// A plugin that takes so many milliseconds to load: a pod runs its older form meanwhile.
fn says(word: &str, load_ms: u32) -> Value {
    let code = format!(
        "await new Promise((loaded) => setTimeout(loaded, {load_ms}));\n\
         export default ({{ rawContent }}) => ({{ text: `{word} ${{rawContent}}`, continue: true }});"
    );
    object("Plugin", "say", &json!({"source": {"inline": code}, "role": "Guard"}))
}

/// What says whether the plugin's form is in force.
const TOLD: [(&str, &str); 3] = [("mcpgateways", "main"), ("plugins", "say"), ("pluginchains", "answers")];

/// A gateway that serves the first form, which is said everywhere.
async fn served() -> (Operated<'static>, Served<'static>) {
    let operated = Operated::start().await;
    let url = upstream::start().await;
    let objects = [
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": {"url": url}, "protocol": {"era": "Legacy"}})),
        says("one", 0),
        object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "say"}]})),
    ];
    operated.apply(&objects).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    all_say_programmed(&operated).await;
    (operated, served)
}

async fn all_say_programmed(operated: &Operated<'_>) {
    for (plural, name) in TOLD {
        operated.until_condition(plural, name, "Programmed", "True Programmed").await;
    }
}

#[tokio::test]
async fn programmed_is_not_shown_for_long_while_a_ready_pod_runs_something_else() {
    let (operated, served) = served().await;
    let edited = says("two", 4000);
    let wanted = sha256_hex(edited["spec"]["source"]["inline"].as_str().unwrap().as_bytes());
    operated.apply(&[edited]).await;
    let (applied, mut late) = (Instant::now(), 0);
    loop {
        let began = Instant::now();
        let mut programmed = Vec::new();
        for (plural, name) in TOLD {
            let (told, _) = condition(&operated.object(plural, name).await["status"], "Programmed").unwrap();
            programmed.extend(told.starts_with("True").then_some(plural));
        }
        // What the pod runs after that, it ran before, or something older.
        if served.gateway.report().await.plugins.iter().any(|plugin| plugin.digest == wanted) {
            break;
        }
        if began > applied + MOST {
            late += 1;
            assert!(programmed.is_empty(), "{programmed:?} say so {:?} after the edit", applied.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(late > 0, "the pod did not lag for {MOST:?}");
    served.gateway.until_answers("up__whoami", "two nobody").await;
    all_say_programmed(&operated).await;
}

#[tokio::test]
async fn programmed_is_not_shown_while_a_ready_pod_does_not_report() {
    let (operated, served) = served().await;
    served.gateway.signal("STOP");
    operated.apply(&[says("two", 0)]).await;
    // False while the pod's last report counts, and Unknown after that.
    until("the edit is not said to be programmed", async || {
        let plugin = operated.object("plugins", "say").await;
        let (told, _) = condition(&plugin["status"], "Programmed")?;
        let current = plugin["status"]["observedGeneration"] == plugin["metadata"]["generation"];
        (current && !told.starts_with("True")).then_some(())
    })
    .await;
    served.gateway.signal("CONT");
    operated.until_condition("plugins", "say", "Programmed", "True Programmed").await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
}

/// Every condition of every object, as `plugins "Ready" "True" "Ready"`.
async fn conditions(operated: &Operated<'_>) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    for plural in ["mcpgateways", "mcpupstreams", "plugins", "pluginchains"] {
        for object in operated.objects(plural).await {
            for found in object["status"]["conditions"].as_array().unwrap() {
                told.insert(format!("{plural} {} {} {}", found["type"], found["status"], found["reason"]));
            }
        }
    }
    told
}

#[tokio::test]
async fn a_pod_that_misses_a_poll_flips_no_condition() {
    let (operated, served) = served().await;
    let other = operated.serve("main", &[]).await;
    operated.until_row("mcpgw", "main", &["2/2", "2/2", "1", "1", "1", "0", "True", "Ready"]).await;
    let told = async || conditions(&operated).await;
    let before = told().await;
    let (mut turns, mut steady, mut flipped) = (0, 0, 0);
    while steady < 3 + 3 * flipped {
        turns += 1;
        assert!(turns <= 20, "in {turns} turns conditions flipped {flipped} times, and did not {steady} times");
        other.gateway.signal("STOP");
        let stopped = Instant::now();
        let mut seen = BTreeSet::new();
        while stopped.elapsed() < ONE_POLL {
            seen.insert(told().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        other.gateway.signal("CONT");
        let is_one_poll = stopped.elapsed() < 2 * ONE_POLL;
        other.gateway.report().await;
        match seen == BTreeSet::from([before.clone()]) {
            true => steady += 1,
            // The operator itself can be late now and then.
            false if is_one_poll => flipped += 1,
            // The machine is busy, and the pod was stopped for more than a poll.
            false => {}
        }
        until("the pod is known to run everything again", async || (told().await == before).then_some(())).await;
    }
    // One that stays silent is not known to run anything.
    other.gateway.signal("STOP");
    for (plural, name) in TOLD {
        operated.until_condition(plural, name, "Programmed", "Unknown Pending").await;
    }
    other.gateway.signal("CONT");
    all_say_programmed(&operated).await;
    drop(served);
}

#[tokio::test]
async fn a_generation_that_is_programmed_is_the_one_that_pods_run() {
    let (operated, served) = served().await;
    for word in ["a", "b", "c", "d", "e", "f"] {
        let edited = says(word, 0);
        let code = edited["spec"]["source"]["inline"].as_str().unwrap();
        operated.apply(std::slice::from_ref(&edited)).await;
        let generation = operated.object("plugins", "say").await["metadata"]["generation"].clone();
        loop {
            let stored = operated.object("plugins", "say").await;
            let conditions = stored["status"]["conditions"].as_array().unwrap();
            let programmed = conditions.iter().find(|condition| condition["type"] == "Programmed").unwrap();
            if programmed["status"] == "True" && programmed["observedGeneration"] == generation {
                break;
            }
        }
        let report = served.gateway.report().await;
        let running: Vec<_> = report.plugins.iter().map(|plugin| plugin.digest.clone()).collect();
        assert_eq!(running, [sha256_hex(code.as_bytes())], "generation {generation} is told as programmed");
    }
}
