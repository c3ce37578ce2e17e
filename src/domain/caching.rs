//! For how long and by whom a result may be cached (MCP 2026-07-28, caching).

use serde::Serialize;
use serde_json::value::RawValue;

use super::skim::Skim;

/// The longest time for which the gateway lets clients cache a list, in milliseconds. A plan can change at any time.
const OWN_TTL_MS: u64 = 5000;

/// What a server says about the caching of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// For how many milliseconds the result stays fresh (`ttlMs`); `None` if the server says nothing.
    pub ttl_ms: Option<u64>,
    /// Whether the result is for its caller alone (`cacheScope: private`).
    pub is_private: bool,
}

impl Caching {
    /// Reads the two members of a result. A server that gives no scope does not allow others to share the result, and a
    /// time that is no number of at least 0 counts as none.
    pub fn read(ttl_ms: Option<&RawValue>, cache_scope: Option<&RawValue>) -> Self {
        let ttl_ms = ttl_ms.and_then(|ttl| serde_json::from_str::<f64>(ttl.get()).ok()).filter(|ttl| *ttl >= 0.0);
        let is_public = cache_scope.and_then(|scope| Skim::from(scope).text()).is_some_and(|scope| scope == "public");
        // A cast of a float saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Self { ttl_ms: ttl_ms.map(|ttl| ttl as u64), is_private: !is_public }
    }

    /// Returns what holds of a result that is made of both: the shorter time, and `private` if one of them is.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let ttl_ms = match (self.ttl_ms, other.ttl_ms) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        Self { ttl_ms, is_private: self.is_private || other.is_private }
    }

    /// Returns what the gateway says of its own result, which is made of results of which this holds.
    pub fn hints(self) -> CacheHints {
        let ttl_ms = self.ttl_ms.unwrap_or(OWN_TTL_MS).min(OWN_TTL_MS);
        CacheHints { ttl_ms, cache_scope: if self.is_private { "private" } else { "public" } }
    }
}

/// The members of a modern result that say how it may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHints {
    /// For how many milliseconds the result stays fresh.
    pub ttl_ms: u64,
    /// `public` or `private`.
    pub cache_scope: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ttl: &str, scope: &str) -> (Option<u64>, bool) {
        let raw = |json: &str| (!json.is_empty()).then(|| RawValue::from_string(json.to_owned()).unwrap());
        let Caching { ttl_ms, is_private } = Caching::read(raw(ttl).as_deref(), raw(scope).as_deref());
        (ttl_ms, is_private)
    }

    #[test]
    fn only_what_is_said_to_be_public_is_public_and_times_are_numbers() {
        for (ttl, scope, expected) in [
            ("", "", (None, true)),
            ("0", r#""public""#, (Some(0), false)),
            ("1500.9", r#""publi\u0063""#, (Some(1500), false)),
            ("1e300", r#""private""#, (Some(u64::MAX), true)),
            ("-1", r#""shared""#, (None, true)),
            (r#""5""#, "true", (None, true)),
            ("null", "null", (None, true)),
        ] {
            assert_eq!(read(ttl, scope), expected, "{ttl} {scope}");
        }
    }

    #[test]
    fn of_several_the_least_counts() {
        let caching = |ttl_ms, is_private| Caching { ttl_ms, is_private };
        let silent = Caching::default();
        assert_eq!(silent.and(caching(Some(7), false)).and(caching(Some(3), false)), caching(Some(3), false));
        assert_eq!(caching(Some(7), true).and(silent), caching(Some(7), true));
        let json = |caching: Caching| serde_json::to_string(&caching.hints()).unwrap();
        assert_eq!(json(silent), r#"{"ttlMs":5000,"cacheScope":"public"}"#);
        assert_eq!(json(caching(Some(60_000), true)), r#"{"ttlMs":5000,"cacheScope":"private"}"#);
        assert_eq!(json(caching(Some(0), false)), r#"{"ttlMs":0,"cacheScope":"public"}"#);
    }
}
