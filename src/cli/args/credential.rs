//! What a command sends to show who its user is.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::builder::NonEmptyStringValueParser;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

// A doc comment would be the description of commands.
#[derive(Clone, clap::Args)]
pub struct CredentialArgs {
    /// The bearer token that is sent. Other users of this machine can see it in the list of processes: --token-file and the
    /// environment variable hide it. Default: the token in HAWSEPIPE_ADMIN_TOKEN, or in the file that HAWSEPIPE_ADMIN_TOKEN_FILE
    /// names; for an MCP endpoint, HAWSEPIPE_TOKEN and HAWSEPIPE_TOKEN_FILE
    #[arg(long, value_name = "TOKEN", value_parser = NonEmptyStringValueParser::new())]
    pub token: Option<String>,
    /// File with the bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// A header that is sent, such as one with an API key; can be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
}

impl std::fmt::Debug for CredentialArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialArgs").field("token_file", &self.token_file).finish_non_exhaustive()
    }
}

impl CredentialArgs {
    /// Returns the headers to send. `variable` has the token if no flag has one, and `variable` with `_FILE` the name of its file.
    ///
    /// # Errors
    /// If a file cannot be read, or something cannot be in a header. The error has no part of it.
    pub fn headers(&self, variable: &str) -> anyhow::Result<HeaderMap> {
        let of_environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let read = |file: PathBuf, named: &str| {
            std::fs::read_to_string(&file).with_context(|| format!("{named} {}", file.display()))
        };
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(read(file.clone(), "--token-file")?),
            (None, None) => match of_environment(variable) {
                Some(token) => Some(token),
                None => {
                    let variable = format!("{variable}_FILE");
                    of_environment(&variable).map(|file| read(file.into(), &variable)).transpose()?
                }
            },
        };
        let mut headers = HeaderMap::new();
        if let Some(token) = token.as_deref().map(str::trim).filter(|token| !token.is_empty()) {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            headers
                .insert(AUTHORIZATION, value.map_err(|_| anyhow!("the token has characters that no header can have"))?);
        }
        for header in &self.header {
            let (name, value) = header.split_once(':').context("--header: expected NAME: VALUE")?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| anyhow!("--header: the name is not valid"))?;
            let value = HeaderValue::try_from(value.trim());
            headers.append(name, value.map_err(|_| anyhow!("--header: the value cannot be in a header"))?);
        }
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(token: Option<&str>, headers: &[&str]) -> CredentialArgs {
        let header = headers.iter().map(|it| (*it).to_owned()).collect();
        CredentialArgs { token: token.map(str::to_owned), token_file: None, header }
    }

    #[test]
    fn a_token_and_headers_are_sent_and_never_shown() {
        let given = args(Some("hunter2"), &["X-Key: a:b", "x-key:c"]);
        let headers = given.headers("HAWSEPIPE_NO_SUCH_TOKEN").unwrap();
        assert_eq!(headers[AUTHORIZATION], "Bearer hunter2");
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["a:b", "c"]);
        assert!(!format!("{given:?}{headers:?}").contains("hunter2"), "{given:?} {headers:?}");
        for wrong in ["hunter2", "a b: hunter2", "a: hunter2\nb"] {
            let why = format!("{:#}", args(None, &[wrong]).headers("HAWSEPIPE_NO_SUCH_TOKEN").unwrap_err());
            assert!(why.starts_with("--header: ") && !why.contains("hunter2"), "{why}");
        }
        let missing = CredentialArgs { token_file: Some("/no/such/file".into()), ..args(None, &[]) };
        assert!(format!("{:#}", missing.headers("X").unwrap_err()).contains("--token-file /no/such/file"));
    }
}
