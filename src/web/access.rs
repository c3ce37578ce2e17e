//! Checks the `Host` and `Origin` headers of requests, to prevent DNS rebinding and to refuse web pages whose origin is
//! not allowed (MCP specification, Streamable HTTP, security warning).

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};

use crate::domain::plan::ListenerPlan;

/// The message for a client whose request is refused.
pub(super) type Turned = &'static str;

/// Checks that `Host` names this listener: a loopback name, or one of its `hosts`. If the listener lists none, one of its
/// `default_hosts` is accepted too, and any IP address if it is bound beyond loopback, because DNS rebinding works only
/// with names. A target in absolute form must name the same host: servers are to ignore `Host` then (RFC 9112, 3.2.2).
pub(super) fn check_host(
    target: &Uri,
    headers: &HeaderMap,
    hosts: &[String],
    default_hosts: &[String],
    bound: SocketAddr,
) -> Result<(), Turned> {
    let mut sent = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (sent.next(), sent.next()) else { return Err("exactly one Host header is needed") };
    let host = host.to_str().map_err(|_| "the Host header is not a name")?;
    if target.authority().is_some_and(|named| !named.as_str().eq_ignore_ascii_case(host)) {
        return Err("the request target names another host than the Host header");
    }
    let name = without_port(host);
    let accepted = if hosts.is_empty() { default_hosts } else { hosts };
    if is_loopback(name) || accepted.iter().any(|known| matches_name(known, name)) {
        return Ok(());
    }
    if hosts.is_empty() && !bound.ip().is_loopback() && is_address(name) {
        return Ok(());
    }
    Err("this Host is not served here: name it in the listener's `hosts`")
}

/// Whether `known`, which is in lower case, matches a host. `*.` stands for one or more labels.
fn matches_name(known: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    match known.strip_prefix('*').filter(|end| end.starts_with('.')) {
        Some(end) => name.len() > end.len() && name.ends_with(end),
        None => name == known,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn is_loopback(name: &str) -> bool {
    matches!(name, "127.0.0.1" | "[::1]") || name.eq_ignore_ascii_case("localhost")
}

fn is_address(name: &str) -> bool {
    name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Checks `Origin`. A page that this listener itself would serve is allowed. Returns the origin of the web page that may
/// read the answer, `None` if the request does not come from a page, or an error if the origin is not allowed.
pub(super) fn check_origin<'h>(
    headers: &'h HeaderMap,
    listener: &ListenerPlan,
) -> Result<Option<&'h HeaderValue>, Turned> {
    let mut sent = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err("the request has several Origin headers: send one");
    }
    let allowed = |known: &String| known.as_bytes() == origin.as_bytes();
    if listener.allowed_origins.iter().any(allowed) || is_own(headers, origin, listener) {
        return Ok(Some(origin));
    }
    Err("pages of this Origin are not served here: name it in the listener's `allowedOrigins`")
}

/// Whether an origin names the host and port at which the request arrived; [`check_host`] has found that the host is this
/// listener. Whoever controls a name that only a wildcard matches can rebind it, so such a host does not count. Without a
/// port, an origin with `http` is another port than that of a listener behind TLS.
fn is_own(headers: &HeaderMap, origin: &HeaderValue, listener: &ListenerPlan) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let Some((origin, host)) = origin.to_str().ok().zip(host) else { return false };
    let name = without_port(host);
    let mut named = listener.hosts.iter().chain(&listener.default_hosts);
    let is_exact = is_loopback(name) || is_address(name) || named.any(|known| known.eq_ignore_ascii_case(name));
    let plain = || origin.strip_prefix("http://").filter(|_| name.len() < host.len());
    let authority = origin.strip_prefix("https://").or_else(plain);
    is_exact && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Adds the headers that allow a web page of this origin to read the answer.
