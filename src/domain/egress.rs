//! Rules for the hosts that a plugin can connect to, parsed from the entries of its `egress`. A rule is compared with
//! host names and addresses as text; the address that a name resolves to is checked elsewhere, when the plugin
//! connects.

/// Suffixes of names that only private networks resolve: `.svc` and `.cluster.local` (Kubernetes), `.local` (RFC 6762),
/// `.home.arpa` (RFC 8375), and `.internal` (reserved by ICANN).
const PRIVATE_SUFFIXES: [&str; 5] = [".svc", ".cluster.local", ".internal", ".local", ".home.arpa"];

/// One entry of `egress`: a host, which can be a wildcard, and the port on which a plugin can connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressRule {
    /// A name, an address, `*` for any host, or `*.` followed by the end of a name. In lower case, without a final dot.
    host: String,
    port: u16,
}

impl EgressRule {
    /// Parses an entry such as `api.example.com:443`.
    ///
    /// # Errors
    /// What is wrong with the entry, as text for users.
    pub fn parse(entry: &str) -> Result<Self, String> {
        let parts = entry.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let (host, port) = parts.ok_or_else(|| format!("{entry:?} is not host:port"))?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| format!("{entry:?}: a port is a number from 1 to 65535"))?;
        let name = if host == "*" { "" } else { host.strip_prefix("*.").unwrap_or(host) };
        if name.contains('*') {
            return Err(format!("{entry:?}: `*` stands for a whole host, or for its first parts as in *.example.com"));
        }
        Ok(Self { host: plain(host), port })
    }

    /// Whether the rule allows connections to `host` and `port`. Compares text only: names are not resolved.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let host = plain(host);
        let named = match self.host.strip_prefix('*') {
            Some(end) => host.len() > end.len() && host.ends_with(end),
            None => host == self.host,
        };
        named && port == self.port
    }

    /// Returns the host of the rule as text: in lower case, without a final dot.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port of the rule.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the rule names hosts of a private network. False for `*`.
    pub fn is_of_private_network(&self) -> bool {
        is_private_name(self.host.trim_start_matches('*'))
    }
}

/// Whether a name in lower case is one of a private network: it has no dot, or ends with a suffix that public DNS servers do
/// not resolve.
pub fn is_private_name(name: &str) -> bool {
    !name.is_empty() && (!name.contains('.') || PRIVATE_SUFFIXES.iter().any(|end| name.ends_with(end)))
}

/// Returns the host in lower case, without the dot that ends an absolute name.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(entry: &str, host: &str, port: u16) -> bool {
        EgressRule::parse(entry).unwrap().matches(host, port)
    }

    #[test]
    fn a_host_is_the_one_that_is_named() {
        assert!(admits("api.example.com:443", "API.example.com.", 443));
        assert!(!admits("api.example.com:443", "api.example.com", 80));
        assert!(!admits("api.example.com:443", "x.api.example.com", 443));
        assert!(!admits("api.example.com:443", "api.example.com.evil.net", 443));
        assert!(admits("10.0.0.5:80", "10.0.0.5", 80));
    }

    #[test]
    fn a_star_stands_for_one_part_or_more() {
        for host in ["a.example.com", "a.b.example.com"] {
            assert!(admits("*.example.com:443", host, 443), "{host}");
        }
        for host in ["example.com", ".example.com", "aexample.com", "a.example.com.evil.net"] {
            assert!(!admits("*.example.com:443", host, 443), "{host}");
        }
        assert!(admits("*:443", "anything.at.all", 443) && !admits("*:443", "", 443));
    }

    #[test]
    fn what_names_no_host_and_port_is_refused() {
        for entry in ["", "host", ":443", "host:", "host:0", "host:65536", "host:-1", "a*b.com:1", "*a.com:1", "a.*:1"]
        {
            assert!(EgressRule::parse(entry).is_err(), "{entry}");
        }
    }

    #[test]
    fn private_networks_are_known_by_their_names() {
        for (entry, private) in [
            ("llm:80", true),
            ("llm.models.svc:80", true),
            ("llm.models.svc.cluster.local:80", true),
            ("*.models.svc.cluster.local:80", true),
            ("metadata.google.internal:80", true),
            ("api.example.com:443", false),
            ("local.example.com:443", false),
            ("*.com:443", false),
            ("*:443", false),
        ] {
            assert_eq!(EgressRule::parse(entry).unwrap().is_of_private_network(), private, "{entry}");
        }
    }
}
