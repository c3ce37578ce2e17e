//! The agents that need no plugin, over a stand-in for a model and a server of npm.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::parts::{everything, object, plugin, until};
use super::models::{models, requests, secret, stand_in};
use super::{call, tools};

/// A pipeline with all agents.
const RESEARCH: &str =
    "tool: {name: research, description: A test.}, tools: {include: ['math__*']}, declared: {agents: [
  {name: coordinator, type: coordinator, nextOnSuccess: background},
  {name: background, type: background, nextOnSuccess: planner},
  {name: planner, type: planner, nextOnSuccess: researcher},
  {name: researcher, type: researcher, nextOnSuccess: reflector, config: {maxToolCalls: 2},
   loopCondition: 'plan.steps.exists(s, !has(s.done))', loopBackTo: researcher},
  {name: reflector, type: reflector, nextOnSuccess: synthesizer, config: {adjustGoesTo: planner}},
  {name: synthesizer, type: synthesizer}]}";
/// Finds two sources, and nothing else.
pub(super) const FIND: &str = "export const execute = async (state, { sources }) => {
  await sources.add({ url: 'https://example.com/a', title: 'A' });
  await sources.add({ url: 'https://example.com/b', title: 'B' });
};";

async fn started(folder: &Folder, manifests: &[String], tool: &str) -> Gateway {
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(folder);
    until("the tool is listed", async || {
        let listed = tools(&gateway).await;
        listed.contains(&tool.to_owned()) && (tool != "research" || listed.contains(&"math__get-sum".to_owned()))
    })
    .await;
    gateway
}

/// A pipeline that finds two sources, and writes.
fn writing(more: &str) -> String {
    let agents = "agents: [{name: find, type: custom, plugin: {name: find}, nextOnSuccess: write},
      {name: write, type: synthesizer}]";
    let spec = format!("tool: {{name: write, description: A test.}}, declared: {{startAgent: find, {agents}{more}}}");
    plugin("find", FIND, "type: phase") + &object("ToolPipeline", "write", &spec)
}

