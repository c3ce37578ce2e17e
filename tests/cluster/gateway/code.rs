//! Plugins whose code is in the pod.

use super::process::{Folder, Place, manifests};
use super::published::Revision;
use super::upstream;
use crate::harness::Cluster;

fn code(word: &str) -> String {
    format!("export default ({{ rawContent }}) => ({{ text: `{word} ${{rawContent}}`, continue: true }});\n")
}

#[tokio::test]
async fn a_file_of_the_pod_is_run_and_its_edits_are_taken_up() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let url = upstream::start().await;
    let plugins = Folder::new();
    let written = manifests(&place.namespace, &url, "");
    let inline = written.lines().find(|line| line.contains("inline:")).unwrap();
    let written = written
        .replace(inline, "    path: say.js")
        .replace("plugins: {", &format!("plugins: {{pluginDir: {:?}, ", plugins.path()));
    let revision = Revision::of(&written);
    assert!(revision.entry.shards.iter().all(|shard| format!("{:?}", shard.kind) != "Code"), "it holds no code");
    revision.publish(cluster, &place.namespace).await;

    let gateway = place.start(&[]).await;
    let problem = gateway.until_reported("the file lacks", |report| report.problems.first().cloned()).await;
    assert_eq!(problem.reason.as_str(), "FileNotFound", "{problem}");
    let failed = &gateway.report().await.plugins[0];
    assert_eq!(failed.reason.as_deref(), Some("NotLoaded"), "{failed:?}");

    plugins.write("say.js", &code("one"));
    gateway.until_answers("up__whoami", "one nobody").await;
    plugins.write("say.js", &code("two"));
    gateway.until_answers("up__whoami", "two nobody").await;
    plugins.write("say.js", "export default (");
    let problem = gateway.until_reported("it does not parse", |report| report.problems.first().cloned()).await;
    assert_eq!(problem.reason.as_str(), "SyntaxError", "{problem}");
    assert_eq!(gateway.call("up__whoami").await.unwrap(), "two nobody");
    assert_eq!(gateway.report().await.revision, revision.name());
}
