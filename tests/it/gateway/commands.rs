//! How commands reach a gateway, and what they do when it, or who reads them, does not answer.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, hawsepipe, run};
use super::http::Http;
use super::parts::{chain, external, plugin, process, raw_stdio, tools_of};
use crate::upstream::fake::{Fake, answer, legacy_or};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server of so many tools, `t0` and on.
fn many_tools(folder: &Folder, count: usize) -> String {
    let code = format!(
        "import {{ createInterface }} from 'node:readline';
const schema = {{ type: 'object' }};
const tools = Array.from({{ length: {count} }}, (_, i) => ({{ name: `t${{i}}`, inputSchema: schema }}));
for await (const line of createInterface({{ input: process.stdin }})) {{
  const {{ id, method, params }} = JSON.parse(line);
  if (id === undefined) continue;
  const results = {{
    initialize: () => ({{ protocolVersion: params.protocolVersion, capabilities: {{ tools: {{}} }},
      serverInfo: {{ name: 'many', version: '1' }} }}),
    'tools/list': () => ({{ tools }}),
    ping: () => ({{}}),
    'tools/call': () => ({{ content: [{{ type: 'text', text: '1.0' }}], structuredContent: {{ z: 1, a: 2 }} }}),
  }};
  const answer = results[method] ? {{ result: results[method]() }} : {{ error: {{ code: -32601, message: 'no' }} }};
  console.log(JSON.stringify({{ jsonrpc: '2.0', id, ...answer }}));
}}"
    );
    folder.write("many.mjs", &code);
    process("many", "node".as_ref(), &[folder.path().join("many.mjs").to_str().unwrap()])
}

#[tokio::test]
async fn lists_are_whole_however_many_pages_they_have() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &many_tools(&folder, 2345));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["many"]).await;
    let admin = gateway.admin();
    let listed = out(&run(&["tools", "--admin", &admin]));
    assert_eq!(listed.lines().filter(|line| line.starts_with("many__t")).count(), 2345);
    let listed: Value = serde_json::from_str(&out(&run(&["tools", "--admin", &admin, "-o", "json"]))).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2345);
    assert!(listed.get("next").is_none());
    let slip = run(&["call", "many__t234", "--url", &gateway.url(), "-o", "json"]);
    let (z, a) = (out(&slip).find("\"z\"").unwrap(), out(&slip).find("\"a\"").unwrap());
    assert!(z < a, "keys have another order than the server gave them: {}", out(&slip));
    let slip = run(&["call", "mnay__t2344", "--url", &gateway.url()]);
    assert!(err(&slip).contains("did you mean many__t2344?"), "{}", err(&slip));
}

#[tokio::test]
async fn a_result_that_cannot_be_read_is_no_success() {
    let result = r#"{"content":[{"type":"text","text":"a"}],"\ud800":1,"isError":true}"#;
    let fake = Fake::start(move |seen| match seen.rpc() {
        "tools/list" => answer(seen, r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#),
        _ => legacy_or(seen, &|seen: &_| answer(seen, result)),
    })
    .await;
    let folder = Folder::with(&external("up", &fake.url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for format in ["text", "json"] {
        let url = gateway.url();
        let called = tokio::task::spawn_blocking(move || run(&["call", "up__echo", "--url", &url, "-o", format]));
        let called = called.await.unwrap();
        assert_eq!(called.status.code(), Some(2), "{}", err(&called));
        assert_eq!(out(&called).contains("ud800"), format == "json", "{}", out(&called));
        assert!(err(&called).contains("the result cannot be read"), "{}", err(&called));
    }
}

#[tokio::test]
async fn addresses_are_taken_as_people_write_them() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &raw_stdio("raw", &folder.path().join("log")));
    let gateway = Gateway::start_with(&folder, &["--listen", "localhost:0", "--admin", ":0"]);
    tools_of(&gateway, &["raw"]).await;
    let (port, admin) = (gateway.address().port(), gateway.admin());
    let admin_port = admin.rsplit(':').next().unwrap().to_owned();
    for url in [format!("{port}"), format!(":{port}"), format!("localhost:{port}"), format!("127.0.0.1:{port}/mcp")] {
        let called = run(&["call", "raw__args", "--url", &url]);
        assert!(called.status.success(), "{url}: {}", err(&called));
    }
    for admin in [admin_port.clone(), format!(":{admin_port}"), format!("http://localhost:{admin_port}/")] {
        let listed = run(&["tools", "--admin", &admin]);
        assert!(listed.status.success() && out(&listed).contains("raw__args"), "{admin}: {}", err(&listed));
    }
    let admin = run(&["call", "raw__args", "--url", &admin_port]);
    assert!(err(&admin).contains("is not an MCP endpoint: it answered with HTTP 404"), "{}", err(&admin));
    let mcp = run(&["tools", "--admin", &port.to_string()]);
    assert!(!mcp.status.success() && err(&mcp).contains("admin API"), "{}", err(&mcp));
}

#[test]
fn what_does_not_answer_is_named_in_time() {
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let asked = ["tools", "workers", "executions"].map(|command| vec![command, "--admin", &address]);
    let explain = vec!["explain", "a__b", "--admin", &address];
    let call = vec!["call", "a__b", "--url", &address];
    for mut arguments in asked.into_iter().chain([explain, call]) {
        arguments.extend(["--timeout", "1"]);
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            err(&output).contains(&address) && err(&output).contains("within 1 s"),
            "{arguments:?}: {}",
            err(&output)
        );
    }
}

