//! The answers of clients that a server does not take.

use super::asked::answered_in_vain;
use super::harness::{Folder, Gateway};
use super::parts::{asking_with, external, tools_of};

#[tokio::test]
async fn a_call_ends_whose_server_does_not_take_the_answer_to_its_question() {
    let folder = Folder::new();
    let (_server, url) = asking_with(&folder.path().join("log"), &["--deaf"]);
    folder.write("manifests.yaml", &external("asking", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking"]).await;
    let rest = answered_in_vain(&gateway, "asking__elicit").await;
    assert!(rest.contains("ConnectFailed"), "{rest}");
    let why = gateway.logged(|line| line.to_string().contains("could not be delivered"));
    assert!(why.to_string().contains("HTTP 400"), "{why}");
}
