//! The answers of clients that a server does not take.

use http_body_util::BodyExt;
use hyper::Method;
use serde_json::json;

use super::asked::{answer, question};
use super::harness::{Folder, Gateway, SOON};
use super::http::Http;
use super::parts::{asking_with, external, tools_of};

#[tokio::test]
async fn a_call_ends_whose_server_does_not_take_the_answer_to_its_question() {
    let folder = Folder::new();
    let (_server, url) = asking_with(&folder.path().join("log"), &["--deaf"]);
    folder.write("manifests.yaml", &external("asking", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking"]).await;
    let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "asking__elicit"}});
    let mut stream = session.http.open(Method::POST, &session.url, &session.headers(), call.to_string()).await;
    let id = question(&mut stream).await["id"].clone();
    assert_eq!(answer(&session, &id, "Ann").await, 202);
    let rest = tokio::time::timeout(SOON, stream.body_mut().collect()).await.expect("it waits on").unwrap();
    let rest = String::from_utf8(rest.to_bytes().to_vec()).unwrap();
    assert!(rest.contains("ConnectFailed"), "{rest}");
    let why = gateway.logged(|line| line.to_string().contains("could not be delivered"));
    assert!(why.to_string().contains("HTTP 400"), "{why}");
}