pub(super) fn allow_page<B>(response: &mut Response<B>, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate"));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Returns the answer to a CORS preflight (Fetch standard).
pub(super) fn preflight<B: Default>(asked: &HeaderMap) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    // Tools define the names of `Mcp-Param-*` headers, so every header that the browser asks for is allowed.
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))])
    }

    fn owned(hosts: &[&str]) -> Vec<String> {
        hosts.iter().map(|&host| host.to_owned()).collect()
    }

    #[test]
    fn hosts() {
        let check = |host: &'static str, hosts: &[&str], bound: &str| {
            check_host(&Uri::default(), &headers(host), &owned(hosts), &[], bound.parse().unwrap()).is_ok()
        };
        let (loopback, all) = ("127.0.0.1:8080", "0.0.0.0:8080");
        for (host, hosts, bound, served) in [
            ("localhost", &[] as &[&str], loopback, true),
            ("LocalHost:1", &[], loopback, true),
            ("127.0.0.1:8080", &[], loopback, true),
            ("[::1]:8080", &[], loopback, true),
            ("[::1]", &[], loopback, true),
            ("evil.example", &[], loopback, false),
            ("localhost.evil.example", &[], loopback, false),
            ("10.0.0.1", &[], loopback, false),
            ("mcp.example:443", &["mcp.example"], loopback, true),
            ("MCP.example", &["mcp.example"], all, true),
            ("10.0.0.1:8080", &[], all, true),
            ("[fd00::1]:8080", &[], all, true),
            ("10.0.0.1:8080", &["mcp.example"], all, false),
            ("evil.example", &[], all, false),
            ("", &[], all, false),
        ] {
            assert_eq!(check(host, hosts, bound), served, "{host} {hosts:?} {bound}");
        }
        assert!(check_host(&Uri::default(), &HeaderMap::new(), &[], &[], loopback.parse().unwrap()).is_err());
    }

    #[test]
    fn a_target_names_the_host_of_the_header_or_none() {
        for (target, host, served) in [
            ("/mcp", "localhost:8080", true),
            ("http://localhost:8080/mcp", "localhost:8080", true),
            ("http://LocalHost:8080/mcp", "localhost:8080", true),
            ("https://mcp.example/mcp", "mcp.example", true),
            ("http://evil.example/mcp", "localhost:8080", false),
            ("http://localhost:8080/mcp", "mcp.example", false),
            ("http://localhost:8081/mcp", "localhost:8080", false),
            ("http://localhost:8080@evil.example/mcp", "localhost:8080", false),
            ("http://evil.example/mcp", "evil.example", false),
        ] {
            let (target, bound) = (target.parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
            let checked = check_host(&target, &headers(host), &owned(&["mcp.example"]), &[], bound);
            assert_eq!(checked.is_ok(), served, "{target} {host}");
        }
    }

    #[test]
    fn default_hosts_are_those_of_a_listener_that_names_none() {
        let defaults = ["main-gateway.mcp.svc", "*.example.com"];
        for (host, hosts, served) in [
            ("main-gateway.mcp.svc:8080", &[] as &[&str], true),
            ("Main-Gateway.mcp.svc", &[], true),
            ("a.example.com", &[], true),
            ("a.b.example.com", &[], true),
            ("example.com", &[], false),
            (".example.com", &[], false),
            ("other-gateway.mcp.svc", &[], false),
            ("10.0.0.1:8080", &[], true),
            ("main-gateway.mcp.svc", &["mcp.example"], false),
            ("a.example.com", &["mcp.example"], false),
            ("10.0.0.1:8080", &["mcp.example"], false),
        ] {
            let bound = "0.0.0.0:8080".parse().unwrap();
            let checked = check_host(&Uri::default(), &headers(host), &owned(hosts), &owned(&defaults), bound);
            assert_eq!(checked.is_ok(), served, "{host} {hosts:?}");
        }
    }

    #[test]
    fn a_listeners_own_pages_are_those_of_its_exact_names_and_of_its_port() {
        let listener = ListenerPlan {
            name: "web".into(),
            port: 8080,
            path: "/mcp".into(),
            hosts: owned(&["mcp.example", "*.wild.example"]),
            default_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            refusing: None,
        };
        for (host, origin, is_own) in [
            ("mcp.example", "https://mcp.example", true),
            ("MCP.example:8443", "https://mcp.example:8443", true),
            ("mcp.example:8080", "http://mcp.example:8080", true),
            ("mcp.example", "http://mcp.example", false),
            ("mcp.example:8080", "http://mcp.example", false),
            ("mcp.example:8080", "ftp://mcp.example:8080", false),
            ("a.wild.example", "https://a.wild.example", false),
            ("a.wild.example:8080", "http://a.wild.example:8080", false),
            ("localhost:8080", "http://localhost:8080", true),
            ("10.0.0.1:8080", "http://10.0.0.1:8080", true),
            ("[fd00::1]:8080", "http://[fd00::1]:8080", true),
        ] {
            let mut headers = headers(host);
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(check_origin(&headers, &listener).is_ok(), is_own, "{host} {origin}");
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
            assert!(check_origin(&headers, &listener).is_err(), "{host} {origin} twice");
        }
    }
}
