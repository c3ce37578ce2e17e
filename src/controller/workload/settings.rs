//! The operator's settings for gateways' pods.

use std::fmt;

use crate::controller::own_account::OwnAccount;
use crate::controller::writer::Writer;

/// How the operator creates gateways' pods.
#[derive(Clone, Debug)]
pub struct PodSettings {
    /// The image of the gateway container.
    pub image: String,
    /// When nodes pull the image.
    pub pull_policy: ImagePullPolicy,
    /// Whether the cluster assigns the user and group ids of pods, as OpenShift does.
    pub assigned_ids: bool,
}

/// When nodes pull the gateway's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagePullPolicy {
    /// At each start of a container.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl fmt::Display for ImagePullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        })
    }
}

/// All settings of the operator that workloads depend on.
#[derive(Clone)]
pub(in crate::controller) struct WorkloadSettings {
    pub(in crate::controller) pods: PodSettings,
    /// The DNS domain of the cluster.
    pub(in crate::controller) cluster_domain: String,
    /// The operator's service account, as `NAMESPACE/NAME`.
    pub(in crate::controller) operator: String,
}

/// Provides the settings of workloads.
pub(in crate::controller) struct Workloads {
    pods: Option<PodSettings>,
    cluster_domain: String,
    account: OwnAccount,
}

impl Workloads {
    pub(in crate::controller) fn new(pods: Option<PodSettings>, cluster_domain: &str, writer: Writer) -> Self {
        Self { pods, cluster_domain: cluster_domain.to_owned(), account: OwnAccount::new(writer) }
    }

    pub(in crate::controller) fn runs_pods(&self) -> bool {
        self.pods.is_some()
    }

    /// Returns the settings; `None` if the operator creates no pods. The error is the reason why the settings are not
    /// known yet.
    pub(in crate::controller) async fn settings(&self) -> Option<Result<WorkloadSettings, String>> {
        let pods = self.pods.clone()?;
        let account = self.account.find().await;
        let cluster_domain = self.cluster_domain.clone();
        Some(account.map(|account| WorkloadSettings { pods, cluster_domain, operator: account.to_string() }))
    }
}
