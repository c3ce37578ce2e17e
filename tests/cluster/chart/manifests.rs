//! `manifests/install.yaml`: the chart of the operator for those who have no Helm.

use super::golden::golden;
use super::helm::{chart, helms};
use super::operator::CHART;
use crate::harness::{Cluster, checkout, documents};

const NAMESPACE: &str = "hawsepipe-system";
const HEAD: &str = "\
# The operator as `kubectl apply` takes it, without Helm. Written by `make charts` from charts/hawsepipe; edits here are
# lost. The image stands in it twice: as that of the operator, and as that of the gateways.
apiVersion: v1
kind: Namespace
metadata: {name: hawsepipe-system}
";

#[tokio::test]
async fn the_manifest_is_what_the_chart_makes() {
    let [_, helm] = helms();
    let rendered =
        ["template", "hawsepipe", &chart(CHART), "-n", NAMESPACE, "--skip-tests", "--kube-version", "1.37.2"];
    let rendered = helm.run(&rendered).await.unwrap();
    // What speaks of Helm is not true there.
    let of_helm = ["# Source: ", "helm.sh/chart: ", "app.kubernetes.io/managed-by: Helm"];
    let is_ours = |line: &&str| !line.trim().is_empty() && !of_helm.iter().any(|of| line.trim_start().starts_with(of));
    let text: String = rendered.lines().filter(is_ours).map(|line| format!("{line}\n")).collect();
    golden(&checkout().join("manifests/install.yaml"), &format!("{HEAD}{text}"));
}

#[tokio::test]
async fn an_api_server_accepts_it() {
    let cluster = Cluster::shared().await;
    let file = checkout().join("manifests/install.yaml");
    cluster.kubectl(&["apply", "--server-side", "-f", "-"], HEAD).await.unwrap();
    let path = file.to_string_lossy();
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", &path];
    let said = cluster.kubectl(&apply, "").await.unwrap();
    assert_eq!(said.lines().count(), documents(&file).len(), "{said}");
}
