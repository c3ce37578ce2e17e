//! The header `Retry-After` (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// Returns how long the sender of a response asks to wait: a number of seconds, or until a date. `None` if it says nothing that
/// can be read.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = SystemTime::from(jiff::fmt::rfc2822::parse(value).ok()?.timestamp());
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_wait_is_a_number_of_seconds_or_ends_at_a_date() {
        let read = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        assert_eq!(read(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(read("Tue, 31 Dec 2999 23:59:59 GMT").unwrap() > Duration::from_secs(1 << 30));
        assert!(["", "-1", "1.5", "soon"].iter().all(|value| read(value).is_none()));
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