/// A report with these texts.
fn report(summary: &str, sources: &Value) -> Value {
    json!({"title": "T", "executive_summary": summary, "sections": [{"title": "S", "content": "c"}], "key_findings": ["k"],
        "sources": sources})
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one run, and all that it shows")]
async fn the_six_agents_research_a_question_with_tools_and_write_a_report() {
    let folder = Folder::new();
    let sum = json!([{"name": "math__get-sum", "arguments": {"a": 2, "b": 3}},
        {"name": "math__get-sum", "arguments": {"a": 20, "b": 30}}]);
    let plan = json!({"title": "P", "hasEnoughContext": false, "steps": [{"id": "s1", "title": "add"}]});
    let (_model, url) = stand_in(
        &folder,
        &json!([
            {"agent": "coordinator", "match": "2 and 2", "json": {"complexity": "simple", "followUpType": "new_topic",
                "isAmbiguous": false, "isSimpleQuery": true, "directResponse": "four"}},
            {"agent": "background", "json": {"summary": "sums", "keyTerms": ["sum"]}},
            {"agent": "planner", "json": plan}, {"agent": "planner", "json": {"title": "P", "hasEnoughContext": true,
                "steps": [{"id": "s2", "title": "check"}]}},
            {"agent": "researcher", "toolCalls": sum},
            {"agent": "researcher", "json": {"observation": "the sums are known", "keyPoints": ["5", "50"]}},
            {"agent": "researcher", "json": {"observation": "checked"}},
            {"agent": "reflector", "json": {"decision": "adjust", "reasoning": "r", "coverageGaps": ["check"]}},
            {"agent": "reflector", "json": {"decision": "complete", "reasoning": "r"}},
            {"agent": "synthesizer", "json": report("5 and 50", &json!([]))},
        ]),
    );
    let spec = format!("{RESEARCH}, {}", models(&url, &["analytical", "complex"]));
    let manifests = [secret(), everything("math"), object("ToolPipeline", "research", &spec)];
    let gateway = started(&folder, &manifests, "research").await;

    let direct = call(&gateway, "research", &json!({"prompt": "2 and 2"})).await;
    assert_eq!(direct["structuredContent"]["executive_summary"], "four", "{direct}");
    assert_eq!(direct["_meta"]["hawsepipe.dev/run"]["steps"].as_array().map(Vec::len), Some(1), "{direct}");

    let answer = call(&gateway, "research", &json!({"prompt": "which sums?"})).await;
    let facts = &answer["_meta"]["hawsepipe.dev/run"];
    let names: Vec<_> = facts["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    let round = ["planner", "researcher", "reflector"];
    let expected = [&["coordinator", "background"][..], &round, &round, &["synthesizer"]].concat();
    assert_eq!(names, expected, "{answer}");
    let mut expected = report("5 and 50", &json!([]));
    expected["metadata"] = json!({});
    assert_eq!(answer["structuredContent"], expected, "{answer}");
    assert_eq!(answer["content"][0]["text"], "# T\n\n5 and 50\n\n## S\n\nc\n\n- k", "{answer}");
    assert_eq!((&facts["toolCalls"], &facts["llmCalls"]), (&json!(2), &json!(10)), "{answer}");

    // The model got the tools and what they answered, and the writer got the observations.
    let sent = requests(&url).await;
    let of = |step: &str| sent.iter().filter(|sent| sent["step"] == step).map(|sent| &sent["body"]).collect::<Vec<_>>();
    let researched = of("researcher");
    let given = researched[0]["tools"].as_array().unwrap();
    assert!(given.iter().any(|tool| tool["function"]["name"] == "math__get-sum"), "{given:?}");
    let results = researched[1]["messages"].to_string();
    assert!(results.contains("The sum of 2 and 3 is 5") && results.contains("50"), "{results}");
    let written = of("synthesizer")[0];
    assert!(written["messages"][1]["content"].as_str().unwrap().contains("the sums are known"), "{written}");
    assert_eq!((&written["max_tokens"], &written["temperature"]), (&json!(8000), &json!(0.7)), "{written}");
    assert_eq!(written["response_format"]["json_schema"]["schema"]["properties"]["sources"], Value::Null);
}

#[tokio::test]
async fn an_agent_fails_whose_model_asks_for_tools_that_it_was_not_given() {
    let folder = Folder::new();
    let asks = json!([{"name": "math__echo", "arguments": {"message": "x"}}]);
    let (_model, url) = stand_in(&folder, &json!([{"toolCalls": asks, "repeat": true}]));
    let agents = "[{name: researcher, type: researcher, config: {maxToolCalls: 1}, nextOnSuccess: write},
      {name: write, type: synthesizer}]";
    let spec = format!(
        "tool: {{name: lost, description: A test.}}, declared: {{startAgent: researcher, agents: {agents}}}, {}",
        models(&url, &["analytical", "complex"])
    );
    let gateway = started(&folder, &[secret(), object("ToolPipeline", "lost", &spec)], "lost").await;
    let answer = call(&gateway, "lost", &json!({"prompt": "x"})).await;
    let text = answer["content"][0]["text"].as_str().unwrap_or_default();
    let expected = "ModelOutputInvalid: step researcher: the model asked for tools that it was not given";
    assert_eq!((&answer["isError"], text), (&json!(true), expected), "{answer}");
}

/// How many outputs invent sources, and how many runs are in progress at a time.
const INVENTED: usize = 1000;
const AT_A_TIME: usize = 8;

#[tokio::test]
async fn sources_of_an_output_are_those_that_the_run_fetched() {
    let folder = Folder::new();
    let invented = json!([{"id": "1", "url": "https://invented.example/1", "title": "invented"}, {"id": "9"}]);
    let outputs: Vec<_> = (0..INVENTED)
        .map(|n| {
            let cites = ["[1] and [9]", "[2][77]", "nothing [123456789012345678901234567890]"][n % 3];
            json!({"match": format!("number {n}\\b"), "json": report(cites, &invented)})
        })
        .collect();
    let (_model, url) = stand_in(&folder, &json!(outputs));
    let manifests = [secret(), writing("").replace("declared:", &format!("{}, declared:", models(&url, &["complex"])))];
    let gateway = started(&folder, &manifests, "write").await;
    let check = async |n: usize| {
        let answer = call(&gateway, "write", &json!({"prompt": format!("number {n}")})).await;
        let output = &answer["structuredContent"];
        let ids = output["sources"].as_array().map(|all| all.iter().map(|it| it["id"].clone()).collect::<Vec<_>>());
        let (ids, text) = (ids.unwrap_or_default(), output["executive_summary"].as_str().unwrap_or_default());
        let expected = [(json!(["1"]), "[1] and "), (json!(["2"]), "[2]"), (json!(["1", "2"]), "nothing ")];
        assert_eq!((json!(ids), text), expected[n % 3], "{answer}");
        assert!(!answer.to_string().contains("invented"), "{answer}");
    };
    for first in (0..INVENTED).step_by(AT_A_TIME) {
        join_all((first..INVENTED.min(first + AT_A_TIME)).map(&check)).await;
    }
}

#[tokio::test]
async fn validation_strict_decides_whether_an_output_that_does_not_fit_is_an_answer() {
    for (more, is_strict) in
        [(", synthesizer: {maxTokens: 50}", true), (", synthesizer: {validationStrict: false}", false)]
    {
        let folder = Folder::new();
        let (_model, url) = stand_in(&folder, &json!([{"json": {"title": "T"}, "repeat": true}]));
        let models = models(&url, &["complex"]);
        let manifests = [secret(), writing(more).replace("declared:", &format!("{models}, declared:"))];
        let gateway = started(&folder, &manifests, "write").await;
        let answer = call(&gateway, "write", &json!({"prompt": "x"})).await;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        if is_strict {
            assert!(text.starts_with("ModelOutputInvalid: step write: "), "{answer}");
            assert_eq!(requests(&url).await[0]["body"]["max_tokens"], 50);
        } else {
            assert_eq!(answer["structuredContent"]["title"], "T", "{answer}");
            assert_eq!(answer["_meta"]["hawsepipe.dev/run"]["validation"]["valid"], false, "{answer}");
        }
        assert_eq!(requests(&url).await.len(), 2, "it is asked for once more");
    }
}

#[tokio::test]
async fn output_format_markdown_makes_the_text_of_a_model_the_answer() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([{"answer": "# A\nrests on [2]", "repeat": true}]));
    let models = models(&url, &["complex"]);
    let manifests = writing(", synthesizer: {outputFormat: markdown, systemPromptAddition: Write for sailors.}");
    let manifests = [secret(), manifests.replace("declared:", &format!("{models}, declared:"))];
    let gateway = started(&folder, &manifests, "write").await;
    let answer = call(&gateway, "write", &json!({"prompt": "x"})).await;
    assert_eq!(answer["content"][0]["text"], "# A\nrests on [2]", "{answer}");
    assert_eq!(answer["structuredContent"]["sources"].as_array().map(Vec::len), Some(1), "{answer}");
    let system = requests(&url).await[0]["body"]["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.ends_with("Write for sailors."), "{system}");
    let wrong = writing(", synthesizer: {outputType: memo, outputFormat: pdf}");
    let done = run(&["validate", Folder::with(&wrong).path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        said.contains("outputType") && said.contains("outputFormat") && said.contains("ModelRoleNotFound"),
        "{said}"
    );
}

#[tokio::test]
async fn get_prompt_overrides_changes_the_system_prompts_and_later_providers_win() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([]));
    let first = "export const getPromptOverrides = () => ({ synthesizer: 'Write for cooks.', planner: 'x' });";
    let second =
        "export const getPromptOverrides = async ({ config }) => ({ synthesizer: { replace: config.words } });";
    let broken = "export const getPromptOverrides = () => { throw new Error('no'); };";
    let models = models(&url, &["complex"]);
    for (providers, expected) in [("one, two, broken", "Only this."), ("two, one", "\n\nWrite for cooks.")] {
        let names: Vec<_> = providers.split(", ").map(|name| format!("{{name: {name}}}")).collect();
        let more = format!(", promptProviders: [{}]", names.join(", "));
        let manifests = [
            secret(),
            plugin("one", first, "type: prompt-provider"),
            plugin("two", second, "type: prompt-provider, config: {words: Only this.}"),
            plugin("broken", broken, "type: prompt-provider"),
            writing(&more).replace("declared:", &format!("{models}, declared:")),
        ];
        let gateway = started(&folder, &manifests, "write").await;
        let answer = call(&gateway, "write", &json!({"prompt": "x"})).await;
        assert_eq!(answer["isError"], Value::Null, "{answer}");
        let sent = requests(&url).await;
        let system = sent.last().unwrap()["body"]["messages"][0]["content"].as_str().unwrap();
        assert!(system.ends_with(expected), "{providers}: {system}");
        let wrong = manifests[4].replace("promptProviders: [{name: ", "promptProviders: [{name: find}, {name: ");
        let done = run(&["validate", Folder::with(&(manifests[..4].concat() + &wrong)).path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(said.contains("WrongType") && said.contains("the field needs one of type prompt-provider"), "{said}");
    }
}
