//! Values of Secrets for a gateway in a cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kube::Client;

use super::granted::Granted;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;
use crate::domain::ports::Secrets;
use crate::domain::secret::{NoSecret, SecretText, secret_uses};
use crate::source::secrets::FileSecrets;

/// The values of Secrets: those of the gateway's own namespace from a mounted folder, and those of other namespaces
/// from the API server, if their owners granted access.
pub struct ClusterSecrets {
    namespace: String,
    mounted: FileSecrets,
    granted: Granted,
}

impl ClusterSecrets {
    /// Creates the values for a gateway in `namespace`. The Secrets of that namespace are mounted at `folder`, and those with
    /// API keys at `api_keys`.
    pub fn new(client: Client, namespace: &str, folder: Option<PathBuf>, api_keys: Option<PathBuf>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            mounted: FileSecrets::mounted(namespace, folder).with_api_keys(api_keys),
            granted: Granted::new(client),
        }
    }

    /// Follows the Secrets of other namespaces that `plan` names. Waits up to two seconds until the new ones have been
    /// read.
    pub async fn follow(&mut self, plan: &Plan) {
        let named = secret_uses(plan).into_iter().map(|(secret, _)| secret);
        let others: BTreeSet<_> = named.filter(|secret| secret.namespace != self.namespace).cloned().collect();
        self.granted.follow(&others).await;
    }

    /// Waits until a Secret of another namespace has changed, or has become readable or unreadable. To notice changes
    /// of mounted Secrets, watch [`ClusterSecrets::folders`].
    pub async fn changed(&self) {
        self.granted.changed().await;
    }

    /// Returns the folders of mounted values.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        self.mounted.folders()
    }
}

impl Secrets for ClusterSecrets {
    fn secret(&self, secret: &ObjectKey, key: &str) -> Result<SecretText, NoSecret> {
        match self.mounted.secret(secret, key) {
            Err(NoSecret::NotFound) if secret.namespace != self.namespace => self.granted.value(secret, key),
            found => found,
        }
    }

    fn keys(&self, secret: &ObjectKey) -> BTreeSet<String> {
        self.mounted.keys(secret)
    }

    /// Always `None`: manifests must not read the pod's environment.
    fn environment(&self, _: &str) -> Option<SecretText> {
        None
    }
}
