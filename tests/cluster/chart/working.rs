//! A release of the chart, and an operator that runs as its Deployment says, with the rights that it gives.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::definitions::{RELEASE_AT_MOST, stored};
use super::helm::{Helm, chart, helms};
use super::operator::CHART;
use crate::harness::{Cluster, Process, until};
use crate::operator::harness::{Operated, object};

/// A release in a new namespace, which lets only restricted pods in.
struct Release<'c> {
    cluster: &'c Cluster,
    namespace: String,
    name: String,
}

impl<'c> Release<'c> {
    async fn of(cluster: &'c Cluster, helm: &Helm, values: impl Fn(&str) -> Value) -> Self {
        Self::of_chart(cluster, helm, &chart(CHART), values).await
    }

    /// The same of the chart in a folder.
    async fn of_chart(cluster: &'c Cluster, helm: &Helm, folder: &str, values: impl Fn(&str) -> Value) -> Self {
        let namespace = cluster.namespace().await;
        let label = "pod-security.kubernetes.io/enforce=restricted";
        cluster.kubectl(&["label", "namespace", &namespace, label], "").await.unwrap();
        // Names of what is cluster-wide begin with it.
        let name = format!("p{}", namespace.trim_start_matches("test-"));
        let values = helm.written(&values(&namespace));
        helm.run_in(cluster, &["install", &name, folder, "-n", &namespace, "-f", &values]).await.unwrap();
        Self { cluster, namespace, name: format!("{name}-hawsepipe") }
    }

    async fn get(&self, arguments: &[&str]) -> Value {
        let all = [&["get", "-n", &self.namespace, "-o", "json"], arguments].concat();
        serde_json::from_str(&self.cluster.kubectl(&all, "").await.unwrap()).unwrap()
    }

    fn operator(&self) -> String {
        format!("{}-operator", self.name)
    }

    /// Runs it as the pods would.
    async fn run(&self) -> Operated<'c> {
        let deployment = self.get(&["deployment", &self.operator()]).await;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let words = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let arguments: Vec<_> = words.chain(["--listen=127.0.0.1:0"]).collect();
        let token = self.cluster.token(&self.namespace, &self.operator(), &[]).await;
        let process = Process::start(self.cluster, &self.namespace, &token, &arguments, &[]);
        Operated::of(self.cluster, self.namespace.clone(), process).await
    }

    /// The demo's gateway is made, with its pods, and nothing was forbidden.
    async fn works(&self) {
        let operated = self.run().await;
        let demo = format!("{}-demo", self.name);
        operated.until_condition("mcpgateways", &demo, "Accepted", "True Accepted").await;
        operated.until_condition("pluginchains", &demo, "Accepted", "True Accepted").await;
        operated.until_condition("mcpupstreams", &demo, "ResolvedRefs", "True ResolvedRefs").await;
        for (of, count) in [("app.kubernetes.io/component=operator".to_owned(), 2), (gateway_label(&demo), 1)] {
            until(&format!("{count} pods of {of}"), async || {
                let pods = self.get(&["pods", "-l", &of]).await;
                (pods["items"].as_array().unwrap().len() == count).then_some(())
            })
            .await;
        }
        let log = operated.operator.log();
        assert!(!log.contains("forbidden"), "{log}");
    }

    /// What the operator may do in a namespace, a line for each resource.
    async fn rights(&self, namespace: &str) -> Vec<String> {
        self.cluster.rights((&self.namespace, &self.operator()), namespace).await
    }
}

fn gateway_label(name: &str) -> String {
    format!("hawsepipe.dev/gateway={name}")
}

/// Of Secrets it may only create one, and no right is for everything.
fn assert_least(rights: &[String]) {
    let of_secrets: Vec<_> = rights.iter().filter(|right| right.starts_with("secrets")).collect();
    assert_eq!(of_secrets, ["secrets [] [] [create]"]);
    assert!(!rights.iter().any(|right| right.contains('*')), "{rights:#?}");
}

