//! The admin port of a gateway whose `spec.admin.authentication` is set.

use serde_json::{Value, json};

use super::Http;
use crate::gateway::harness::{Folder, Gateway, hawsepipe};
use crate::gateway::manifests::{object, raw_server, yaml};
use crate::gateway::parts::until;

/// Runs a command with these variables.
fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> std::process::Output {
    hawsepipe().args(arguments).envs(variables.iter().copied()).output().unwrap()
}

const TOKEN: &str = "admin-token-0123456789";

fn manifests(admin: &Value) -> String {
    let spec = json!({"authentication": {"anonymous": {}}, "admin": admin});
    yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])])
}

/// The status of a path of the admin API with these headers, and the answer.
async fn status(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let url = format!("http://{}{path}", gateway.admin());
    let answer = Http::new().send(hyper::Method::GET, &url, headers, String::new()).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn with_a_token_of_a_secret_the_admin_port_serves_nobody_without_it() {
    let secrets = Folder::new();
    std::fs::create_dir_all(secrets.path().join("main-admin")).unwrap();
    secrets.write("main-admin/token", &format!("{TOKEN}\n"));
    let by_token = json!({"authentication": {"tokenSecretRef": {"name": "main-admin", "key": "token"}}});
    let folder = Folder::with(&manifests(&by_token));
    let gateway = Gateway::start_with(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()]);
    let bearer = format!("Bearer {TOKEN}");
    let (short, long) = (bearer[..bearer.len() - 1].to_owned(), format!("{bearer}0"));
    let good = ("authorization", &*bearer);
    for (path, headers, wanted) in [
        ("/api/v1/status", &[][..], 401),
        ("/api/v1/report", &[], 401),
        ("/api/v1/status", &[("authorization", &*short)], 401),
        ("/api/v1/status", &[("authorization", &*long)], 401),
        ("/api/v1/status", &[good, good], 401),
        ("/api/v1/status?access_token=x", &[], 401),
        ("/api/v1/status", &[good, ("origin", "http://page.example")], 403),
        ("/api/v1/status", &[good], 200),
        ("/api/v1/report", &[good], 200),
        ("/healthz", &[], 200),
        ("/readyz", &[], 200),
        ("/metrics", &[], 200),
    ] {
        let (found, body) = status(&gateway, path, headers).await;
        assert_eq!(found, wanted, "{path} {headers:?}: {body}");
        assert!(!body.contains(TOKEN), "{path}: {body}");
    }
    commands_send_the_token(&gateway);
    rotation(&gateway, &secrets, good).await;
    assert!(!gateway.log().concat().contains(TOKEN));
}

/// Another token of the Secret takes the place of the old one; without the Secret, nobody is served.
async fn rotation(gateway: &Gateway, secrets: &Folder, old: (&str, &str)) {
    secrets.write("main-admin/token", "another-token");
    let admits =
        async || status(gateway, "/api/v1/status", &[("authorization", "Bearer another-token")]).await.0 == 200;
    until("the new token is in force", admits).await;
    assert_eq!(status(gateway, "/api/v1/status", &[old]).await.0, 401);
    std::fs::remove_file(secrets.path().join("main-admin/token")).unwrap();
    let missing = gateway.logged(|line| {
        line["message"].as_str().is_some_and(|said| said.contains("spec.admin.authentication.tokenSecretRef"))
    });
    assert!(missing["message"].as_str().unwrap().contains("Secret default/main-admin"), "{missing}");
    // The log line comes before the plan without the token is in force.
    let none = async || status(gateway, "/api/v1/status", &[("authorization", "Bearer another-token")]).await.0 == 401;
    until("nobody is served without the Secret", none).await;
}

fn commands_send_the_token(gateway: &Gateway) {
    let admin = gateway.admin().to_string();
    let files = Folder::new();
    files.write("token", &format!("{TOKEN}\n"));
    files.write("wrong", "wrong");
    let (token, wrong) = (files.path().join("token"), files.path().join("wrong"));
    let tools = ["tools", "--admin", &*admin];
    let by_file = run_with(&[&tools[..], &["--token-file", token.to_str().unwrap()]].concat(), &[]);
    assert!(by_file.status.success(), "{by_file:?}");
    let by_variable = run_with(&tools, &[("HAWSEPIPE_ADMIN_TOKEN", TOKEN)]);
    assert!(by_variable.status.success(), "{by_variable:?}");
    let refused = run_with(&[&tools[..], &["--token-file", wrong.to_str().unwrap()]].concat(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the token is not accepted"), "{said}");
    let without = run_with(&tools, &[]);
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(!without.status.success() && said.contains("--token-file"), "{said}");
    let nowhere = run_with(&[&tools[..], &["--token-file", "/nowhere/token"]].concat(), &[]);
    assert!(!nowhere.status.success() && String::from_utf8_lossy(&nowhere.stderr).contains("/nowhere/token"));
}

#[tokio::test]
async fn without_authentication_programs_on_this_machine_are_served_and_no_other_address_is_opened() {
    let folder = Folder::with(&manifests(&json!({})));
    let gateway = Gateway::start(&folder);
    assert_eq!(status(&gateway, "/api/v1/status", &[]).await.0, 200);
    let run = ["run", "-f", folder.path().to_str().unwrap(), "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"];
    let refused = run_with(&run, &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("without spec.admin.authentication"), "{said}");
}

#[tokio::test]
async fn outside_a_cluster_no_token_can_be_reviewed() {
    let review = json!({"authentication": {"tokenReview": {}}});
    let spec = json!({"authentication": {"tokenReview": {"audiences": ["mcp"]}}, "admin": review});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start(&folder);
    let warned = gateway.logged(|line| line["reason"] == "ClusterOnly");
    let words = warned["message"].as_str().unwrap();
    assert!(words.contains("spec.authentication.tokenReview, spec.admin.authentication.tokenReview"), "{words}");
    let key = super::issuer::SigningKey::new("one");
    let bearer = format!("Bearer {}", key.token(&json!({"sub": "system:serviceaccount:a:b", "aud": "mcp"})));
    let headers = [("authorization", &*bearer)];
    let answer = super::ask(&gateway.url(), "tools/list", None, &json!({}), &headers).await;
    assert!(answer.status == 401 && answer.body.contains("only a gateway in a cluster"), "{}", answer.body);
    assert_eq!(super::ask(&gateway.url(), "tools/list", None, &json!({}), &[]).await.status, 401);
    let (found, body) = status(&gateway, "/api/v1/status", &headers).await;
    assert!(found == 401 && body.contains("only a gateway in a cluster"), "{body}");
}
