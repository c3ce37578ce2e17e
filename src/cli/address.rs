//! Addresses on the command line: `8080`, `:8080`, `localhost:8080`, `http://localhost:8080/mcp`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, bail};

/// An address of which the user can leave out the scheme, the host, the port and the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    written: String,
    https: bool,
    host: Option<String>,
    port: Option<u16>,
    /// The path and the query, beginning with `/`.
    path: Option<String>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let example = "write HOST:PORT, :PORT or PORT, such as localhost:8080";
        let (https, rest) =
            scheme(written).ok_or_else(|| format!("only http:// and https:// are spoken; {example}"))?;
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        let (host, port) = host_and_port(authority);
        let port = match port {
            Some(digits) => Some(digits.parse().map_err(|_| format!("the port must be 0 to 65535; {example}"))?),
            None => None,
        };
        let is_name = |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        let is_v6 = |host: &str| host.parse::<Ipv6Addr>().is_ok();
        if authority.is_empty() || host.is_some_and(|host| !is_name(host) && !is_v6(host)) {
            return Err(example.to_owned());
        }
        Ok(Self { written: written.to_owned(), https, host: host.map(str::to_owned), port, path })
    }
}

/// Returns whether the scheme is `https`, and the text after the scheme. An address without a scheme counts as `http`.
/// Returns `None` for any other scheme.
fn scheme(written: &str) -> Option<(bool, &str)> {
    match written.split_once("://") {
        None => Some((false, written)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Some((false, rest)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => Some((true, rest)),
        Some(_) => None,
    }
}

/// Returns the host without brackets, and the text of the port. A part that is missing is `None`.
fn host_and_port(authority: &str) -> (Option<&str>, Option<&str>) {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        return (Some(host), rest.strip_prefix(':'));
    }
    if authority.bytes().all(|byte| byte.is_ascii_digit()) {
        return (None, Some(authority));
    }
    match authority.rsplit_once(':') {
        // More than one colon and no brackets: an IPv6 address without a port.
        Some((host, _)) if host.contains(':') => (Some(authority), None),
        Some((host, port)) => (Some(host).filter(|host| !host.is_empty()), Some(port)),
        None => (Some(authority), None),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Address {
    /// Returns the socket address to listen on. `host` and `port` are used if the address does not contain them.
    ///
    /// # Errors
    /// If the address has a path or asks for TLS, or the host cannot be resolved.
    pub async fn listen(&self, host: IpAddr, port: u16) -> anyhow::Result<SocketAddr> {
        if self.https {
            bail!("{self}: connections are served as plain HTTP; TLS is for a proxy in front");
        }
        if self.path.as_deref().is_some_and(|path| path != "/") {
            bail!("{self}: an address to listen on has no path");
        }
        let port = self.port.unwrap_or(port);
        let Some(name) = &self.host else { return Ok(SocketAddr::new(host, port)) };
        let found = tokio::net::lookup_host((name.as_str(), port)).await;
        let found: Vec<_> = found.with_context(|| format!("{self}: {name} has no address"))?.collect();
        // All clients try 127.0.0.1 for `localhost`, but not all try ::1.
        let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
        first.copied().with_context(|| format!("{self}: {name} has no address"))
    }

    /// Returns the URL, without a `/` at its end. `port` and `path` are used if the address does not contain them; the
    /// default host is 127.0.0.1.
    pub fn url(&self, port: u16, path: &str) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let host = self.host.as_deref().unwrap_or("127.0.0.1");
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        // A URL that has a scheme but no port means the default port of the scheme.
        let port = match self.port {
            None if self.written.contains("://") => String::new(),
            written => format!(":{}", written.unwrap_or(port)),
        };
        format!("{scheme}://{host}{port}{}", self.path.as_deref().unwrap_or(path).trim_end_matches('/'))
    }
}

/// The default port of the admin API.
pub const ADMIN_PORT: u16 = 9090;

/// The default port of metrics that are served beside the admin API.
pub const METRICS_PORT: u16 = 9091;

/// The default port of the MCP endpoint.
pub const MCP_PORT: u16 = 8080;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_server_is_named_in_the_usual_ways() {
        for (written, url) in [
            ("8080", "http://127.0.0.1:8080/mcp"),
            (":8080", "http://127.0.0.1:8080/mcp"),
            ("localhost", "http://localhost:9999/mcp"),
            ("localhost:8080", "http://localhost:8080/mcp"),
            ("10.0.0.1:8080/files/mcp", "http://10.0.0.1:8080/files/mcp"),
            ("http://localhost:8080", "http://localhost:8080/mcp"),
            ("HTTPS://mcp.example.com/a?b=c", "https://mcp.example.com/a?b=c"),
            ("[::1]:8080", "http://[::1]:8080/mcp"),
            ("::1", "http://[::1]:9999/mcp"),
        ] {
            assert_eq!(written.parse::<Address>().map(|address| address.url(9999, "/mcp")).as_deref(), Ok(url));
        }
        assert_eq!("http://localhost:9090/".parse::<Address>().unwrap().url(9090, ""), "http://localhost:9090");
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for written in
            ["", ":", "localhost:", "localhost:http", "99999", "a b:1", "user@host:1", "ftp://host", "http://"]
        {
            let refused = written.parse::<Address>().unwrap_err();
            assert!(refused.contains("localhost:8080"), "{written}: {refused}");
        }
    }

    #[tokio::test]
    async fn a_port_alone_listens_on_the_host_of_the_command() {
        let listen = async |written: &str| {
            let address: Address = written.parse().unwrap();
            address.listen(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090).await.map(|found| found.to_string())
        };
        for (written, found) in [
            ("8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("0.0.0.0", "0.0.0.0:9090"),
            ("http://127.0.0.1:0/", "127.0.0.1:0"),
            ("[::1]:1", "[::1]:1"),
        ] {
            assert_eq!(listen(written).await.unwrap(), found, "{written}");
        }
        for written in ["https://localhost:1", "localhost:1/mcp"] {
            assert!(listen(written).await.is_err(), "{written}");
        }
    }
}
