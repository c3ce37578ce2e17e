//! The identity of a client: who calls, and how that is known.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::digest::sha256_hex;
use super::quoted::is_invisible;

/// The subject of clients that prove no identity.
pub const ANONYMOUS: &str = "anonymous";
/// The subject of programs on the gateway's machine that use its admin API.
pub const LOCAL: &str = "local";
/// The maximum length of a subject or a group in bytes.
const MAX_NAME: usize = 512;

/// The method that has proved an identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdentityMethod {
    /// None: the client has sent no credentials.
    #[default]
    Anonymous,
    /// A JSON Web Token of an issuer.
    Jwt,
    /// An API key of a Secret.
    ApiKey,
    /// A token of a Kubernetes service account, which the API server has verified.
    TokenReview,
    /// None: the call comes from the gateway's own machine, through its admin API.
    Local,
    /// Another replica, which has checked the credentials and has forwarded the request.
    Replica,
}

impl IdentityMethod {
    /// All methods.
    pub const ALL: [Self; 6] =
        [Self::Anonymous, Self::Jwt, Self::ApiKey, Self::TokenReview, Self::Local, Self::Replica];
    /// The methods by which a client proves who it is.
    pub const PROVED: [Self; 3] = [Self::Jwt, Self::ApiKey, Self::TokenReview];

    /// Returns the method as conditions read it (`identity.method`).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Jwt => "jwt",
            Self::ApiKey => "apiKey",
            Self::TokenReview => "tokenReview",
            Self::Local => "local",
            Self::Replica => "replica",
        }
    }
}

impl Serialize for IdentityMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for IdentityMethod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = Self::ALL.into_iter().find(|known| known.as_str() == name);
        known.ok_or_else(|| serde::de::Error::custom("no such method"))
    }
}

/// What tells apart callers with the same subject, in records and in the audit trail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The method that has proved the identity: `jwt`, `apiKey`, `tokenReview`, `anonymous`, `local` or `replica`.
    #[cfg_attr(feature = "gateway", schemars(with = "String"))]
    pub method: IdentityMethod,
    /// The issuer of the token; absent for other methods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub issuer: String,
}

/// Who calls. It is made once for each request, before the body is read. Replicas send it to each other, sealed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The method that has proved the identity.
    pub method: IdentityMethod,
    /// The name of the client; it is in records and in the audit trail.
    pub subject: String,
    /// The issuer of the client's token; empty for other methods.
    pub issuer: String,
    /// The groups of the client.
    pub groups: Vec<String>,
    /// The scopes of the client's token.
    pub scopes: Vec<String>,
    /// All claims of the client's token.
    pub claims: Map<String, Value>,
    /// Distinguishes this client from all others, also from those with the same subject of another issuer. Sessions, sealed
    /// ids and limits belong to it.
    key: String,
}

impl Identity {
    /// Creates the identity that a method has proved. `issuer` is where the subject is unique.
    ///
    /// # Errors
    /// If the subject cannot be that of a client.
    pub fn new(method: IdentityMethod, issuer: &str, subject: String) -> Result<Self, String> {
        let is_printable = !subject.chars().any(|c| c.is_control() || is_invisible(c));
        if subject.trim().is_empty() || subject.len() > MAX_NAME || !is_printable {
            return Err(format!(
                "its subject is empty, longer than {MAX_NAME} bytes, or has control characters or invisible ones"
            ));
        }
        if subject == ANONYMOUS || subject == LOCAL {
            return Err("its subject is a name that the gateway uses itself".to_owned());
        }
        let unique = serde_json::json!([method.as_str(), issuer, subject]).to_string();
        let key = format!("{}:{:.32}", method.as_str(), sha256_hex(unique.as_bytes()));
        let issuer = if method == IdentityMethod::Jwt { issuer.to_owned() } else { String::new() };
        Ok(Self { key, issuer, ..Self::bare(method, &subject) })
    }

    /// Returns the identity of all clients that have sent no credentials.
    pub fn anonymous() -> Arc<Self> {
        static IDENTITY: LazyLock<Arc<Identity>> =
            LazyLock::new(|| Arc::new(Identity::bare(IdentityMethod::Anonymous, ANONYMOUS)));
        Arc::clone(&IDENTITY)
    }

    /// Returns the identity of programs that use the admin API.
    pub fn local() -> Arc<Self> {
        static IDENTITY: LazyLock<Arc<Identity>> =
            LazyLock::new(|| Arc::new(Identity::bare(IdentityMethod::Local, LOCAL)));
        Arc::clone(&IDENTITY)
    }

    /// Creates the identity of a request that another replica has forwarded, which has checked who sent it. It has the same
    /// [key](Self::key), and nothing that a rule could allow.
    pub fn forwarded(key: &str, subject: &str) -> Self {
        if key == ANONYMOUS {
            return Self::bare(IdentityMethod::Anonymous, ANONYMOUS);
        }
        Self { key: key.to_owned(), ..Self::bare(IdentityMethod::Replica, subject) }
    }

