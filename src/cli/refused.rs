//! What a command says when the API server does not do what it asks: who may not do what, and which Role gives it.

use anyhow::{Error, anyhow};
use kube::Resource;
use kube::core::Status;

use crate::domain::causes::causes;

/// A request to an API server.
pub struct Asked<'a> {
    /// The verbs that the command needs on the resource. The first is the one that was asked for.
    pub verbs: &'a [&'a str],
    /// The resource and its group, such as `plugins.hawsepipe.dev`.
    pub resource: String,
    /// The namespace; `None` if all namespaces were asked for.
    pub namespace: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Describes a request about objects of the kind `K`.
    pub fn of<K: Resource<DynamicType = ()>>(verbs: &'a [&'a str], namespace: Option<&'a str>) -> Self {
        Self { verbs, resource: format!("{}.{}", K::plural(&()), K::group(&())), namespace }
    }

    /// Returns the error to show for `error`. `what` says what cannot be done.
    pub fn failed(&self, what: &str, error: &kube::Error) -> Error {
        match error {
            kube::Error::Api(status) => anyhow!("{what}: {}", self.why(status)),
            other => anyhow!("{what}: {}", causes(other)),
        }
    }

    fn why(&self, status: &Status) -> String {
        let message = &status.message;
        match status.code {
            401 => format!(
                "the API server does not accept the credentials ({message}): log in again, or name another kubeconfig \
                 with KUBECONFIG"
            ),
            403 => who(message).map_or_else(|| message.clone(), |who| self.forbidden(&who)),
            404 if message.contains("page not found") => format!(
                "the cluster does not know {}: run `hawsepipe crds | kubectl apply --server-side -f -`",
                self.resource
            ),
            _ => message.clone(),
        }
    }

    /// Says which right is missing, and how it is given.
    fn forbidden(&self, who: &Who<'_>) -> String {
        let Self { verbs, resource, namespace } = self;
        let (place, kind, scope) = match namespace {
            Some(namespace) => (format!("in namespace {namespace}"), "role", format!(" -n {namespace}")),
            None => ("in all namespaces".to_owned(), "clusterrole", String::new()),
        };
        let plural = resource.split('.').next().unwrap_or_default();
        let (name, verb) = (format!("{}-{plural}", verbs.join("-")), verbs.first().unwrap_or(&"get"));
        let or = if namespace.is_none() { " Or name one namespace with -n." } else { "" };
        format!(
            "{who} may not {verb} {resource} {place}.{or} Run the command with the kubeconfig of somebody who may, or have \
             the right given:\n  kubectl create {kind} {name}{scope} --verb={} --resource={resource}\n  kubectl create \
             {kind}binding {name}{scope} --{kind}={name} {}",
            verbs.join(","),
            who.flag()
        )
    }
}

/// Who asked an API server.
enum Who<'a> {
    ServiceAccount { namespace: &'a str, name: &'a str },
    User(&'a str),
}

impl std::fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ServiceAccount { namespace, name } => write!(f, "ServiceAccount {namespace}/{name}"),
            Self::User(name) => write!(f, "user {name:?}"),
        }
    }
}

impl Who<'_> {
    /// Returns the argument of `kubectl create rolebinding` that names it.
    fn flag(&self) -> String {
        match self {
            Self::ServiceAccount { namespace, name } => format!("--serviceaccount={namespace}:{name}"),
            Self::User(name) => format!("--user='{}'", name.replace('\'', "'\\''")),
        }
    }
}

/// Returns who asked, of the message of a 403 that says that a right is missing (Kubernetes, `responsewriters.Forbidden`:
/// `User "x" cannot list ...`). Admission answers with 403 too, and with a message of its own.
fn who(message: &str) -> Option<Who<'_>> {
    let (_, rest) = message.split_once("User \"")?;
    let (user, _) = rest.split_once("\" cannot ")?;
    let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    Some(account.map_or(Who::User(user), |(namespace, name)| Who::ServiceAccount { namespace, name }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::snapshot::GatewaySnapshot;

    fn failed(code: u16, message: &str, namespace: Option<&str>) -> String {
        let status = Status { code, message: message.to_owned(), ..Status::default() };
        let asked = Asked::of::<GatewaySnapshot>(&["list"], namespace);
        format!("{:#}", asked.failed("snapshots cannot be listed", &kube::Error::Api(status.boxed())))
    }

    #[test]
    fn a_right_that_is_missing_is_told_with_the_commands_that_give_it() {
        let message = |user: &str| {
            format!(
                "gatewaysnapshots.hawsepipe.dev is forbidden: User \"{user}\" cannot list resource \"gatewaysnapshots\" in \
                 API group \"hawsepipe.dev\" in the namespace \"mcp\""
            )
        };
        let told = failed(403, &message("system:serviceaccount:mcp:main-gateway"), Some("mcp"));
        assert_eq!(
            told,
            "snapshots cannot be listed: ServiceAccount mcp/main-gateway may not list gatewaysnapshots.hawsepipe.dev in \
             namespace mcp. Run the command with the kubeconfig of somebody who may, or have the right given:\n  kubectl \
             create role list-gatewaysnapshots -n mcp --verb=list --resource=gatewaysnapshots.hawsepipe.dev\n  kubectl create \
             rolebinding list-gatewaysnapshots -n mcp --role=list-gatewaysnapshots --serviceaccount=mcp:main-gateway"
        );
        let told = failed(403, &message("o'neil"), None);
        for part in [
            "user \"o'neil\" may not list",
            "in all namespaces. Or name one namespace with -n.",
            "create clusterrole list-gatewaysnapshots --verb",
            "create clusterrolebinding list-gatewaysnapshots --clusterrole=list-gatewaysnapshots --user='o'\\''neil'",
        ] {
            assert!(told.contains(part), "{told} has no {part}");
        }
    }

    #[test]
    fn other_answers_are_told_in_the_api_servers_words_and_never_as_a_rust_value() {
        for (code, message, part) in [
            (403, "exceeded quota: q", "exceeded quota: q"),
            (401, "Unauthorized", "does not accept the credentials (Unauthorized): log in again"),
            (404, "404 page not found", "does not know gatewaysnapshots.hawsepipe.dev: run `hawsepipe crds"),
            (409, "Apply failed with 1 conflict", "Apply failed with 1 conflict"),
        ] {
            let told = failed(code, message, None);
            assert!(told.contains(part) && !told.contains("Status {"), "{told}");
        }
    }
}