#[tokio::test]
async fn the_operator_works_with_rights_in_one_namespace() {
    let [helm, _] = helms();
    let values = |namespace: &str| json!({"watchNamespaces": [namespace], "demo": {"enabled": true}});
    let release = Release::of(Cluster::shared().await, &helm, values).await;
    release.works().await;
    let rights = release.rights(&release.namespace).await;
    assert!(rights.iter().any(|right| right.starts_with("deployments.apps [] [] [")), "{rights:#?}");
    assert_least(&rights);
    assert_eq!(release.rights("default").await, Vec::<String>::new(), "it has none elsewhere");
}

/// On a cluster of its own, because the operator sees every namespace.
#[tokio::test]
async fn the_operator_works_with_rights_in_all_namespaces() {
    let cluster = Cluster::own().await;
    let [_, helm] = helms();
    let release =
        Release::of(&cluster, &helm, |_| json!({"demo": {"enabled": true}, "dashboards": {"enabled": true}})).await;
    let size = stored(&cluster, &release.namespace).await;
    println!("Helm {} stores a release of {CHART} in {size} bytes", helm.version);
    assert!(size < RELEASE_AT_MOST, "{size} bytes");
    release.works().await;
    let rights = release.rights("default").await;
    assert_least(&rights);
    assert!(!rights.iter().any(|right| right.starts_with("leases")), "{rights:#?}");
}

/// The Lease as charts of earlier versions had it.
const LEASE: &str = r#"apiVersion: coordination.k8s.io/v1
kind: Lease
{{ include "hawsepipe.metadata" (list $ (include "hawsepipe.operator" .)) }}
"#;

/// Writes a chart as earlier versions were: with the Lease, and without the right to create one.
fn older_chart(folder: &Path) {
    let copied = Command::new("cp").args(["-r", &chart(CHART)]).arg(folder).status().unwrap();
    assert!(copied.success());
    std::fs::write(folder.join("templates/lease.yaml"), LEASE).unwrap();
    let file = folder.join("files/own-namespace-rules.yaml");
    let rules = std::fs::read_to_string(&file).unwrap();
    let right = "- apiGroups: [coordination.k8s.io]\n  resources: [leases]\n  verbs: [create]\n";
    assert!(rules.contains(right), "{rules}");
    std::fs::write(file, rules.replace(right, "")).unwrap();
}

#[tokio::test]
async fn the_operator_leads_on_when_an_upgrade_deletes_the_lease_of_an_older_chart() {
    let [helm, _] = helms();
    let folder = std::env::temp_dir().join(format!("hawsepipe-chart-{}", uuid::Uuid::new_v4().simple()));
    older_chart(&folder);
    let values = |namespace: &str| json!({"watchNamespaces": [namespace]});
    let release = Release::of_chart(Cluster::shared().await, &helm, &folder.to_string_lossy(), values).await;
    std::fs::remove_dir_all(&folder).unwrap();
    let operator = release.operator();
    let get = ["get", "lease", &operator, "-n", &release.namespace, "-o", "json"];
    let lease = async || -> Option<(Value, Value)> {
        let lease: Value = serde_json::from_str(&release.cluster.kubectl(&get, "").await.ok()?).unwrap();
        let holder = lease["spec"]["holderIdentity"].clone();
        holder.is_string().then(|| (lease["metadata"]["uid"].clone(), holder))
    };
    let operated = release.run().await;
    let (uid, holder) = until("it leads", &lease).await;

    let name = release.name.strip_suffix("-hawsepipe").unwrap();
    let upgrade = ["upgrade", name, &chart(CHART), "-n", &release.namespace, "--reuse-values"];
    helm.run_in(release.cluster, &upgrade).await.unwrap();
    let created = async || lease().await.filter(|(now, _)| *now != uid);
    assert_eq!(until("it creates the Lease", created).await.1, holder);
    operated.apply(&[object("Plugin", "new", &json!({"source": {"inline": "export default () => ({});"}}))]).await;
    operated.until_condition("plugins", "new", "Accepted", "True Accepted").await;
    assert_eq!(operated.operator.log().matches("this operator leads").count(), 1, "{}", operated.operator.log());
}
