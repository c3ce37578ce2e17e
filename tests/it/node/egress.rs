//! Connections of plugins: over the gateway, to the hosts that are listed, and to no other.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use hawsepipe::domain::ports::LinkedPlugin;
use hawsepipe::domain::reason::Reason;
use serde_json::{Value, json};

use super::{Code, Rig, module, once};
use crate::upstream::{Running, tls};

const CONNECTIONS: &str = "hawsepipe_plugin_connections_total";
const BYTES: &str = "hawsepipe_plugin_connection_bytes_total";

/// Answers with the method and the length of what it got; `/to/URL` leads on to the URL, `/hang` never answers, `/much/N`
/// is N bytes. Prints its port, and `closed` whenever a connection is closed.
const SERVER: &str = r"
    const server = require('node:http').createServer((request, response) => {
        let length = 0;
        request.on('data', (d) => length += d.length).on('end', () => {
            const [, verb, rest] = /^\/(\w*)\/?(.*)$/.exec(request.url);
            if (verb === 'hang') return;
            if (verb === 'to') return response.writeHead(307, { location: rest }).end();
            if (verb === 'much') return response.end('x'.repeat(Number(rest)));
            response.end(`${request.method} ${length}`);
        });
    });
    server.on('connection', (s) => s.on('close', () => console.log('closed')));
    server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";

/// Fetches each URL of the JSON list that is its content: the texts, or the errors' codes.
const FETCH: &str = "export default async ({ rawContent }, ctx) => {
    const results = [];
    for (const [url, init] of JSON.parse(rawContent)) {
        try {
            results.push(await (await ctx.fetch(url, init)).text());
        } catch (error) {
            results.push(error.cause?.code ?? `${error.name}: ${error.message}`);
        }
    }
    return { text: JSON.stringify(results), continue: true };
};";

/// The same as a script, with the platform's own `fetch`.
const FETCH_ONCE: &str = "import { text } from 'node:stream/consumers';
const results = [];
for (const [url, init] of JSON.parse(JSON.parse(await text(process.stdin)).rawContent)) {
    try {
        results.push(await (await fetch(url, init)).text());
    } catch (error) {
        results.push(error.cause?.code ?? `${error.name}: ${error.message}`);
    }
}
console.log(JSON.stringify({ text: JSON.stringify(results), continue: true }));";

struct Server {
    running: Running,
    out: BufReader<std::process::ChildStdout>,
    port: u16,
}

fn server() -> Server {
    let mut command = Command::new("node");
    let mut running = Running(command.args(["-e", SERVER]).stdout(Stdio::piped()).spawn().unwrap());
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    let mut port = String::new();
    out.read_line(&mut port).unwrap();
    Server { running, out, port: port.trim().parse().unwrap() }
}

fn listing(code: Code, entries: &[String]) -> Arc<LinkedPlugin> {
    Code { egress: entries.to_vec(), ..code }.link()
}

async fn fetch(rig: &Rig, plugin: &Arc<LinkedPlugin>, requests: Value) -> Vec<String> {
    let ran = rig.run_for(plugin, &requests.to_string(), 30_000).await;
    serde_json::from_str(&ran.output.unwrap().text).unwrap()
}

#[tokio::test]
async fn a_listed_host_is_reached_over_the_gateway() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/", server.port);
    for code in [module(FETCH), once(FETCH_ONCE)] {
        let plugin = listing(code, &[format!("127.0.0.1:{}", server.port)]);
        let rig = Rig::with(&[&plugin]).await;
        let large = "x".repeat(3_000_000);
        let requests = json!([[url], [url, {"method": "POST", "body": large}], [format!("{url}much/3000000")]]);
        let got = fetch(&rig, &plugin, requests).await;
        assert_eq!(got[..2], ["GET 0", "POST 3000000"]);
        assert_eq!(got[2].len(), 3_000_000);
        assert!(rig.counted(CONNECTIONS, "outcome=\"opened\"") >= 1.0);
        for direction in ["in", "out"] {
            let bytes = rig.counted(BYTES, &format!("direction=\"{direction}\""));
            assert!((3_000_000.0..3_100_000.0).contains(&bytes), "{direction}: {bytes}");
        }
    }
}

