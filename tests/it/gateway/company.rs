//! The network of a company: authorities of its own, certificates of clients, and a forward proxy that asks for a password.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::collector::{Collector, Receiver};
use super::harness::{Folder, Gateway, SOON};
use super::http::Http;
use super::parts::{announced, logged, object, plugin, raw_http, raw_stdio, tools_of, until};
use crate::fixtures::{fixture, node_module, python};
use crate::upstream::Running;

/// The password of the proxy, as it is and as it stands in a URL.
const PASSWORD: [&str; 2] = ["pass@word", "pass%40word"];

/// A folder of certificates (`fixtures/certificates.py`).
pub(super) struct Certificates(Folder);

impl Certificates {
    pub(super) fn new() -> Self {
        let folder = Folder::new();
        let made = Command::new(python()).arg(fixture("certificates.py")).arg(folder.path()).status();
        assert!(made.unwrap().success());
        Self(folder)
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(super) fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap()
    }

    /// A TLS server with this certificate in front of `port`, and its port.
    fn server(&self, name: &str, port: &str, authority: Option<&str>) -> (Running, u16) {
        let mut command = Command::new("node");
        command.arg(fixture("servers/tls.mjs")).arg(self.path(&format!("{name}.key")));
        command.arg(self.path(&format!("{name}.pem"))).arg(port).args(authority.map(|file| self.path(file)));
        let (running, url) = announced(command);
        (running, port_of(&url).parse().unwrap())
    }

    /// A Secret of type kubernetes.io/tls with this certificate.
    fn secret(&self, name: &str, certificate: &str) -> String {
        let data = json!({
            "tls.crt": self.text(&format!("{certificate}.pem")), "tls.key": self.text(&format!("{certificate}.key")),
        });
        data_object("Secret", name, "stringData", &data)
    }

    fn authorities(&self, name: &str, file: &str) -> String {
        data_object("ConfigMap", name, "data", &json!({"ca.crt": self.text(file)}))
    }
}

fn data_object(kind: &str, name: &str, field: &str, data: &Value) -> String {
    format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n{field}: {data}\n")
}

fn port_of(url: &str) -> &str {
    url.rsplit(':').next().unwrap().split('/').next().unwrap()
}

/// An upstream at a URL with these certificates.
fn upstream(name: &str, url: &str, tls: &Value) -> String {
    object("MCPUpstream", name, &format!("external: {{url: {url:?}, tls: {tls}}}"))
}

