//! The forward proxies that the environment names: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, in upper or lower case.

use std::net::IpAddr;
use std::sync::LazyLock;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use super::proxy_error::ProxyError;

/// Names the proxy for HTTPS, and for connections of which the proxy sees only bytes.
const FOR_HTTPS: &str = "HTTPS_PROXY";
/// Names the proxy for HTTP without TLS.
const FOR_HTTP: &str = "HTTP_PROXY";
/// Names the hosts that are reached without a proxy.
const FOR_NONE: &str = "NO_PROXY";

static OF_ENVIRONMENT: LazyLock<Proxies> = LazyLock::new(|| Proxies::read(|name| std::env::var(name).ok()));

/// The proxies, and the hosts that are reached without one.
#[derive(Debug)]
pub struct Proxies {
    matcher: Matcher,
    /// A variable that is set and does not name an HTTP proxy.
    invalid: Option<&'static str>,
}

/// The proxy for one host. Its user and password are only in `authorization`.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The address of the proxy.
    pub uri: Uri,
    /// The value of `Proxy-Authorization`, if the variable has a user.
    pub authorization: Option<HeaderValue>,
    /// The variable that names the proxy.
    pub variable: &'static str,
}

impl Proxy {
    /// Returns the address and the variable that names it, for messages.
    pub fn name(&self) -> String {
        format!("{} ({})", self.uri.authority().map_or("", |it| it.as_str()), self.variable)
    }
}

impl Proxies {
    /// Returns the proxies that the environment of this process names.
    pub fn of_environment() -> &'static Self {
        &OF_ENVIRONMENT
    }

    /// Reads the proxies. `variable` returns the value of a variable.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| {
            let found = variable(name).filter(|value| !value.trim().is_empty());
            found.or_else(|| variable(&name.to_ascii_lowercase())).unwrap_or_default().trim().to_owned()
        };
        let (https, http, none) = (value(FOR_HTTPS), value(FOR_HTTP), value(FOR_NONE));
        let named = [(FOR_HTTPS, &https), (FOR_HTTP, &http)];
        let invalid = named.into_iter().find(|(_, proxy)| !proxy.is_empty() && !is_http(proxy)).map(|(name, _)| name);
        // `*.example.com` is common, and the matcher reads only `.example.com`.
        let end = |host: &'_ str| host.strip_prefix('*').filter(|end| end.starts_with('.')).unwrap_or(host).to_owned();
        let none: Vec<_> = none.split([',', ' ']).map(end).collect();
        Self { matcher: Matcher::builder().https(https).http(http).no(none.join(",")).build(), invalid }
    }

    /// Returns the proxy that forwards HTTP requests without TLS to `host`; `None` if the host is reached directly.
    ///
    /// # Errors
    /// If a variable does not name an HTTP proxy.
    pub fn forwarding(&self, host: &str) -> Result<Option<Proxy>, ProxyError> {
        self.find("http", host, FOR_HTTP)
    }

    /// Returns the proxy that relays bytes to `host` (`CONNECT`); `None` if the host is reached directly.
    ///
    /// # Errors
    /// If a variable does not name an HTTP proxy.
    pub fn tunnelling(&self, host: &str) -> Result<Option<Proxy>, ProxyError> {
        self.find("https", host, FOR_HTTPS)
    }

    fn find(&self, scheme: &str, host: &str, variable: &'static str) -> Result<Option<Proxy>, ProxyError> {
        let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
        let address = host.parse::<IpAddr>().ok();
        if is_loopback(host, address) {
            return Ok(None);
        }
        if let Some(variable) = self.invalid {
            return Err(ProxyError::Variable(variable));
        }
        let host = if address.is_some_and(|address| address.is_ipv6()) { format!("[{host}]") } else { host.to_owned() };
        let uri = Uri::builder().scheme(scheme).authority(host).path_and_query("/").build();
        let found = uri.ok().and_then(|uri| self.matcher.intercept(&uri));
        Ok(found.map(|found| Proxy { uri: found.uri().clone(), authorization: found.basic_auth().cloned(), variable }))
    }
}