/// By name, by address, by port, by redirect, by a name that resolves to this machine: nothing of it arrives.
#[tokio::test]
async fn no_other_host_is_reached() {
    let (listed, other) = (server(), server());
    let entries =
        [format!("127.0.0.1:{}", listed.port), format!("localhost:{}", other.port), format!("*:{}", other.port)];
    let other_port = other.port;
    for code in [module(FETCH), once(FETCH_ONCE)] {
        let plugin = listing(code, &entries);
        let rig = Rig::with(&[&plugin]).await;
        let requests = json!([
            [format!("http://localhost:{}/", listed.port)],
            ["http://example.com/"],
            ["https://example.com/"],
            ["http://127.0.0.2:80/"],
            ["http://[::1]:80/"],
            [format!("http://127.0.0.1:{}/to/http://127.0.0.2:{}/", listed.port, listed.port)],
            // Listed, and not public: the name, the address under the wildcard, and ways to write it.
            [format!("http://localhost:{other_port}/")],
            [format!("http://127.0.0.1:{other_port}/")],
            [format!("http://[::ffff:127.0.0.1]:{other_port}/")],
            [format!("http://2130706433:{other_port}/")],
            [format!("http://127.0.0.1:{}/to/http://localhost:{other_port}/", listed.port)],
        ]);
        assert_eq!(fetch(&rig, &plugin, requests).await, ["EACCES"; 11]);
        assert_eq!(rig.counted(CONNECTIONS, "outcome=\"not_listed\""), 6.0);
        assert_eq!(rig.counted(CONNECTIONS, "outcome=\"not_public\""), 5.0);
        let opened = rig.counted(CONNECTIONS, "outcome=\"opened\"");
        assert!((1.0..=2.0).contains(&opened), "{opened} connections for two redirects");
    }
    let Server { mut running, mut out, .. } = other;
    running.0.kill().unwrap();
    let mut line = String::new();
    assert_eq!(out.read_line(&mut line).unwrap(), 0, "the other server was connected to: {line}");
}

#[tokio::test]
async fn a_plugin_that_lists_nothing_is_told_so() {
    let plugin = module(FETCH).link();
    let rig = Rig::with(&[&plugin]).await;
    let got = fetch(&rig, &plugin, json!([["http://127.0.0.1/"]])).await;
    assert_eq!(got, ["TypeError: this plugin lists no egress, so it may not reach 127.0.0.1"]);
}

/// The global `fetch` of Node.js says by itself no more than that it failed.
#[tokio::test]
async fn a_plugin_that_lists_nothing_and_fetches_all_the_same_is_told_what_to_do() {
    let told = "the plugin lists no egress: add \"example.com:443\" to spec.egress";
    let thrown = module("export default async () => { await fetch('https://example.com/'); };").link();
    let rig = Rig::with(&[&thrown]).await;
    let failure = rig.failure(&thrown, "").await;
    assert!(failure.full().contains(told), "{failure:?}");
    let caught = "try { await fetch('https://example.com/'); } catch ({ cause }) { text = cause.message; }";
    for plugin in [
        module(&format!("export default async () => {{ let text; {caught} return {{ text, continue: true }}; }}")),
        once(&format!(
            "import {{ readFileSync }} from 'node:fs'; readFileSync(0); let text; {caught}
             console.log(JSON.stringify({{ text, continue: true }}));"
        )),
    ] {
        let plugin = plugin.link();
        let rig = Rig::with(&[&plugin]).await;
        let text = rig.answer(&plugin, "").await.text;
        assert!(text.contains(told), "{text}");
    }
}

#[tokio::test]
async fn tls_is_the_workers_own() {
    let (running, folder, port) = tls::server();
    let code = |trusted: bool| {
        let mut code = module(
            "import https from 'node:https';
             import tls from 'node:tls';
             const get = (url, agent) => new Promise((resolve, reject) => https.request(url, { agent, method: 'POST' }, (response) => {
                response.on('data', () => {}).on('end', () => resolve(response.statusCode));
             }).on('error', reject).end('{\"id\":1}'));
             export default async ({ rawContent }, ctx) => {
                const fetched = await ctx.fetch(rawContent, { method: 'POST', body: '{\"id\":1}' }).then((r) => r.status, (e) => e.cause.code);
                const agent = new https.Agent({ keepAlive: true });
                const got = [await get(rawContent, agent).catch((e) => e.code), await get(rawContent, agent).catch((e) => e.code)];
                const { hostname, port } = new URL(rawContent);
                const authorized = await new Promise((resolve) => {
                    const socket = tls.connect(Number(port), hostname, () => { resolve(socket.authorized); socket.destroy(); });
                    socket.on('error', (e) => resolve(e.code));
                });
                return { text: JSON.stringify([fetched, ...got, authorized]), continue: true };
             };",
        );
        if trusted {
            // A file of its own folder: it can read no other.
            code.folder = Some(folder.path().to_owned());
            code.env.insert("NODE_EXTRA_CA_CERTS", "cert.pem");
        }
        listing(code, &[format!("127.0.0.1:{port}")])
    };
    let url = format!("https://127.0.0.1:{port}/");
    let (trusting, strict) = (code(true), code(false));
    let rig = Rig::with(&[&trusting, &strict]).await;
    assert_eq!(rig.answer(&trusting, &url).await.text, "[200,200,200,true]");
    let refused = rig.answer(&strict, &url).await.text;
    assert_eq!(refused.matches("SELF_SIGNED").count(), 4, "{refused}");
    drop(running);
}

