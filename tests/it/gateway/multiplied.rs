//! Schemas of servers that multiply what there is to check of the arguments of clients.

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{process, tools_of};
use crate::fixtures::fixture;

/// The schemas are the servers', the arguments the clients': each alone is small.
#[tokio::test]
async fn arguments_that_schemas_multiply() {
    let folder = Folder::new();
    let script = fixture("servers/raw.mjs");
    let server = process("raw", "node".as_ref(), &[script.to_str().unwrap(), "--stdio", "--schemas"]);
    folder.write("manifests.yaml", &server);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let nested = format!("{}{{}}{}", r#"{"a":"#.repeat(60), "}".repeat(60));
    let list = |items: usize, item: &str| format!(r#"{{"list":[{}]}}"#, vec![item; items].join(","));
    for (arguments, why) in [(list(1_500, "-1"), "too many values to say where"), (list(70_000, "3"), "to be checked")]
    {
        let unfit = "do not fit the input schema of raw__choice. Nothing was sent.";
        let answer = session.call_raw(5, "raw__choice", &arguments).await;
        assert!(answer.body.contains(unfit) && answer.body.contains(why), "{:.300}", answer.body);
        let answer = session.call_raw(6, "raw__args", r#"{"still":"here"}"#).await;
        assert!(answer.result().contains("still"), "{}", answer.body);
    }
    let fits = session.call_raw(7, "raw__choice", &list(1_500, "3")).await;
    assert!(fits.result().contains("3,3,3"), "{:.300}", fits.body);
    let recursive = session.call_raw(8, "raw__twofold", &nested).await;
    assert!(recursive.result().contains("{}}}}"), "it is not enforced: {:.300}", recursive.body);
}