/// Whether a variable names a proxy that HTTP without TLS reaches. The scheme can be left out. If a password has one of `@/?#`
/// unencoded, a part of it would be read as the host or the port, and be shown in messages.
fn is_http(proxy: &str) -> bool {
    let written = proxy.split_once("://").map_or(proxy, |(_, rest)| rest);
    let written = written.strip_suffix('/').unwrap_or(written);
    let Ok(uri) = proxy.parse::<Uri>() else { return false };
    let Some(authority) = uri.authority().filter(|authority| authority.as_str() == written) else { return false };
    let end = authority.as_str().rsplit('@').next().unwrap_or_default();
    let has_valid_port = end.ends_with(authority.host()) || authority.port_u16().is_some();
    uri.scheme_str().is_none_or(|scheme| scheme == "http")
        && !authority.host().is_empty()
        && has_valid_port
        && written.matches('@').count() < 2
}

/// Whether a host is this machine. No proxy can reach it.
fn is_loopback(host: &str, address: Option<IpAddr>) -> bool {
    let name = host.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || address.is_some_and(|it| it.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(|wanted| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned()))
    }

    fn address(found: Result<Option<Proxy>, ProxyError>) -> Option<String> {
        found.unwrap().map(|proxy| proxy.uri.to_string())
    }

    #[test]
    fn each_kind_of_connection_has_its_variable() {
        let proxies =
            of(&[("HTTPS_PROXY", "http://user:p%40ss@proxy:3128"), ("HTTP_PROXY", ""), ("http_proxy", "plain:80")]);
        let found = proxies.tunnelling("api.example.com").unwrap().unwrap();
        assert_eq!((found.uri.to_string().as_str(), found.variable), ("http://proxy:3128/", "HTTPS_PROXY"));
        assert_eq!(found.authorization.as_ref().unwrap(), "Basic dXNlcjpwQHNz");
        assert!(!format!("{found:?} {proxies:?}").contains("dXNl"), "{found:?} {proxies:?}");
        assert_eq!(address(proxies.forwarding("api.example.com")).as_deref(), Some("http://plain:80/"));
        assert_eq!(address(of(&[]).tunnelling("api.example.com")), None);
    }

    #[test]
    fn hosts_of_no_proxy_and_this_machine_are_reached_directly() {
        let none = "host, .dot.com,*.star.com 10.0.0.7,192.168.0.0/16,fd00::/8";
        let proxies = of(&[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", none)]);
        for (host, direct) in [
            ("host", true),
            ("a.HOST.", true),
            ("nohost", false),
            ("a.dot.com", true),
            ("a.star.com", true),
            ("astar.com", false),
            ("10.0.0.7", true),
            ("10.0.0.8", false),
            ("192.168.3.4", true),
            ("[fd00::1]", true),
            ("2606:4700::1111", false),
            ("localhost", true),
            ("LocalHost.", true),
            ("127.9.9.9", true),
            ("[::1]", true),
            ("::ffff:127.0.0.1", true),
        ] {
            assert_eq!(address(proxies.tunnelling(host)).is_none(), direct, "{host}");
        }
        assert_eq!(address(of(&[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "*")]).tunnelling("x")), None);
    }

    #[test]
    fn what_names_no_http_proxy_fails_and_is_not_repeated() {
        for wrong in [
            "https://proxy:3128",
            "socks5://proxy",
            "http://user:hunter2@",
            "user:hunter2@@proxy:1",
            "http://user:pass@hunter2@proxy:1",
            "http://user:hunter2/x@proxy:1",
            "http://user:1/hunter2@proxy:1",
            "http://user:1#hunter2@proxy:1",
            "http://user:1?hunter2@proxy:1",
            "user:hunter2",
            "http://",
        ] {
            let proxies = of(&[("HTTPS_PROXY", wrong)]);
            let why = proxies.tunnelling("api.example.com").unwrap_err().to_string();
            assert!(why.starts_with("HTTPS_PROXY ") && !why.contains("hunter2"), "{wrong}: {why}");
            assert_eq!(address(proxies.tunnelling("localhost")), None, "{wrong}");
        }
    }
}
