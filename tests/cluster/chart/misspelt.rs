//! A misspelt field in what a chart renders: Helm 3 installs it without the field, and the commands of
//! `docs/operations.md` find it before.

use serde_json::{Value, json};

use super::helm::{chart, helms};
use super::operator::CHART;
use crate::harness::{Cluster, checkout};

/// The commands of the page that read what was rendered.
fn commands() -> Vec<String> {
    let page = std::fs::read_to_string(checkout().join("docs/operations.md")).unwrap();
    let block = page.split("```\n").find(|block| block.starts_with("helm template my-release")).unwrap();
    let commands: Vec<_> = block.lines().skip(1).map(str::to_owned).collect();
    assert!(commands.len() == 2 && commands.iter().all(|line| line.contains("rendered.yaml")), "{commands:?}");
    commands
}

#[tokio::test]
async fn the_commands_of_the_page_find_a_field_that_helm_3_drops() {
    let (cluster, [helm, _]) = (Cluster::shared().await, helms());
    let namespace = cluster.namespace().await;
    let name = format!("p{}", namespace.trim_start_matches("test-"));
    let folder = std::env::temp_dir().join(format!("hawsepipe-rendered-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir(&folder).unwrap();
    let values = |field: &str| {
        let spec = json!({"authentication": {"anonymous": {}}, field: 3});
        helm.written(
            &json!({"watchNamespaces": [namespace], "gateway": {"enabled": true, "name": "main", "spec": spec}}),
        )
    };
    let (charts, program) = (chart(CHART), env!("CARGO_BIN_EXE_hawsepipe"));
    for (field, is_known) in [("replicas", true), ("replcas", false)] {
        let values = values(field);
        let template = ["template", &name, &charts, "-n", &namespace, "-f", &values, "--skip-tests"];
        let rendered = helm.run(&[&template[..], &["--kube-version", "1.37.2"]].concat()).await.unwrap();
        std::fs::write(folder.join("rendered.yaml"), rendered).unwrap();
        for command in commands() {
            let command = command.replace("-n mcp", &format!("-n {namespace}"));
            let script =
                format!("hawsepipe() {{ {program} \"$@\"; }}\ncd {}\n{command} >&2\n", folder.to_string_lossy());
            let result = cluster.bash(&script).await;
            assert_eq!(result.is_ok(), is_known, "{command}: {result:?}");
            assert!(is_known || result.unwrap_err().contains("spec.replcas"), "{command}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();

    let values = values("replcas");
    helm.run_in(cluster, &["install", &name, &charts, "-n", &namespace, "-f", &values]).await.unwrap();
    let get = ["get", "mcpgateway", "main", "-n", &namespace, "-o", "json"];
    let stored: Value = serde_json::from_str(&cluster.kubectl(&get, "").await.unwrap()).unwrap();
    assert_eq!(stored["spec"], json!({"authentication": {"anonymous": {}}}));
}