#[tokio::test]
async fn connections_and_bytes_of_a_call_are_bounded() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let plugin = listing(
        module(
            "import net from 'node:net';
             const open = (url) => new Promise((resolve) => {
                const socket = net.connect({ host: url.hostname, port: url.port });
                socket.on('connect', () => resolve(socket)).on('error', (e) => resolve(e.code));
             });
             export default async ({ rawContent }, ctx) => {
                const [what, url] = JSON.parse(rawContent);
                if (what === 'many') {
                    const opened = await Promise.all(Array.from({ length: 40 }, () => open(new URL(url))));
                    const refused = opened.filter((socket) => socket === 'EMFILE').length;
                    for (const socket of opened) if (typeof socket !== 'string') socket.destroy();
                    return { text: String(refused), continue: true };
                }
                const response = await ctx.fetch(url);
                let length = 0;
                try {
                    for await (const chunk of response.body) length += chunk.length;
                } catch (error) {
                    return { text: `${error.cause?.code} ${length > 60e6 && length <= 64 * 1024 * 1024}`, continue: true };
                }
                return { text: String(length), continue: true };
             };",
        ),
        &[format!("127.0.0.1:{}", server.port)],
    );
    let rig = Rig::with(&[&plugin]).await;
    let run = async |what: &str, url: String| rig.answer(&plugin, &json!([what, url]).to_string()).await.text;
    assert_eq!(run("many", url.clone()).await, "8");
    assert_eq!(rig.counted(CONNECTIONS, "outcome=\"too_many\""), 8.0);
    // They are counted out again, and each call has its own share of bytes.
    assert_eq!(run("many", url.clone()).await, "8");
    for _ in 0..2 {
        assert_eq!(run("much", format!("{url}much/40000000")).await, "40000000");
    }
    assert_eq!(run("much", format!("{url}much/80000000")).await, "EMSGSIZE true");
    assert_eq!(rig.counted(CONNECTIONS, "outcome=\"too_large\""), 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_ends_with_its_worker_and_a_forged_frame_ends_all() {
    let mut server = server();
    let entry = [format!("127.0.0.1:{}", server.port)];
    let hang = json!([[format!("http://127.0.0.1:{}/hang", server.port)]]).to_string();
    let plugin = listing(module(FETCH), &entry);
    let rig = Rig::with(&[&plugin]).await;
    // Its signal ends the fetch before the deadline, so the worker lives.
    let ran = rig.run_for(&plugin, &hang, 1000).await;
    assert_eq!(ran.output.unwrap().text, r#"["TimeoutError: The call is near its deadline"]"#);
    closed(&mut server);
    let stubborn = listing(
        module("export default async ({ rawContent }) => { await fetch(JSON.parse(rawContent)[0][0]); };"),
        &entry,
    );
    rig.prepare(&[&plugin, &stubborn], &super::runtime()).await;
    assert_eq!(rig.run_for(&stubborn, &hang, 500).await.output.unwrap_err().reason, Reason::Timeout);
    closed(&mut server);

    for forged in [
        "Buffer.from([0, 0, 0, 0x3f, 0, 0, 0, 0])",
        "Buffer.from([0, 0, 0, 12, 255, 255, 255, 255])",
        "Buffer.alloc(8)",
    ] {
        let code = format!(
            "import {{ writeSync }} from 'node:fs';
             export default async ({{ rawContent }}) => {{
                const [[url]] = JSON.parse(rawContent);
                const hangs = fetch(url).catch((e) => e.cause.code);
                await new Promise((resolve) => setTimeout(resolve, 100));
                writeSync(4, {forged});
                return {{ text: await hangs, continue: true }};
             }};"
        );
        let plugin = listing(module(&code), &entry);
        let rig = Rig::with(&[&plugin]).await;
        assert_eq!(rig.answer(&plugin, &hang).await.text, "ECONNRESET", "{forged}");
        closed(&mut server);
    }
}

/// Waits until the server has seen a connection close.
fn closed(server: &mut Server) {
    let mut line = String::new();
    server.out.read_line(&mut line).unwrap();
    assert_eq!(line, "closed\n");
}
