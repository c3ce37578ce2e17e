//! The service account that the operator runs as.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;

use super::writer::Writer;

/// How long to wait for an answer from the API server.
const ANSWER: Duration = Duration::from_secs(2);

/// Finds out the operator's service account from the API server, and remembers it.
pub(super) struct OwnAccount {
    writer: Writer,
    found: OnceLock<OperatorAccount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OperatorAccount {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for OperatorAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl OwnAccount {
    pub(super) fn new(writer: Writer) -> Self {
        Self { writer, found: OnceLock::new() }
    }

    /// Returns the account, if it is known already.
    pub(super) fn known(&self) -> Option<&OperatorAccount> {
        self.found.get()
    }

    /// Returns the account. Asks the API server for it if it is not known yet.
    ///
    /// # Errors
    /// Returns why the account cannot be found out.
    pub(super) async fn find(&self) -> Result<OperatorAccount, String> {
        if let Some(account) = self.found.get() {
            return Ok(account.clone());
        }
        let api: Api<SelfSubjectReview> = Api::all(self.writer.client.clone());
        let (parameters, review) = (PostParams::default(), SelfSubjectReview::default());
        let asked = self.writer.read_beside("create selfsubjectreviews", api.create(&parameters, &review));
        let review =
            tokio::time::timeout(ANSWER, asked).await.map_err(|_| "the API server does not answer".to_owned())?;
        let user = review.map_err(|error| error.to_string())?.status.and_then(|status| status.user_info);
        let user = user.and_then(|user| user.username).unwrap_or_default();
        let account =
            account(&user).ok_or_else(|| format!("the operator runs as {user:?}, which is not a service account"))?;
        Ok(self.found.get_or_init(|| account).clone())
    }
}

/// Returns the service account behind a user name, if it is one (Kubernetes, authentication of service accounts).
fn account(user: &str) -> Option<OperatorAccount> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(OperatorAccount { namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_service_accounts_have_tokens() {
        let found = account("system:serviceaccount:hawsepipe-system:hawsepipe-operator").unwrap();
        assert_eq!(found.to_string(), "hawsepipe-system/hawsepipe-operator");
        for other in ["admin", "system:node:n", "system:serviceaccount:x"] {
            assert_eq!(account(other), None, "{other}");
        }
    }
}
