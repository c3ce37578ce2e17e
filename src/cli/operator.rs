//! `hawsepipe operator`: runs the control plane.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;

use super::address::ADMIN_PORT;
use super::address::Address;
use super::names::is_label;
use super::signals::EndSignals;
use crate::controller::{
    self, ControllerMetrics, ImagePullPolicy, LeaseSettings, OperatorHealth, PodSettings, Settings,
};
use crate::node::{Inspector, Launcher};
use crate::source::cluster::{client, infer};
use crate::telemetry::catalog::Catalog;
use crate::telemetry::process::Telemetry;
use crate::transport::{EVERYWHERE, MAX_CONNECTIONS, bind};
use crate::web;

/// The maximum length of the cluster's domain. The names of a Service in it then stay below the 253 characters of a DNS
/// name.
const MAX_DOMAIN: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes KUBECONFIG, or the service account of the pod that it runs in. Several may run: one leads, the others are warm.

Examples:
  hawsepipe operator
  hawsepipe operator --gateway-image registry.example.com/hawsepipe:1.0.0
  hawsepipe operator --namespaces mcp,finance --listen 127.0.0.1:9091

HAWSEPIPE_LOG sets the log level. Traces are sent where OTEL_EXPORTER_OTLP_ENDPOINT says.")]
pub struct OperatorArgs {
    /// The namespaces to watch, separated by commas. Default: all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = namespace, env = "HAWSEPIPE_NAMESPACES")]
    pub namespaces: Vec<String>,
    /// Address of the operator's health checks and metrics
    #[arg(long, value_name = "ADDR", default_value = "[::]:9090", env = "HAWSEPIPE_LISTEN")]
    pub listen: Address,
    /// The Lease for leader election: NAMESPACE/NAME, or NAME in the operator's own namespace. Default:
    /// hawsepipe-operator in the operator's own namespace
    #[arg(long, value_name = "NAMESPACE/NAME", env = "HAWSEPIPE_LEASE", value_parser = lease_name)]
    pub lease: Option<LeaseName>,
    /// The image for the pods of gateways. Default: none; the operator then creates no pods, and you must run them
    /// yourself
    #[arg(long, value_name = "IMAGE", env = "HAWSEPIPE_GATEWAY_IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub gateway_image: Option<String>,
    /// When nodes pull the image for the pods of gateways
    #[arg(long, value_name = "POLICY", value_enum, default_value_t, env = "HAWSEPIPE_GATEWAY_IMAGE_PULL_POLICY")]
    pub gateway_image_pull_policy: PullPolicy,
    /// Leave user and group ids out of the pods of gateways, because the cluster assigns them (OpenShift)
    #[arg(long, env = "HAWSEPIPE_ASSIGNED_IDS")]
    pub assigned_ids: bool,
    /// The DNS domain of the cluster
    #[arg(long, value_name = "DOMAIN", value_parser = domain, default_value = "cluster.local",
        env = "HAWSEPIPE_CLUSTER_DOMAIN")]
    pub cluster_domain: String,
}

/// When nodes pull an image, with the values of Kubernetes' `imagePullPolicy`.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// Each time a container starts
    Always,
    /// Only if the node does not have the image
    #[default]
    IfNotPresent,
    /// Never; the node must have the image
    Never,
}

impl From<PullPolicy> for ImagePullPolicy {
    fn from(policy: PullPolicy) -> Self {
        match policy {
            PullPolicy::Always => Self::Always,
            PullPolicy::IfNotPresent => Self::IfNotPresent,
            PullPolicy::Never => Self::Never,
        }
    }
}

/// Runs the operator until a signal ends it.
pub async fn operator(args: OperatorArgs) -> anyhow::Result<ExitCode> {
    let Telemetry { traces, .. } = Telemetry::start()?;
    let config = infer().await?;
    let server = config.cluster_url.to_string();
    let client = client(config)?;
    let catalog = Arc::new(Catalog::of_process().context("cannot register metrics of the process")?);
    let metrics = ControllerMetrics::register(&catalog).context("cannot register metrics")?;
    traces.register(&catalog).context("cannot register metrics of traces")?;
    let health = OperatorHealth::default();
    let launcher = Launcher::current().context("cannot tell which program this is")?;
    let settings = settings(&args, client.default_namespace());
    let (mut signals, stop) = (EndSignals::listen()?, CancellationToken::new());
    let address = args.listen.listen(EVERYWHERE, ADMIN_PORT).await.context("--listen")?;
    let socket = bind(address, "--listen ADDR").await?;
    let lease = format!("{}/{}", settings.lease.namespace, settings.lease.name);
    tracing::info!(address = %socket.local_addr()?, server, lease, "the operator starts");
    let (liveness, checked) = (health.liveness.clone(), health.clone());
    let (alive, ready) = (Arc::new(move || liveness.check()), Arc::new(move || checked.ready()));
    let router = web::operator_router(Arc::clone(&catalog), ready, alive);
    let service = TowerToHyperService::new(router);
    let server = tokio::spawn(crate::transport::serve(socket, service, || MAX_CONNECTIONS, stop.clone()));
    let run = controller::run(client, settings, Inspector::new(launcher), metrics, health, stop.clone());
    tokio::pin!(run);
    tokio::select! {
        () = &mut run => {}
        _ = signals.next() => {
            tracing::info!("the operator ends");
            stop.cancel();
            run.await;
        }
    }
    server.abort();
    traces.end().await;
    Ok(ExitCode::SUCCESS)
}

