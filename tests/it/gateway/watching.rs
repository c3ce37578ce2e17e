//! How one sees what a gateway does: status, calls, the log, and when an edit is in force.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, hawsepipe, run};
use super::parts::{chain, object, plugin, process, raw_stdio, tools_of, until};
use crate::fixtures::{checkout, program, python};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json_of(arguments: &[&str]) -> Value {
    let output = run(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}{}", out(&output), err(&output)))
}

/// A child that is killed with its value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A plugin of a file that answers this.
fn says(word: &str) -> String {
    format!("export default () => ({{ text: '{word}', continue: true }});")
}

/// A server and a chain of the plugin in `plugins/says.mjs`.
fn saying(folder: &Folder, word: &str) {
    let manifests = [
        raw_stdio("raw", &folder.path().join("log")),
        object("Plugin", "says", "source: {path: says.mjs}"),
        chain("answers", "Response", &["raw"], &["says"]),
    ];
    folder.write("plugins/says.mjs", &says(word));
    folder.write("manifests.yaml", &manifests.concat());
}

#[tokio::test]
async fn status_tells_what_runs_and_what_does_not() {
    let folder = Folder::new();
    saying(&folder, "one");
    folder.write("nowhere.yaml", &process("nowhere", "no-such-program-here".as_ref(), &[]));
    folder.write("wrong.yaml", &object("PluginChain", "wrong", "phase: Response, entries: [{name: nobody}]"));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let admin = gateway.admin();
    let status = || json_of(&["status", "--admin", &admin, "-o", "json"]);
    until("the server that is not there has failed", async || {
        status()["upstreams"].as_array().unwrap().iter().any(|upstream| upstream["error"].is_string())
    })
    .await;
    let told = status();
    assert_eq!((&told["gateway"], &told["stopped"]), (&json!("default/hawsepipe"), &json!(false)), "{told}");
    assert!(told["revision"].as_str().is_some_and(|revision| revision.len() >= 12), "{told}");
    let table = out(&run(&["status", "--admin", &admin]));
    let row = |begin: &str| {
        let found = table.lines().find(|line| line.starts_with(begin));
        found.unwrap_or_else(|| panic!("no row of {begin}: {table}")).to_owned()
    };
    assert!(row("REVISION").contains(&told["revision"].as_str().unwrap()[..12]), "{table}");
    assert!(row("raw ").contains("Connected"), "{table}");
    assert!(row("nowhere ").contains("cannot be started: no-such-program-here"), "{table}");
    assert!(row("default/says ").contains("Enabled"), "{table}");
    assert!(row("default/answers ").contains("raw"), "{table}");
    let is_told = |line: &str| line.contains("/wrong.yaml:5:35: error: PluginChain default/wrong: ");
    assert!(table.lines().any(|line| is_told(line) && line.contains("PluginNotFound")), "{table}");
    assert!(out(&run(&["status", "--admin", &admin, "-o", "wide"])).contains("PROTOCOL"));
}

