//! Which level of log messages a server is told over one connection. It is told one level at a time, and always the newest
//! that is wanted, so that the last one that it hears is the one that counts.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::log_level::LogLevel;

/// The levels of one connection.
#[derive(Debug, Default)]
pub(super) struct ReportedLevel {
    levels: Mutex<Levels>,
    telling: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Levels {
    wanted: Option<LogLevel>,
    /// What the server was told last; `None` if it was not told any.
    told: Option<LogLevel>,
    /// Whether a task is about to tell the server what is wanted then.
    is_due: bool,
}

/// While this value exists, the server is told a level.
pub(super) struct Telling<'a> {
    pub(super) level: LogLevel,
    _one_at_a_time: tokio::sync::MutexGuard<'a, ()>,
}

impl ReportedLevel {
    /// Notes the level that is wanted from now on. Unless it is the `exact` one, a lower one does too. Returns whether a task
    /// has to be started that tells the server; see [`Self::begin`] and [`Self::end`].
    pub(super) fn want(&self, level: LogLevel, exact: bool) -> bool {
        let mut levels = self.lock();
        if levels.wanted.is_none_or(|wanted| if exact { wanted != level } else { wanted > level }) {
            levels.wanted = Some(level);
        }
        let starts = levels.told != levels.wanted && !levels.is_due;
        levels.is_due |= starts;
        starts
    }

    /// Begins to tell the server, once it was told what came before. `None` if it was told the level that is wanted.
    pub(super) async fn begin(&self) -> Option<Telling<'_>> {
        let one_at_a_time = self.telling.lock().await;
        let mut levels = self.lock();
        levels.is_due = false;
        let level = levels.wanted.filter(|wanted| levels.told != Some(*wanted))?;
        levels.told = Some(level);
        drop(levels);
        Some(Telling { level, _one_at_a_time: one_at_a_time })
    }

    /// Records that a task has ended that was started to tell the server, whether it began or not.
    pub(super) fn end(&self) {
        self.lock().is_due = false;
    }

    fn lock(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::domain::log_level::LogLevel::{Debug, Error, Info, Warning};

    #[test]
    fn a_server_is_told_the_newest_level_and_one_at_a_time() {
        let level = ReportedLevel::default();
        let begin = || level.begin().now_or_never();
        assert!(level.want(Warning, true));
        let telling = begin().flatten().unwrap();
        assert_eq!(telling.level, Warning);
        assert!(level.want(Debug, true), "a task waits for its turn");
        assert!(!level.want(Error, true), "which is to tell this one");
        assert!(begin().is_none(), "the server has not answered yet");
        drop(telling);
        assert_eq!(begin().flatten().unwrap().level, Error);
        assert!(!level.want(Error, true) && begin().flatten().is_none());
    }

    #[test]
    fn a_lower_level_does_if_not_the_exact_one_is_wanted() {
        let level = ReportedLevel::default();
        assert!(level.want(Info, false));
        assert_eq!(level.begin().now_or_never().flatten().unwrap().level, Info);
        assert!(!level.want(Error, false) && level.want(Debug, false));
        assert!(!level.want(Debug, false), "a task is about to");
        level.end();
        assert!(level.want(Debug, false), "which could not be started");
    }
}