/// Parses the name of a namespace, an RFC 1123 label. Spaces around the name are ignored.
fn namespace(written: &str) -> Result<String, String> {
    let name = written.trim();
    if name.is_empty() {
        return Err("a name is empty: give names with commas between them, or leave it out to watch all".to_owned());
    }
    if !is_label(name) {
        return Err(format!("{name:?} is not the name of a namespace: lower-case letters, digits and '-', at most 63"));
    }
    Ok(name.to_owned())
}

fn settings(args: &OperatorArgs, own_namespace: &str) -> Settings {
    Settings {
        lease: lease(args.lease.as_ref(), own_namespace),
        namespaces: args.namespaces.iter().cloned().collect(),
        cluster_domain: args.cluster_domain.clone(),
        pods: args.gateway_image.clone().map(|image| PodSettings {
            image,
            pull_policy: args.gateway_image_pull_policy.into(),
            assigned_ids: args.assigned_ids,
        }),
    }
}

/// Parses a DNS domain. A dot at its end is left out.
fn domain(written: &str) -> Result<String, String> {
    let name = written.strip_suffix('.').unwrap_or(written);
    if name.len() > MAX_DOMAIN || !name.split('.').all(is_label) {
        return Err(format!(
            "{written:?} is not a DNS domain: give lower-case labels with dots between them, such as cluster.local"
        ));
    }
    Ok(name.to_owned())
}

/// Name of a Lease, and its namespace if that is not the operator's own.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseName {
    namespace: Option<String>,
    name: String,
}

fn lease_name(written: &str) -> Result<LeaseName, String> {
    let (namespace, name) = match written.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, written),
    };
    if !namespace.is_none_or(is_label) || name.len() > MAX_DOMAIN || !name.split('.').all(is_label) {
        return Err(format!("{written:?} is not NAMESPACE/NAME or NAME, of lower-case letters, digits, '-' and '.'"));
    }
    Ok(LeaseName { namespace: namespace.map(str::to_owned), name: name.to_owned() })
}

fn lease(written: Option<&LeaseName>, own_namespace: &str) -> LeaseSettings {
    let namespace = written.and_then(|lease| lease.namespace.as_deref()).unwrap_or(own_namespace);
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "operator".into());
    LeaseSettings {
        namespace: namespace.to_owned(),
        name: written.map_or("hawsepipe-operator", |lease| &lease.name).to_owned(),
        holder: format!("{host}_{}", uuid::Uuid::new_v4()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::OperatorArgs;
    use crate::cli::args::{Args, Command};

    fn parsed(arguments: &[&str]) -> Result<OperatorArgs, String> {
        let args = Args::try_parse_from([&["hawsepipe", "operator"], arguments].concat());
        let Command::Operator(operator) = args.map_err(|error| error.to_string())?.command else { panic!() };
        Ok(operator)
    }

    fn namespaces(written: &str) -> Result<Vec<String>, String> {
        Ok(parsed(&["--namespaces", written])?.namespaces)
    }

    #[test]
    fn pods_of_servers_are_reached_where_the_bridge_listens_by_default() {
        assert_eq!(crate::api::upstream::managed::BRIDGE_PORT, crate::bridge::PORT);
    }

    #[test]
    fn the_domain_of_the_cluster_must_be_one() {
        let domain = |written| Ok::<_, String>(parsed(&["--cluster-domain", written])?.cluster_domain);
        assert_eq!(parsed(&[]).unwrap().cluster_domain, "cluster.local");
        for (written, is) in [("corp.example", "corp.example"), ("corp.example.", "corp.example"), ("k8s", "k8s")] {
            assert_eq!(domain(written).unwrap(), is);
        }
        for bad in ["", ".", "a..b", ".a", "Corp.example", "a b", "a/b", &"a.".repeat(60)] {
            let error = domain(bad).unwrap_err();
            assert!(error.contains("is not a DNS domain"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_lease_has_a_name_and_perhaps_a_namespace() {
        let lease = |written| {
            let settings = super::settings(&parsed(&["--lease", written])?, "own");
            Ok::<_, String>((settings.lease.namespace, settings.lease.name))
        };
        assert_eq!(super::settings(&parsed(&[]).unwrap(), "own").lease.name, "hawsepipe-operator");
        assert_eq!(lease("a.b").unwrap(), ("own".into(), "a.b".into()));
        assert_eq!(lease("ns/a").unwrap(), ("ns".into(), "a".into()));
        for bad in ["", "/", "a/", "/a", "a/b/c", "A B", "n.s/a", "a?b"] {
            let error = lease(bad).unwrap_err();
            assert!(error.contains("is not NAMESPACE/NAME or NAME"), "{bad}: {error}");
        }
    }

    #[test]
    fn names_of_namespaces_may_have_spaces_around_them_and_must_be_names() {
        assert_eq!(namespaces("a, b ,c-1").unwrap(), ["a", "b", "c-1"]);
        for (bad, why) in [("a,,b", "empty"), ("", "empty"), ("a b", "\"a b\""), ("a,B", "\"B\""), ("a-", "\"a-\"")] {
            let error = namespaces(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