    /// Reads a description such as `subject=ann,groups=staff,groups=ci,scopes=mcp.read,tenant=a`. What is no member of an
    /// identity is a claim. The empty text is the identity of clients that have sent no credentials.
    ///
    /// # Errors
    /// If it is no such description.
    pub fn described(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').filter(|pair| !pair.is_empty());
        let pairs: Option<Vec<_>> = pairs.map(|pair| pair.split_once('=')).collect();
        let pairs = pairs.ok_or_else(|| format!("{text:?} is not of the form subject=NAME,groups=GROUP"))?;
        let of = |wanted: &'static str| {
            pairs.iter().filter(move |(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        let method = of("method").next().unwrap_or_else(|| IdentityMethod::Jwt.as_str().to_owned());
        let known = IdentityMethod::PROVED.into_iter().find(|known| known.as_str() == method);
        let known = known.ok_or_else(|| format!("there is no method {method:?}: it is jwt, apiKey or tokenReview"))?;
        let subject = match (of("subject").next(), of("subject").nth(1)) {
            (Some(subject), None) => subject,
            (None, _) if pairs.is_empty() => return Ok(Self::bare(IdentityMethod::Anonymous, ANONYMOUS)),
            _ => {
                return Err(format!(
                    "{text:?} must have one subject=NAME, or be empty for a client without credentials"
                ));
            }
        };
        let issuer = of("issuer").next().unwrap_or_default();
        let mut identity =
            Self::new(known, &issuer, subject).map_err(|why| format!("the identity is not valid: {why}"))?;
        identity.groups = of("groups").collect();
        identity.scopes = of("scopes").collect();
        let is_claim = |name: &str| !["method", "issuer", "subject", "groups", "scopes"].contains(&name);
        let claims = pairs.iter().filter(|(name, _)| is_claim(name));
        identity.claims = claims.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        Ok(identity)
    }

    /// Creates an identity without groups, scopes and claims, whose subject is its key.
    fn bare(method: IdentityMethod, subject: &str) -> Self {
        let (groups, scopes, claims) = (Vec::new(), Vec::new(), Map::new());
        let (subject, key) = (subject.to_owned(), subject.to_owned());
        Self { method, subject, issuer: String::new(), groups, scopes, claims, key }
    }

    /// Returns what tells this client apart from others with the same subject, for records.
    pub fn user(&self) -> User {
        User { method: self.method, issuer: self.issuer.clone() }
    }

    /// Returns the subject, with the issuer if there is one: enough to tell apart those that operators see.
    pub fn name_with_issuer(&self) -> String {
        if self.issuer.is_empty() { self.subject.clone() } else { format!("{} of {}", self.subject, self.issuer) }
    }

    /// Whether the client has sent no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.method == IdentityMethod::Anonymous
    }

    /// Whether all that rules read of the client is known. Another replica passes a part of an identity that is too large.
    pub fn is_whole(&self) -> bool {
        self.method != IdentityMethod::Replica
    }

    /// Returns what distinguishes the tokens of this client from those of others, and from those with other scopes.
    pub fn token_key(&self) -> String {
        format!("{} {}", self.key, self.scopes.join(" "))
    }

    /// Returns what distinguishes this client from all others.
    pub fn key(&self) -> &str {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_two_issuers_are_never_the_same() {
        let of = |issuer: &str, subject: &str| Identity::new(IdentityMethod::Jwt, issuer, subject.to_owned());
        let (one, same, other) = (of("a", "x").unwrap(), of("a", "x").unwrap(), of("b", "x").unwrap());
        assert_eq!(one.key(), same.key());
        assert_ne!(one.key(), other.key());
        for wrong in ["", " ", ANONYMOUS, LOCAL, "a\nb", &"x".repeat(MAX_NAME + 1)] {
            assert!(of("a", wrong).is_err(), "{wrong:.16}");
        }
        // What looks like another subject, or like none.
        for c in
            "\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{202e}\u{2067}\u{61c}\u{e0041}\u{fe0f}\u{2028}\u{180e}\u{3164}"
                .chars()
        {
            assert!(of("a", &format!("an{c}n")).is_err(), "{c:?}");
        }
        assert!(of("a", "Zo\u{eb} \u{674e}").is_ok());
        assert_eq!(one.user(), User { method: IdentityMethod::Jwt, issuer: "a".into() });
        let key = Identity::new(IdentityMethod::ApiKey, "", "x".into()).unwrap();
        assert_eq!(
            serde_json::to_string(&[one.user(), key.user()]).unwrap(),
            r#"[{"method":"jwt","issuer":"a"},{"method":"apiKey"}]"#
        );
        let described = Identity::described("subject=x,issuer=a").unwrap();
        assert!(described.key() == one.key() && described.claims.is_empty());
        let forwarded = Identity::forwarded(one.key(), "x");
        assert!(forwarded.key() == one.key() && !forwarded.is_anonymous() && Identity::anonymous().is_anonymous());
    }
}