#[tokio::test]
async fn an_edit_is_in_force_when_wait_returns() {
    let folder = Folder::new();
    saying(&folder, "0");
    // A gateway that is about to start is waited for.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut early = hawsepipe();
    early.args(["wait", "--admin", &free]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut early = Running(early.spawn().unwrap());
    let gateway = Gateway::start_with(&folder, &["--admin", &free]);
    assert!(early.0.wait().unwrap().success());
    tools_of(&gateway, &["raw"]).await;
    let (admin, url) = (gateway.admin(), gateway.url());
    let mut revisions = std::collections::BTreeSet::new();
    for word in ["1", "2", "3", "4"] {
        std::fs::write(folder.path().join("plugins/says.mjs"), says(word)).unwrap();
        let waited = run(&["wait", "--admin", &admin]);
        assert!(waited.status.success(), "{}", err(&waited));
        assert_eq!(out(&run(&["call", "raw__args", "--url", &url])).trim(), word, "{}", out(&waited));
        let status = json_of(&["status", "--admin", &admin, "-o", "json"]);
        let revision = status["revision"].as_str().unwrap().to_owned();
        assert!(out(&waited).contains(&revision[..12]), "{}", out(&waited));
        revisions.insert(revision);
    }
    assert_eq!(revisions.len(), 4, "each edit has a revision of its own");
    std::fs::write(folder.path().join("plugins/says.mjs"), "export default (").unwrap();
    let waited = run(&["wait", "--admin", &admin]);
    assert_eq!(waited.status.code(), Some(1), "{}", out(&waited));
    assert!(out(&waited).ends_with(" is in force, without what the error above is about\n"), "{}", out(&waited));
    assert!(err(&waited).contains("Plugin default/says") && err(&waited).contains("SyntaxError"), "{}", err(&waited));
    assert_eq!(out(&run(&["call", "raw__args", "--url", &url])).trim(), "4");
}

#[tokio::test]
async fn calls_are_listed_followed_and_logged() {
    let folder = Folder::new();
    saying(&folder, "hello");
    let guard = "export default ({ rawContent }) => rawContent.includes('swordfish')
      ? { text: 'no', continue: false, error: 'it says swordfish' } : { text: rawContent, continue: true };";
    let guards = [plugin("guard", guard, "role: Guard"), chain("asks", "Request", &["raw"], &["guard"])];
    folder.write("guard.yaml", &guards.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let (admin, url) = (gateway.admin(), gateway.url());
    assert_eq!(out(&run(&["call", "raw__args", "--url", &url])), "hello\n");
    let mut following = hawsepipe();
    following.args(["calls", "--follow", "--admin", &admin, "-o", "json"]).stdout(Stdio::piped());
    let mut following = Running(following.spawn().unwrap());
    let mut lines = BufReader::new(following.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap()).unwrap();
    let before = next();
    assert_eq!((&before["tool"], &before["outcome"]), (&json!("args"), &json!("ok")), "{before}");
    run(&["call", "raw__args", r#"{"a": "swordfish"}"#, "--url", &url]);
    let denied = next();
    assert_eq!(denied["outcome"], "denied", "{denied}");
    let table = out(&run(&["calls", "--admin", &admin]));
    let rows: Vec<_> = table.lines().collect();
    assert!(rows[0].starts_with("STARTED") && rows.len() == 3, "{table}");
    assert!(rows[1].contains("raw/args") && rows[1].contains("denied") && rows[1].contains("guard:denied"), "{table}");
    assert!(rows[2].contains("ok") && rows[2].contains("guard,says"), "{table}");
    let slip = run(&["calls", "--tool", "agrs", "--admin", &admin]);
    assert!(slip.status.code() == Some(1) && err(&slip).contains("did you mean args?"), "{}", err(&slip));
    let slip = run(&["calls", "--upstream", "rwa", "--admin", &admin]);
    assert!(slip.status.code() == Some(1) && err(&slip).contains("did you mean raw?"), "{}", err(&slip));
    let logged = gateway.logged(|line| line["message"] == "call" && line["outcome"] == "ok");
    assert_eq!((&logged["upstream"], &logged["tool"]), (&json!("raw"), &json!("args")), "{logged}");
    assert_eq!(logged["ran"], "default/guard ran, default/says ran", "{logged}");
    assert!(logged["ms"].as_f64().is_some_and(|ms| ms > 0.0) && logged["level"] == "INFO", "{logged}");
    gateway.logged(|line| line["message"] == "call" && line["outcome"] == "denied");
    let calls: Vec<_> = gateway.log().into_iter().filter(|line| line.contains("\"call\"")).collect();
    assert!(calls.iter().all(|line| !line.contains("swordfish")), "{calls:?}");
}

#[tokio::test]
async fn the_directive_of_the_docs_leaves_out_the_lines_of_calls_and_nothing_else() {
    let docs = std::fs::read_to_string(checkout().join("docs/observability.md")).unwrap();
    let directive = docs.split('`').find_map(|code| code.strip_prefix("HAWSEPIPE_LOG=info,")).expect("docs name one");
    for (directives, has_lines) in [("info", true), (&format!("info,{directive}"), false)] {
        let folder = Folder::new();
        folder.write("manifests.yaml", &raw_stdio("raw", &folder.path().join("log")));
        let gateway = Gateway::start_in(&folder, &[], &[("HAWSEPIPE_LOG", directives)]);
        tools_of(&gateway, &["raw"]).await;
        assert!(run(&["call", "raw__args", "{}", "--url", &gateway.url()]).status.success());
        let calls = || json_of(&["calls", "--admin", &gateway.admin(), "-o", "json"]);
        until("the call is recorded", async || calls()["items"][0]["tool"] == "args").await;
        let lines = gateway.lines();
        assert!(gateway.end().1);
        let lines: Vec<Value> = lines.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_calls: Vec<_> = lines.iter().filter(|line| line["message"] == "call").collect();
        assert_eq!(of_calls.len(), usize::from(has_lines), "{directives}: {lines:?}");
        assert!(of_calls.iter().all(|line| line["target"] == "hawsepipe::call"), "{of_calls:?}");
        assert!(lines.iter().any(|line| line["message"] == "plan in force"), "{lines:?}");
    }
}

#[test]
fn a_log_level_that_does_not_exist_is_refused() {
    let folder = Folder::with(&raw_stdio("raw", "/dev/null".as_ref()));
    let mut started = hawsepipe();
    started.args(["run", "-f", folder.path().to_str().unwrap()]).env("HAWSEPIPE_LOG", "nosuchlevel");
    let output = started.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("Error: HAWSEPIPE_LOG: \"nosuchlevel\" is not a level"), "{}", err(&output));
}

/// A server that says something on its standard error and then is the one of exact bytes.
fn talking(folder: &Folder) -> String {
    let raw = crate::fixtures::fixture("servers/raw.mjs");
    let code = format!("console.error('I am a server');\nawait import({:?});\n", raw.to_str().unwrap());
    folder.write("talking.mjs", &code);
    let script = folder.path().join("talking.mjs");
    let log = folder.path().join("log");
    process("talks", "node".as_ref(), &[script.to_str().unwrap(), "--stdio", "--log", log.to_str().unwrap()])
}

#[test]
fn a_terminal_is_told_where_to_go_and_who_speaks() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &talking(&folder));
    let mut terminal = Command::new(python());
    terminal.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]).arg(program());
    terminal
        .args(["run", "--listen", "0", "--admin", "0", "--state-dir"])
        .arg(folder.state())
        .arg("-f")
        .arg(folder.path())
        .env_remove("HAWSEPIPE_LOG");
    let mut terminal =
        Running(terminal.env("NO_COLOR", "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(terminal.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said: Vec<String> = Vec::new();
    for line in lines.by_ref() {
        said.push(line.trim_end().to_owned());
        if line.starts_with("  Client ") {
            break;
        }
    }
    // Ctrl-C ends the gateway, and with it the terminal.
    terminal.0.stdin.take().unwrap().write_all(b"\x03").unwrap();
    lines.for_each(drop);
    let all = said.join("\n");
    let found = |part: &str| said.iter().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {all}"));
    let greeted = |word: &str| {
        let line = said.iter().find(|line| line.starts_with(word));
        line.unwrap_or_else(|| panic!("{word}: {all}"))
    };
    let url = greeted("  MCP ").split_whitespace().nth(1).unwrap().to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/mcp"), "{all}");
    assert!(greeted("  Serving ").contains("1 upstream, ") && greeted("  Serving ").contains("0 chains"), "{all}");
    assert!(greeted("  Client ").ends_with(&format!("claude mcp add --transport http hawsepipe {url}")), "{all}");
    let server = found("I am a server");
    let (time, rest) = server.split_once(' ').unwrap();
    assert_eq!((time.len(), rest), ("12:34:56.789".len(), "default/talks | I am a server"), "{all}");
    let own = found("plan in force");
    assert!(own.split(' ').nth(1) == Some("INFO"), "{all}");
}

#[tokio::test]
async fn names_are_completed_from_the_gateway_that_runs() {
    let folder = Folder::new();
    saying(&folder, "hello");
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let completed = |words: &str, admin: &str| {
        let script = format!(
            "source <(hawsepipe completion bash)
complete -p hawsepipe >/dev/null || exit 3
words=({words})
COMP_WORDS=(\"${{words[@]}}\") COMP_CWORD=$(( ${{#words[@]}} - 1 )) COMP_TYPE=9
function=$(complete -p hawsepipe | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function hawsepipe \"${{words[-1]}}\" \"${{words[-2]}}\"
printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let folder = program().parent().unwrap().to_owned();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-c", &script])
            .env("PATH", path)
            .env("HAWSEPIPE_ADMIN", admin)
            .output()
            .unwrap();
        assert_eq!(err(&output), "", "{words}");
        out(&output).lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
    };
    let admin = gateway.admin();
    let has = |words: &str, wanted: &str| {
        let found = completed(words, &admin);
        assert!(found.iter().any(|word| word == wanted), "{words}: {found:?}");
    };
    has("hawsepipe stat", "status");
    has("hawsepipe call raw__ar", "raw__args");
    has("hawsepipe explain raw__ex", "raw__exact");
    has("hawsepipe executions --plugin s", "says");
    has("hawsepipe calls --upstream r", "raw");
    has("hawsepipe tools pin r", "raw");
    has("hawsepipe explain raw__exact --method tools/l", "tools/list");
    assert!(completed("hawsepipe call raw__ar", "127.0.0.1:1").iter().all(|word| word.is_empty()), "nobody is there");
}