/// What a call of the upstream's tool `args` answers: the text, or the message of the error.
async fn answer(gateway: &Gateway, upstream: &str) -> String {
    let answer = Http::new().call(&gateway.url_of(upstream), "args", &json!({"a": 1}), &json!({})).await;
    let text = answer["result"]["content"][0]["text"].as_str().or_else(|| answer["error"]["message"].as_str());
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Waits until a call of the upstream has an answer with these words.
async fn until_answer(gateway: &Gateway, upstream: &str, words: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let last = answer(gateway, upstream).await;
        if last.contains(words) {
            return;
        }
        assert!(Instant::now() < deadline, "{upstream} does not answer {words:?}: {last}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the log says with these words why the upstream cannot be used.
fn is_down(gateway: &Gateway, upstream: &str, words: &str) {
    gateway
        .logged(|line| line["upstream"] == upstream && line["message"].as_str().is_some_and(|it| it.contains(words)));
}

/// What the TypeScript SDK alone gets from the server, if it trusts these authorities.
fn direct(url: &str, authorities: &Path) -> bool {
    let mut client = Command::new("node");
    client.arg(fixture("clients/ts_client.mjs")).args(["--url", url, "--mode", "legacy"]);
    client.env("NODE_EXTRA_CA_CERTS", authorities).stdin(std::process::Stdio::null());
    let printed = client.output().unwrap().stdout;
    String::from_utf8_lossy(&printed).contains(r#""connected":true"#)
}

const ARGUMENTS: &str = r#"{"a":1}"#;

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one list of upstreams and their ends")]
async fn authorities_of_a_company_are_trusted_where_they_are_named() {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    let (_server, url) = raw_http(&folder.path().join("log"));
    let (_tls, port) = certificates.server("server", port_of(&url), None);
    let (_named, of_name) = certificates.server("named", port_of(&url), None);
    let at = |port: u16| format!("https://127.0.0.1:{port}/mcp");
    let authority = |name: &str| json!({"caRef": {"name": name, "key": "ca.crt"}});
    let secret = json!({"caRef": {"kind": "Secret", "name": "both", "key": "ca.crt"}});
    let named = json!({"caRef": {"name": "both", "key": "ca.crt"}, "serverName": "name.corp.test"});
    let manifests = [
        upstream("system", &at(port), &json!({})),
        upstream("bundle", &at(port), &authority("both")),
        upstream("secret", &at(port), &secret),
        upstream("other", &at(port), &authority("other")),
        upstream("unnamed", &at(of_name), &authority("both")),
        upstream("named", &at(of_name), &named),
        upstream("missing", &at(port), &authority("none")),
        upstream("empty", &at(port), &authority("empty")),
        certificates.authorities("both", "both.pem"),
        data_object("ConfigMap", "empty", "data", &json!({"ca.crt": "hunter2"})),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let secrets = |name: &str| data_object("Secret", "both", "stringData", &json!({"ca.crt": certificates.text(name)}));
    folder.write("secret.yaml", &secrets("both.pem"));
    folder.write("other.yaml", &certificates.authorities("other", "other-ca.pem"));
    let gateway = Gateway::start(&folder);
    for name in ["bundle", "secret", "named"] {
        until_answer(&gateway, name, ARGUMENTS).await;
    }
    for (name, words) in [
        ("system", "certificate"),
        ("other", "certificate"),
        ("unnamed", "name.corp.test"),
        ("empty", "caRef: the value has no certificate"),
    ] {
        is_down(&gateway, name, words);
        assert!(!answer(&gateway, name).await.contains(ARGUMENTS), "{name}");
    }
    assert!(answer(&gateway, "missing").await.contains("there is no ConfigMap default/none"));
    assert!(direct(&at(port), &certificates.path("ca.pem")) && !direct(&at(port), &certificates.path("other-ca.pem")));

    // Other authorities take effect like other values.
    folder.write("other.yaml", &certificates.authorities("other", "ca.pem"));
    folder.write("secret.yaml", &secrets("other-ca.pem"));
    until_answer(&gateway, "other", ARGUMENTS).await;
    is_down(&gateway, "secret", "certificate");
}

#[tokio::test]
async fn a_server_gets_the_certificate_of_the_gateway_and_a_new_one_takes_effect() {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    let (_server, url) = raw_http(&folder.path().join("log"));
    let (_tls, port) = certificates.server("server", port_of(&url), Some("ca.pem"));
    let url = format!("https://127.0.0.1:{port}/mcp");
    let shown = json!({"caRef": {"name": "ca", "key": "ca.crt"}, "clientCertificateSecretRef": {"name": "mine"}});
    let manifests = [
        upstream("shows", &url, &shown),
        upstream("nothing", &url, &json!({"caRef": {"name": "ca", "key": "ca.crt"}})),
        certificates.authorities("ca", "ca.pem"),
    ];
    folder.write("manifests.yaml", &manifests.concat());
    folder.write("secret.yaml", &certificates.secret("mine", "client"));
    let gateway = Gateway::start(&folder);
    until_answer(&gateway, "shows", ARGUMENTS).await;
    assert!(!answer(&gateway, "nothing").await.contains(ARGUMENTS));

    folder.write("secret.yaml", &certificates.secret("mine", "stranger"));
    until("the stranger is refused", async || !answer(&gateway, "shows").await.contains(ARGUMENTS)).await;
    let mixed = json!({"tls.crt": certificates.text("client.pem"), "tls.key": certificates.text("stranger.key")});
    folder.write("secret.yaml", &data_object("Secret", "mine", "stringData", &mixed));
    is_down(&gateway, "shows", "clientCertificateSecretRef: tls.crt and tls.key cannot be used");
    folder.write("secret.yaml", &certificates.secret("mine", "client"));
    until_answer(&gateway, "shows", ARGUMENTS).await;
    let key = certificates.text("client.key");
    let line = key.lines().nth(1).unwrap();
    assert!(gateway.log().iter().all(|logged| !logged.contains(line)));
}

/// A forward proxy that writes a log, and its URL with this password.
struct ForwardProxy {
    _running: Running,
    address: String,
    log: PathBuf,
}

impl ForwardProxy {
    fn start(folder: &Folder) -> Self {
        node_module("proxy-chain/package.json");
        let log = folder.path().join("proxy.log");
        let mut command = Command::new("node");
        command.arg(fixture("servers/forward-proxy.mjs")).arg(&log);
        let (running, url) = announced(command);
        Self { _running: running, address: url.strip_prefix("http://").unwrap().to_owned(), log }
    }

    fn url(&self, password: &str) -> String {
        format!("http://gateway:{password}@{}", self.address)
    }

    /// How many requests with these words it took.
    fn took(&self, words: &str) -> usize {
        logged(&self.log, words)
    }
}

/// A gateway that shows nobody the password of its proxy.
async fn keeps_the_password(gateway: &Gateway) {
    let http = Http::new();
    let mut said = gateway.log().concat();
    for page in ["api/v1/plan", "api/v1/upstreams", "metrics"] {
        said += &http.get(&format!("http://{}/{page}", gateway.admin())).await.body;
    }
    let secrets = [&PASSWORD[..], &["Z2F0ZXdheTpwYXNzQHdvcmQ="]].concat();
    assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one proxy and the gateways behind it")]
async fn servers_and_traces_are_reached_through_a_proxy() {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    let (proxy, receiver) = (ForwardProxy::start(&folder), Receiver::start().await);
    let (_server, url) = raw_http(&folder.path().join("log"));
    let (_tls, port) = certificates.server("server", port_of(&url), None);
    let plain = format!("http://plain.corp.test:{}/mcp", port_of(&url));
    let tracing = json!({
        "endpoint": format!("http://otlp.corp.test:{}", port_of(&receiver.url)), "protocol": "HTTP", "samplePercent": 100,
    });
    let manifests = |tracing: &Value| {
        let gateway = format!("authentication: {{anonymous: {{}}}}, telemetry: {{tracing: {tracing}}}");
        [
            object("MCPGateway", "main", &gateway),
            upstream("https", &format!("https://mcp.corp.test:{port}/mcp"), &json!({})),
            object("MCPUpstream", "plain", &format!("external: {{url: {plain:?}}}")),
            object("MCPUpstream", "here", &format!("external: {{url: {url:?}}}")),
            object("MCPUpstream", "direct", &format!("external: {{url: {:?}}}", plain.replace("plain", "direct"))),
        ]
        .concat()
    };
    folder.write("manifests.yaml", &manifests(&tracing));
    let trusted = certificates.path("both.pem").to_str().unwrap().to_owned();
    let with = |password: &str| {
        let proxy = proxy.url(password);
        let variables =
            [("HTTPS_PROXY", proxy.clone()), ("http_proxy", proxy), ("NO_PROXY", "direct.corp.test".into())];
        let more = [("SSL_CERT_FILE", trusted.clone()), ("OTEL_BSP_SCHEDULE_DELAY", "50".into())];
        [&variables[..], &more[..]].concat()
    };
    let start = |variables: &[(&str, String)]| {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Gateway::start_in(&folder, &[], &variables)
    };
    let gateway = start(&with(PASSWORD[1]));
    for name in ["https", "plain", "here"] {
        until_answer(&gateway, name, ARGUMENTS).await;
    }
    // The proxy alone resolves the names.
    is_down(&gateway, "direct", "dns error");
    assert!(proxy.took(&format!("CONNECT mcp.corp.test:{port}")) > 0);
    assert!(proxy.took("POST plain.corp.test") > 0 && proxy.took("CONNECT plain.corp.test") == 0);
    assert_eq!((proxy.took("direct.corp.test"), proxy.took("127.0.0.1")), (0, 0));
    until("a span arrives", async || receiver.spans().iter().any(|span| span.kind == 2)).await;
    assert!(proxy.took("POST otlp.corp.test") > 0);
    keeps_the_password(&gateway).await;
    drop(gateway);

    // OTLP over gRPC is HTTP/2, of which the proxy relays the bytes.
    let collector = Collector::start().await;
    folder.write(
        "manifests.yaml",
        &manifests(&json!({
            "endpoint": format!("http://grpc.corp.test:{}", collector.port()), "protocol": "GRPC", "samplePercent": 100,
        })),
    );
    let gateway = start(&with(PASSWORD[1]));
    until_answer(&gateway, "here", ARGUMENTS).await;
    until("a span arrives", async || collector.receiver.spans().iter().any(|span| span.kind == 2)).await;
    assert!(proxy.took("CONNECT grpc.corp.test") > 0);
    drop(gateway);

    let gateway = start(&with("wrong"));
    let refused = format!("the proxy {} (HTTPS_PROXY) answered HTTP 407", proxy.address);
    is_down(&gateway, "https", &refused);
    drop(gateway);
    let gateway = start(&[("HTTPS_PROXY", "https://gateway:pass@word@proxy".into())]);
    is_down(&gateway, "https", "HTTPS_PROXY is not the URL of an HTTP proxy");
    until_answer(&gateway, "here", ARGUMENTS).await;
    keeps_the_password(&gateway).await;
}

/// A module that fetches the URL in the arguments, and puts the answer or the code of the error in their place.
const FETCHES: &str = "export default async ({ rawContent }) => {
    const said = async ({ url }) => (await fetch(url)).text();
    const note = await said(JSON.parse(rawContent)).catch((error) => String(error.cause?.code ?? error.cause ?? error));
    return { text: JSON.stringify({ note }), continue: true };
};";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one proxy and the gateways behind it")]
async fn plugins_reach_their_hosts_through_a_proxy_and_no_others() {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    let proxy = ForwardProxy::start(&folder);
    let (_tls, port) = certificates.server("server", "0", None);
    let mut manifests = String::new();
    for (name, egress) in [("listed", format!("api.corp.test:{port}")), ("any", format!("*:{port}"))] {
        manifests += &raw_stdio(name, &folder.path().join(name));
        manifests += &plugin(name, FETCHES, &format!("egress: [{egress:?}]"));
        let entries = format!("entries: [{{name: {name}, failurePolicy: Fail}}]");
        let spec = format!("phase: Request, upstreams: {{names: [{name}]}}, {entries}");
        manifests += &object("PluginChain", name, &spec);
    }
    folder.write("manifests.yaml", &manifests);
    let (url, trusted) = (proxy.url(PASSWORD[1]), certificates.path("both.pem"));
    let trusted = trusted.to_str().unwrap();
    let gateway = Gateway::start_in(&folder, &[], &[("HTTPS_PROXY", &url), ("SSL_CERT_FILE", trusted)]);
    tools_of(&gateway, &["listed", "any"]).await;
    let http = Http::new();
    let fetch = async |plugin: &str, host: &str| {
        let url = format!("https://{host}:{port}/");
        let answer = http.call(&gateway.url(), &format!("{plugin}__args"), &json!({"url": url}), &json!({})).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str::<Value>(text).unwrap()["note"].as_str().unwrap().to_owned()
    };
    assert_eq!(fetch("listed", "api.corp.test").await, "hello api.corp.test");
    assert_eq!(fetch("any", "mcp.corp.test").await, "hello mcp.corp.test");
    let taken = proxy.took("CONNECT");
    assert!(taken >= 2);
    // The rules are those of connections without a proxy, as far as the text of the host says it.
    assert_eq!(fetch("listed", "mcp.corp.test").await, "EACCES");
    for host in
        ["127.0.0.1", "localhost", "10.0.0.7", "169.254.169.254", "[fd00::1]", "metadata.google.internal", "llm"]
    {
        assert_eq!(fetch("any", host).await, "EACCES", "{host}");
    }
    assert_eq!(proxy.took("CONNECT"), taken);
    // The proxy reaches no such host.
    assert_eq!(fetch("any", "none.example").await, "EHOSTUNREACH");
    keeps_the_password(&gateway).await;
    drop(gateway);

    // Without the proxy nobody resolves the name, and without the authorities nobody trusts the host.
    for (variables, code) in [
        (&[("SSL_CERT_FILE", trusted)], "ENOTFOUND"),
        (&[("HTTPS_PROXY", url.as_str())], "UNABLE_TO_VERIFY_LEAF_SIGNATURE"),
    ] {
        let gateway = Gateway::start_in(&folder, &[], variables);
        tools_of(&gateway, &["listed"]).await;
        let arguments = json!({"url": format!("https://api.corp.test:{port}/")});
        let answer = http.call(&gateway.url(), "listed__args", &arguments, &json!({})).await;
        assert_eq!(answer["result"]["content"][0]["text"], json!({"note": code}).to_string(), "{answer}");
    }
}
