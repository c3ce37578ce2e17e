//! `hawsepipe operator`: the control plane.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::signals::EndSignals;
use crate::controller::{self, ControllerMetrics, LeaseSettings, Settings};
use crate::node::{Inspector, Launcher};
use crate::source::cluster::infer;
use crate::telemetry::catalog::Catalog;
use crate::telemetry::log;
use crate::web;

/// `hawsepipe operator`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes KUBECONFIG, or the service account of the pod that it runs in. Several may run: one leads, the others are warm.

Examples:
  hawsepipe operator
  hawsepipe operator --namespaces mcp,finance --listen 127.0.0.1:9091

HAWSEPIPE_LOG sets the log level. Traces are sent where OTEL_EXPORTER_OTLP_ENDPOINT says, over HTTP.")]
pub struct Operator {
    /// Namespaces to watch, with commas between them. Default: all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', env = "HAWSEPIPE_NAMESPACES")]
    pub namespaces: Vec<String>,
    /// Address of its health checks and metrics
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9090", env = "HAWSEPIPE_LISTEN")]
    pub listen: SocketAddr,
    /// The Lease of the leader. Default: hawsepipe-operator in the operator's own namespace
    #[arg(long, value_name = "NAMESPACE/NAME", env = "HAWSEPIPE_LEASE")]
    pub lease: Option<String>,
    /// A file with a service account token whose audience is hawsepipe.dev/gateway, to be shown to gateways' pods
    #[arg(long, value_name = "FILE", env = "HAWSEPIPE_GATEWAY_TOKEN_FILE")]
    pub gateway_token_file: Option<PathBuf>,
}

/// Runs until a signal ends it.
pub async fn operator(args: Operator) -> anyhow::Result<ExitCode> {
    let (_, traces) = log::start();
    let config = infer().await?;
    let server = config.cluster_url.to_string();
    // Its watches may be silent for minutes, so it keeps the library's own timeouts.
    let client = Client::try_from(config).context("the API server's address or credentials cannot be used")?;
    let catalog = Arc::new(Catalog::default());
    let metrics = ControllerMetrics::register(&catalog).context("cannot register metrics")?;
    let ready = Arc::new(AtomicBool::new(false));
    let launcher = Launcher::current().context("cannot tell which program this is")?;
    let settings = Settings {
        lease: lease(args.lease.as_deref(), client.default_namespace()),
        namespaces: args.namespaces,
        token_file: args.gateway_token_file,
    };
    let (mut signals, stop) = (EndSignals::listen()?, CancellationToken::new());
    let socket = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}: give another address with --listen ADDR", args.listen))?;
    tracing::info!(address = %socket.local_addr()?, server, lease = settings.lease.name, "the operator starts");
    let router = web::operator_router(Arc::clone(&catalog), Arc::clone(&ready));
    let server = tokio::spawn(web::serve(socket, router, stop.clone()));
    let run = controller::run(client, settings, Inspector::new(launcher), metrics, ready, stop.clone());
    tokio::pin!(run);
    tokio::select! {
        () = &mut run => {}
        () = signals.next() => {
            tracing::info!("ending: the lease is given back");
            stop.cancel();
            run.await;
        }
    }
    server.abort();
    traces.end().await;
    Ok(ExitCode::SUCCESS)
}

fn lease(written: Option<&str>, own_namespace: &str) -> LeaseSettings {
    let (namespace, name) = written.map_or((own_namespace, "hawsepipe-operator"), |written| {
        written.split_once('/').unwrap_or((own_namespace, written))
    });
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "operator".into());
    LeaseSettings {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        holder: format!("{host}_{}", uuid::Uuid::new_v4()),
    }
}
