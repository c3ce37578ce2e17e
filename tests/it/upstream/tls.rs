//! HTTPS against a real TLS server with a certificate of its own making.

use hawsepipe::domain::version::Era;

use super::*;
use crate::gateway::harness::Folder;

/// Set in the second run of the test: the server's URL.
const URL: &str = "HAWSEPIPE_TEST_TLS_URL";
const NAME: &str = "upstream::tls::certificates_are_checked_against_the_machines_roots";

const SERVER: &str = r#"
    const fs = require("node:fs"), [key, cert] = process.argv.slice(1).map(f => fs.readFileSync(f));
    const found = { supportedVersions: ["2026-07-28"], capabilities: {} };
    const server = require("node:https").createServer({ key, cert }, (request, response) => {
        let text = "";
        request.on("data", d => text += d).on("end", () => {
            response.setHeader("content-type", "application/json");
            response.end(JSON.stringify({ jsonrpc: "2.0", id: JSON.parse(text).id, result: found }));
        });
    });
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"#;

/// `cryptography` comes with the Python SDK.
const CERTIFICATE: &str = r#"
import datetime, ipaddress, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as to
from cryptography.hazmat.primitives.asymmetric import ec
key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
cert = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
cert = cert.add_extension(names, critical=True).sign(key, hashes.SHA256())
private = key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption())
for path, data in zip(sys.argv[1:], [private, cert.public_bytes(to.Encoding.PEM)]):
    open(path, "wb").write(data)
"#;

/// Decrypts what comes over HTTP/2, and sends it on to the port of 127.0.0.1 that its last argument is.
const TERMINATOR: &str = r#"
    const fs = require("node:fs"), [key, cert] = process.argv.slice(1, 3).map(f => fs.readFileSync(f));
    const server = require("node:tls").createServer({ key, cert, ALPNProtocols: ["h2"] }, from => {
        if (from.alpnProtocol !== "h2") return from.destroy();
        const to = require("node:net").connect(Number(process.argv[3]), "127.0.0.1");
        from.pipe(to).pipe(from);
        from.on("error", () => to.destroy());
        to.on("error", () => from.destroy());
    });
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"#;

/// Runs a script of Node.js with the paths of a new key and of its certificate, then with `more`. Gives the folder that
/// holds the certificate as `cert.pem`, and the port that the script prints.
fn serve(script: &str, more: &[String]) -> (Running, Folder, u16) {
    let folder = Folder::new();
    let (private, certificate) = (folder.path().join("key.pem"), folder.path().join("cert.pem"));
    let made = Command::new(fixtures::python()).args(["-c", CERTIFICATE]).args([&private, &certificate]).status();
    assert!(made.unwrap().success());
    let mut command = Command::new("node");
    command.arg("-e").arg(script).args([&private, &certificate]).args(more).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut port = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (running, folder, port.trim().parse().unwrap())
}

/// An HTTPS server on 127.0.0.1, the folder that holds its certificate as `cert.pem`, and its port.
pub fn server() -> (Running, Folder, u16) {
    serve(SERVER, &[])
}

/// The same in front of a server of HTTP/2 without TLS at `port`.
pub fn terminator(port: u16) -> (Running, Folder, u16) {
    serve(TERMINATOR, &[port.to_string()])
}

/// Runs itself a second time with the certificate among the machine's roots, which are read from the environment.
#[tokio::test]
async fn certificates_are_checked_against_the_machines_roots() {
    if let Ok(url) = std::env::var(URL) {
        let facts = started(external(url)).probe(PATIENCE).await.unwrap();
        assert_eq!(facts.era, Era::Modern);
        return;
    }
    let (_running, folder, port) = server();
    let url = format!("https://127.0.0.1:{port}/mcp");

    let error = started(external(&url)).probe(PATIENCE).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Connect(_)), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(URL, url)
        .env("SSL_CERT_FILE", folder.path().join("cert.pem"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{said}");
}
