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

/// Those of the gateway's own namespace, from a mounted folder, and granted ones of others.
pub struct ClusterSecrets {
    namespace: String,
    mounted: FileSecrets,
    granted: Granted,
}

impl ClusterSecrets {
    /// Of a gateway of `namespace`, into whose pod the Secrets of that namespace are mounted at `folder`.
    pub fn new(client: Client, namespace: &str, folder: Option<PathBuf>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            mounted: FileSecrets::mounted(namespace, folder),
            granted: Granted::new(client),
        }
    }

    /// Follows what `plan` names of other namespaces. Waits a little for what is said of what is new.
    pub async fn follow(&mut self, plan: &Plan) {
        let named = secret_uses(plan).into_iter().map(|(secret, _)| secret);
        let others: BTreeSet<_> = named.filter(|secret| secret.namespace != self.namespace).cloned().collect();
        self.granted.follow(&others).await;
    }

    /// Waits until a Secret of another namespace changed, or what is known of it. Mounted ones are for a watch of
    /// [`ClusterSecrets::folders`] to tell.
    pub async fn changed(&self) {
        self.granted.changed().await;
    }

    /// The folders of mounted values.
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

    /// A pod's environment is not for manifests to read.
    fn environment(&self, _: &str) -> Option<SecretText> {
        None
    }
}