/// Runs a command that prints much, with this as its standard output.
fn printing(arguments: &[&str], stdout: Stdio) -> Output {
    hawsepipe().args(arguments).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn a_closed_pipe_ends_quietly_and_a_full_disk_says_so() {
    let commands: [&[&str]; 6] = [
        &["crds"],
        &["completion", "bash"],
        &["--help"],
        &["run", "--help"],
        &["plugin", "types"],
        &["validate", "/no/such/folder", "-o", "json"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = printing(arguments, writer.into());
        assert_eq!(err(&closed), "", "{arguments:?}");
        assert!(
            closed.status.code().is_some_and(|code| code == i32::from(arguments[0] == "validate")),
            "{arguments:?}"
        );
        let full = printing(arguments, OpenOptions::new().write(true).open("/dev/full").unwrap().into());
        assert_eq!(full.status.code(), Some(1), "{arguments:?}");
        assert!(err(&full).starts_with("Error: cannot write to standard output: No space left"), "{}", err(&full));
    }
}

#[test]
fn what_a_flag_cannot_be_is_refused_with_what_it_can() {
    let (empty, range) = ("a value is required for", "is not in 1..");
    let cases: [(&[&str], &str); 8] = [
        (&["call", "a__b", "--max-tokens", "0"], range),
        (&["call", ""], empty),
        (&["calls", "--tool", ""], empty),
        (&["calls", "--limit", "0"], range),
        (&["executions", "--plugin", ""], empty),
        (&["validate", ".", "--gateway", ""], empty),
        (&["plugin", "run", "a.mjs", "--text", "x", "--tool", ""], "write SERVER/TOOL"),
        (&["plugin", "run", "a.mjs", "--text", "x", "--tool", "files/"], "write SERVER/TOOL"),
    ];
    for (arguments, said) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(said), "{arguments:?}: {}", err(&output));
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table for each place of a name")]
async fn unknown_names_get_the_nearest_of_those_that_the_reader_may_know() {
    let folder = Folder::new();
    let withheld =
        raw_stdio("raw", &folder.path().join("log")).replace("process:", "tools: {exclude: [args]}, process:");
    let guard = "export default ({ rawContent }) => ({ text: rawContent, continue: true });";
    folder.write("manifests.yaml", &(withheld + &plugin("guard", guard, "") + &plugin("shout", guard, "")));
    folder.write("slips.yaml", &chain("slips", "Request", &["raw", "rwa", "elsewhere"], &["gaurd", "another"]));
    folder.write("none.yaml", &chain("none", "Request", &["rrw"], &["guard"]));
    let path = folder.path().to_str().unwrap();
    let validated = run(&["validate", path]);
    let said = out(&validated) + &err(&validated);
    for (line, meant) in [
        ("entries[0]: there is no Plugin default/gaurd", Some("guard")),
        ("entries[1]: there is no Plugin default/another", None),
        ("names[1]: there is no upstream \"rwa\"", None),
        ("names[0]: there is no upstream \"rrw\"", Some("raw")),
    ] {
        let found = said.lines().find(|found| found.contains(line));
        assert!(found.is_some(), "{line}: {said}");
        let hint = meant.map(|meant| format!("; did you mean {meant}?"));
        let has_hint = found.is_some_and(|found| found.contains("did you mean"));
        assert!(has_hint == hint.is_some() && hint.is_none_or(|hint| said.contains(&hint)), "{line}: {said}");
    }
    let slip = run(&["plugin", "run", path, "--plugin", "guadr", "--text", "x"]);
    assert!(err(&slip).contains("did you mean guard?"), "{}", err(&slip));
    let slip = run(&["explain", "rwa__exact", "-f", path]);
    assert!(err(&slip).contains("did you mean raw?"), "{}", err(&slip));

    std::fs::remove_file(folder.path().join("slips.yaml")).unwrap();
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let admin = gateway.admin();
    for (arguments, meant) in [
        (&["explain", "raw__exatc", "--admin", &admin][..], "raw__exact"),
        (&["explain", "raw/exatc", "--admin", &admin], "exact"),
        (&["tools", "pin", "rwa", "--admin", &admin], "raw"),
        (&["workers", "--plugin", "shuot", "--admin", &admin], "shout"),
    ] {
        let slip = run(arguments);
        assert!(err(&slip).contains(&format!("did you mean {meant}?")), "{arguments:?}: {}", err(&slip));
    }
    let http = Http::new();
    for (url, name, meant) in [
        (gateway.url(), "raw__exatc", Some("raw__exact")),
        (gateway.url_of("raw"), "exatc", Some("exact")),
        // A client learns no name that is withheld from it.
        (gateway.url(), "raw__agrs", None),
        (gateway.url_of("raw"), "agrs", None),
        (gateway.url(), "raw__args", None),
    ] {
        let answer = http.call(&url, name, &json!({}), &json!({})).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(
            message.split_once("did you mean ").map(|(_, meant)| meant.trim_end_matches('?')),
            meant,
            "{answer}"
        );
    }
}

#[test]
fn an_answer_of_another_service_is_no_gateway_that_stops() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        }
    });
    for command in [&["stop"][..], &["resume"], &["cancel", "x"], &["status"], &["wait"]] {
        let output = run(&[command, &["--admin", &address]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("is not the admin API of a gateway"), "{command:?}: {said}");
    }
}
