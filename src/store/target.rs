//! Where a history database is.

use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::any::AnyConnectOptions;
use url::Url;

use super::error::StoreError;
use crate::domain::secret::SecretText;

/// A history database. Its text has neither a user nor a password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreTarget {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL database.
    Postgres(SecretText),
}

const POSTGRES: &str = "postgres://USER:PASSWORD@HOST/DATABASE";

impl FromStr for StoreTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        match scheme {
            Some("postgres" | "postgresql") => match Url::parse(text) {
                // Where a `/`, `?` or `#` of the password ends the host, the beginning of the password is taken for a port.
                Ok(_) if text.split_once("://").is_some_and(|(_, rest)| ends_before_path(rest)) => {
                    Ok(Self::Postgres(SecretText::new(text)))
                }
                Ok(_) => Err(format!(
                    "the URL of the PostgreSQL database is not {POSTGRES}: percent-encode @, /, ? and # in the password"
                )),
                Err(why) => Err(format!(
                    "the URL of the PostgreSQL database cannot be read: {why}. It is {POSTGRES}; percent-encode @, /, ? and # \
                     in the password"
                )),
            },
            Some(scheme) if scheme != "sqlite" && (text.contains("://") || text.contains('@')) => {
                Err(format!("a store is PATH, sqlite:PATH or {POSTGRES}"))
            }
            _ => {
                let path = text.strip_prefix("sqlite:").unwrap_or(text);
                let path = path.strip_prefix("//").unwrap_or(path);
                if path.is_empty() {
                    Err("the path of the store is empty".to_owned())
                } else {
                    Ok(Self::Sqlite(path.into()))
                }
            }
        }
    }
}

/// Whether the user and the password of a URL stand in its first part, which is not a path, a query or a fragment.
fn ends_before_path(url: &str) -> bool {
    url.split_once(['/', '?', '#']).is_none_or(|(_, rest)| !rest.contains('@'))
}

impl fmt::Display for StoreTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => {
                let url = Url::parse(url.expose()).ok();
                let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
                let port = url.as_ref().and_then(Url::port).map(|port| format!(":{port}")).unwrap_or_default();
                write!(f, "postgres://{host}{port}{}", url.as_ref().map_or("", Url::path))
            }
        }
    }
}

impl fmt::Debug for StoreTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The SQL of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

impl StoreTarget {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Returns the options to connect with. Statements are not logged.
    pub(super) fn options(&self) -> Result<AnyConnectOptions, StoreError> {
        let url = match self {
            Self::Postgres(url) => url.expose().to_owned(),
            Self::Sqlite(path) => {
                let absolute = std::path::absolute(path).ok().and_then(|path| Url::from_file_path(path).ok());
                let absolute = absolute.ok_or_else(|| StoreError::new(self, "the path cannot be used"))?;
                format!("sqlite:{}?mode=rwc", absolute.path())
            }
        };
        let options: Result<AnyConnectOptions, _> = url.parse();
        options.map(ConnectOptions::disable_statement_logging).map_err(|why| StoreError::of(self, &why))
    }

    /// Creates the file of a SQLite database, readable by its owner only, if it does not exist.
    pub(super) fn create(&self) -> Result<(), StoreError> {
        let Self::Sqlite(path) = self else { return Ok(()) };
        // A file that is closed loses the locks that other connections of the process hold on it (fcntl(2)).
        if path.exists() {
            return Ok(());
        }
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        opened.map(drop).map_err(|why| StoreError::new(self, &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_path_or_a_url_and_its_text_has_no_password() {
        let text = |given: &str| given.parse::<StoreTarget>().map(|target| format!("{target} {target:?}"));
        assert_eq!(text("a/b.db").unwrap(), "sqlite:a/b.db sqlite:a/b.db");
        assert_eq!(text("sqlite:///a.db").unwrap(), "sqlite:/a.db sqlite:/a.db");
        assert_eq!(text("sqlite:a@b/c.db").unwrap(), "sqlite:a@b/c.db sqlite:a@b/c.db");
        let shown = text("postgres://user:geheim@db:5433/h?sslmode=require").unwrap();
        assert_eq!(shown, "postgres://db:5433/h postgres://db:5433/h");
        for wrong in [
            "mysql://user:geheim@db/h",
            "postgres://user:geheim@[db/h",
            "postgres:user:geheim@db/h",
            "postgres:/user:geheim@db/h",
            "postgres:///user:geheim@db/h",
            "postgres://user:geh#eim/x@db/h",
            "user:geheim@db/h",
            "sqlite:",
        ] {
            assert!(!text(wrong).unwrap_err().contains("geh"), "{wrong}");
        }
        // Each place of each character that a password can have without an escape.
        for sign in ["@", "/", "?", "#", ":", "//", "@/", "/@", "?@", "#@", "[", "]", "%", " "] {
            for password in ["71{}82", "{}7182", "7182{}", "71{}82{}"] {
                let url = format!("postgres://me:{}@db.example/h", password.replace("{}", sign));
                let said = text(&url).unwrap_or_else(|why| why);
                assert!(!said.contains("71") && !said.contains("82"), "{url}: {said}");
            }
        }
    }
}
