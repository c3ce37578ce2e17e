//! The protected resource metadata of a gateway (RFC 9728), by which clients find out where to get a token.

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::response::method_not_allowed;
use crate::domain::plan::{GatewayPlan, ResourcePlan};
use crate::domain::protected_resource::{WELL_KNOWN, metadata_path, parts};

/// Returns the URL of the metadata.
pub(super) fn metadata_url(plan: &ResourcePlan) -> String {
    format!("{}{}", parts(&plan.resource).0, metadata_path(&plan.resource))
}

/// Answers a request for the metadata; `None` if it is another request, or the gateway has none. Anybody can ask.
pub(super) fn answer(gateway: &GatewayPlan, method: &Method, path: &str) -> Option<Response> {
    let plan = gateway.authentication.resource.as_ref()?;
    let asked = path.strip_prefix(WELL_KNOWN)?;
    if !asked.is_empty() && asked != parts(&plan.resource).1 {
        return None;
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(method_not_allowed("GET"));
    }
    let mut metadata = json!({
        "resource": plan.resource,
        "authorization_servers": plan.authorization_servers,
        "bearer_methods_supported": ["header"],
    });
    if !plan.scopes.is_empty() {
        metadata["scopes_supported"] = json!(plan.scopes);
    }
    if let Some(documentation) = &plan.documentation {
        metadata["resource_documentation"] = json!(documentation);
    }
    let json = HeaderValue::from_static("application/json");
    Some((StatusCode::OK, [(header::CONTENT_TYPE, json)], metadata.to_string()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_resource_follows_the_well_known_path() {
        for (resource, path) in [
            ("https://a.example", "/.well-known/oauth-protected-resource"),
            ("https://a.example/", "/.well-known/oauth-protected-resource"),
            ("https://a.example/mcp", "/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example/t/mcp/", "/.well-known/oauth-protected-resource/t/mcp"),
        ] {
            let (authorization_servers, scopes, documentation) = (Vec::new(), Vec::new(), None);
            let plan = ResourcePlan { resource: resource.to_owned(), authorization_servers, scopes, documentation };
            assert_eq!(metadata_url(&plan), format!("https://a.example{path}"));
        }
    }
}
