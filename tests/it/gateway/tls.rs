//! Listeners that serve HTTPS: `spec.listeners[].tls`.

use std::net::SocketAddr;

use hawsepipe::transport::{Handshake, ListenerTls, ReplicaTls};
use http_body_util::BodyExt;
use hyper::Method;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::asked::answer;
use super::company::Certificates;
use super::harness::{Folder, Gateway, SOON, hawsepipe, run};
use super::http::{Http, Session};
use super::manifests::{gateway, raw_server, yaml};
use super::parts::{SDKS, asking_http, external, tools_of, until};
use super::replicas::KEY;
use super::spread::{asked, rest};
use crate::upstream::Running;

/// The MCPGateway with a listener of HTTPS, and a server.
fn manifests() -> [Value; 2] {
    [gateway(&json!({"listeners": [listener(8443)]})), raw_server("up", &[])]
}

fn listener(port: u16) -> Value {
    json!({"name": "https", "port": port, "tls": {"certificateSecretRef": {"name": "web"}}})
}

/// The Secret with this certificate, and with the key of this one.
fn secret(certificates: &Certificates, certificate: &str, key: &str) -> String {
    let data = json!({
        "tls.crt": certificates.text(&format!("{certificate}.pem")), "tls.key": certificates.text(&format!("{key}.key")),
    });
    yaml(&[json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": data})])
}

fn folder(certificates: &Certificates) -> Folder {
    let folder = Folder::with(&yaml(&manifests()));
    folder.write("secret.yaml", &secret(certificates, "server", "server"));
    folder
}

fn url(gateway: &Gateway) -> String {
    gateway.url().replace("http://", "https://")
}

/// Whether a client with these authorities reaches the endpoint over a new connection.
async fn reaches(gateway: &Gateway, certificates: &Certificates) -> bool {
    let health = url(gateway).replace("/mcp", "/healthz");
    let answered = Http::trusting(&certificates.path("ca.pem")).try_send(Method::GET, &health, &[], "").await;
    answered.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn spec_listeners_tls_serves_https_and_no_plain_http() {
    let certificates = Certificates::new();
    let folder = folder(&certificates);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    assert!(reaches(&gateway, &certificates).await && !reaches(&gateway, &Certificates::new()).await);
    let plain = Http::new().try_send(Method::GET, &gateway.url().replace("/mcp", "/healthz"), &[], "").await;
    assert!(plain.is_err(), "it answers plain HTTP");
    let authority = certificates.path("ca.pem");
    let mut called = hawsepipe();
    called.args(["call", "up__args", r#"{"a":1}"#, "--url", &url(&gateway)]).env("SSL_CERT_FILE", &authority);
    let called = called.output().unwrap();
    assert!(String::from_utf8_lossy(&called.stdout).contains(r#"{"a":1}"#), "{called:?}");
    for (sdk, variable) in [(SDKS[0], "SSL_CERT_FILE"), (SDKS[3], "NODE_EXTRA_CA_CERTS")] {
        let variables = [(variable, authority.to_str().unwrap())];
        let lines = sdk.run_in(&url(&gateway), &["call", "up__args", r#"{"b":2}"#], "", &variables);
        assert_eq!(lines[0]["result"]["content"][0]["text"], r#"{"b":2}"#, "{sdk:?}: {lines:?}");
    }
    // The admin port stays as it is.
    assert_eq!(Http::new().get(&format!("http://{}/readyz", gateway.admin())).await.status, 200);
}

#[tokio::test]
async fn a_renewed_certificate_is_for_new_connections_and_open_streams_go_on() {
    let (old, new) = (Certificates::new(), Certificates::new());
    let folder = folder(&old);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let session = Http::trusting(&old.path("ca.pem")).initialize(&url(&gateway)).await;
    let headers = [("accept", "text/event-stream"), session.headers()[2], session.headers()[3]];
    let mut stream = session.http.open(Method::GET, &session.url, &headers, "").await;
    assert_eq!(stream.status(), 200);
    folder.write("secret.yaml", &secret(&new, "server", "server"));
    until("new connections have the new certificate", async || reaches(&gateway, &new).await).await;
    assert!(!reaches(&gateway, &old).await);
    // The session goes on over the connections that it has, and its stream says what changes.
    assert_eq!(session.call_raw(1, "up__args", r#"{"c":3}"#).await.status, 200);
    let [main, up] = manifests();
    folder.write("manifests.yaml", &yaml(&[main, up, raw_server("more", &[])]));
    let mut heard = String::new();
    while !heard.contains("notifications/tools/list_changed") {
        let frame = tokio::time::timeout(SOON, stream.frame()).await.expect("it says nothing").expect("it ended");
        heard += &String::from_utf8_lossy(frame.unwrap().data_ref().unwrap());
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_does_not_replace_the_last_one() {
    let certificates = Certificates::new();
    let folder = folder(&certificates);
    let gateway = Gateway::start(&folder);
    let private = certificates.text("client.key").lines().nth(1).unwrap().to_owned();
    let broken = yaml(&[json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"},
        "stringData": {"tls.crt": "none", "tls.key": private}})]);
    let without = yaml(&[json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"},
        "stringData": {"tls.key": private}})]);
    for (secret, words) in [
        (secret(&certificates, "server", "client"), "tls.key is not the key of the first certificate in tls.crt"),
        (broken, "tls.crt has no certificate in PEM form"),
        (without, r#"there is no key "tls.crt" of Secret default/web"#),
    ] {
        folder.write("secret.yaml", &secret);
        let line = gateway.logged(|line| line["message"].as_str().is_some_and(|it| it.contains(words)));
        let message = line["message"].as_str().unwrap();
        for part in ["spec.listeners[0].tls.certificateSecretRef", "Secret default/web", "keeps its last certificate"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(reaches(&gateway, &certificates).await, "{words}");
        let status = run(&["status", "--admin", &gateway.admin()]);
        assert!(String::from_utf8_lossy(&status.stdout).contains(words), "{status:?}");
        let checked = run(&["validate", "--no-load", folder.path().to_str().unwrap()]);
        assert!(!checked.status.success() && String::from_utf8_lossy(&checked.stdout).contains(words), "{checked:?}");
        // There is no last certificate at the start.
        let started = run(&["run", "-f", folder.path().to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(!started.status.success() && said.contains(words) && said.contains("stays closed"), "{said}");
        assert!(!said.contains(&private) && !gateway.log().join("").contains(&private));
    }
    folder.write("secret.yaml", &secret(&certificates, "server", "server"));
    until("nothing is wrong any more", async || run(&["wait", "--admin", &gateway.admin()]).status.success()).await;
}

#[tokio::test]
async fn a_listener_begins_and_ends_to_serve_https_at_its_port() {
    let certificates = Certificates::new();
    let folder = folder(&certificates);
    let gateway = Gateway::start(&folder);
    let health = gateway.url().replace("/mcp", "/healthz");
    let plain = async || Http::new().try_send(Method::GET, &health, &[], "").await.is_ok();
    let [_, up] = manifests();
    let without = super::manifests::gateway(&json!({"listeners": [{"name": "https", "port": 8443}]}));
    folder.write("manifests.yaml", &yaml(&[without, up]));
    until("it serves plain HTTP", plain).await;
    assert!(!reaches(&gateway, &certificates).await);
    folder.write("manifests.yaml", &yaml(&manifests()));
    until("it serves HTTPS", async || reaches(&gateway, &certificates).await).await;
    assert!(!plain().await);
    // A port that begins to ask for a certificate that is not there is not served without it.
    let another =
        json!({"listeners": [{"name": "new", "port": 8443, "tls": {"certificateSecretRef": {"name": "none"}}}]});
    folder.write("manifests.yaml", &yaml(&[super::manifests::gateway(&another), raw_server("up", &[])]));
    until("it is closed", async || !plain().await && !reaches(&gateway, &certificates).await).await;
}

/// Two processes of a gateway, the first of which says that it is at this address, on a server that asks its clients.
async fn replicas(certificates: &Certificates, advertised: &str) -> (Vec<Gateway>, (Folder, Folder, Running)) {
    let (folder, keys) = (Folder::new(), Folder::new());
    let (server, asking) = asking_http(&folder.path().join("log"));
    let main = yaml(&[gateway(&json!({"listeners": [listener(8443)]}))]);
    folder.write("manifests.yaml", &(external("asking", &asking) + &main));
    folder.write("secret.yaml", &secret(certificates, "server", "server"));
    keys.write("key", KEY);
    let key = keys.path().join("key");
    let mut all = Vec::new();
    for address in [advertised, "127.0.0.1"] {
        let arguments = ["--seal-key-file", key.to_str().unwrap(), "--advertise", address];
        let replica = Gateway::start_with(&folder, &arguments);
        tools_of(&replica, &["asking"]).await;
        all.push(replica);
    }
    (all, (folder, keys, server))
}

/// A session that is begun at the first process, and as it is used at the second.
async fn sessions(certificates: &Certificates, replicas: &[Gateway]) -> [Session; 2] {
    let http = Http::trusting(&certificates.path("ca.pem"));
    let begun = http.initialize_with(&url(&replicas[0]), &json!({"elicitation": {}})).await;
    let elsewhere = Session { url: url(&replicas[1]), ..begun.clone() };
    [begun, elsewhere]
}

#[tokio::test]
async fn replicas_forward_to_each_other_over_https() {
    let certificates = Certificates::new();
    let (replicas, _kept) = replicas(&certificates, "127.0.0.1").await;
    let [begun, elsewhere] = sessions(&certificates, &replicas).await;
    let (stream, id) = asked(&begun, 1).await;
    assert_eq!(answer(&elsewhere, &id, "Ann").await, 202);
    let body = rest(stream).await;
    assert!(body.contains("Ann"), "{body}");
}

/// Passes on what it reads in connections of HTTPS, with the certificate of the gateway.
async fn relay(listener: TcpListener, tls: ListenerTls, to: SocketAddr) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let tls = tls.clone();
        tokio::spawn(async move {
            let (mut client, _) = tls.shake(client).await?;
            let (server, _) = ReplicaTls::new().unwrap().begin(to.ip(), TcpStream::connect(to).await?).await?;
            tokio::io::copy_bidirectional(&mut client, &mut TokioIo::new(server)).await
        });
    }
}

#[tokio::test]
async fn a_server_that_relays_between_replicas_is_none() {
    let certificates = Certificates::new();
    let (replicas, _kept) = replicas(&certificates, "127.0.0.2").await;
    let to = replicas[0].address();
    let listener = TcpListener::bind(("127.0.0.2", to.port())).await.unwrap();
    let tls = ListenerTls::new(&certificates.text("server.pem"), &certificates.text("server.key")).unwrap();
    let relay = tokio::spawn(relay(listener, tls, to));
    let [begun, elsewhere] = sessions(&certificates, &replicas).await;
    let (_stream, id) = asked(&begun, 1).await;
    answer(&elsewhere, &id, "Ann").await;
    replicas[1].logged(|line| {
        let is_lost = |it: &str| it.starts_with("a message is lost") && it.contains("does not prove to be one");
        line["message"].as_str().is_some_and(is_lost)
    });
    relay.abort();
}
