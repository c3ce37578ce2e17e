//! How long the gateway itself takes a list of a modern server for fresh (MCP 2026-07-28, caching).

use std::time::Duration;

/// The shortest time after which a list is read anew because the server says that it is no longer fresh.
const SHORTEST: Duration = Duration::from_secs(5);
/// The longest time for which a list is taken for fresh.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How many times longer than its reading a list is taken for fresh, so that a server whose lists are slow works on calls
/// for most of the time.
const REST: u32 = 9;
/// The largest part of the time by which it is lengthened at random, so that the processes of a gateway do not ask at once.
const JITTER: f64 = 0.1;

/// Returns for how long a list stays fresh that was read in the time `took`, and of which the server says `ttl_ms`.
/// `jitter` is a random number from 0 to 1. `None` if the server gives no time, or 0: the list is then read as often as if
/// there were no such member.
pub(in crate::engine) fn fresh_for(ttl_ms: Option<u64>, took: Duration, jitter: f64) -> Option<Duration> {
    let given = Duration::from_millis(ttl_ms.filter(|ttl| *ttl > 0)?);
    let fresh = given.max(took.saturating_mul(REST)).clamp(SHORTEST, LONGEST);
    Some(fresh.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_fresh_for_as_long_as_the_server_says_within_bounds() {
        let fresh =
            |ttl, took_ms, jitter| fresh_for(ttl, Duration::from_millis(took_ms), jitter).map(|it| it.as_millis());
        assert_eq!([fresh(None, 10, 0.5), fresh(Some(0), 10, 0.5)], [None, None]);
        assert_eq!([fresh(Some(1), 10, 0.0), fresh(Some(1), 1000, 0.0)], [Some(5000), Some(9000)]);
        assert_eq!([fresh(Some(60_000), 10, 0.0), fresh(Some(60_000), 10, 1.0)], [Some(60_000), Some(66_000)]);
        assert_eq!(fresh(Some(u64::MAX), 10, 0.0), Some(3_600_000));
    }
}
