//! Where the metadata of a protected resource is (RFC 9728, 3.1).

/// Where the metadata of a host is; the path of a resource can follow.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Splits the URL of a resource into its origin and its path, which is empty instead of `/`.
pub fn parts(resource: &str) -> (&str, &str) {
    let authority = resource.find("://").map_or(0, |at| at + 3);
    let end = resource[authority..].find(['/', '?', '#']).map_or(resource.len(), |at| authority + at);
    let (origin, path) = resource.split_at(end);
    (origin, path.strip_suffix('/').unwrap_or(path))
}

/// Returns the path of the metadata: the path of the resource comes after the well-known path.
pub fn metadata_path(resource: &str) -> String {
    format!("{WELL_KNOWN}{}", parts(resource).1)
}
