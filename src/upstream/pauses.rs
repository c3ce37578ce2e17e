//! Pauses before requests of the gateway's own are sent again to a server that takes no more at the moment (HTTP 429).

use std::time::Duration;

/// The first pause if the server asks for none. It doubles each time, up to the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// All pauses together.
const MOST: Duration = Duration::from_secs(180);

/// The pauses of a handshake, or of one list.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
    left: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST, left: MOST }
    }
}

impl Pauses {
    /// Returns how long to wait now: as long as the server asks for, or else longer each time. `None` if all pauses together
    /// would be too long.
    pub(super) fn take(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let pause = asked.filter(|pause| !pause.is_zero()).unwrap_or(self.next);
        self.next = (self.next * 2).min(LONGEST);
        self.left = self.left.checked_sub(pause)?;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_those_that_the_server_asks_for_or_grow() {
        let seconds = |asked: &[Option<u64>]| {
            let mut pauses = Pauses::default();
            let taken = asked.iter().map(|asked| pauses.take(asked.map(Duration::from_secs)));
            taken.map(|pause| pause.map(|pause| pause.as_secs())).collect::<Vec<_>>()
        };
        assert_eq!(seconds(&[Some(7), None, Some(0), Some(3)]), [Some(7), Some(2), Some(4), Some(3)]);
        let growing = [1, 2, 4, 8, 16, 30, 30, 30, 30].map(Some);
        assert_eq!(seconds(&[None; 10]), [&growing[..], &[None]].concat());
        assert_eq!(seconds(&[Some(u64::MAX), Some(180), Some(1)]), [None, Some(180), None]);
    }
}
