//! Requests to read the manifests. A caller who waits until the requested reading is done knows that an earlier edit is
//! in force.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Why a reading cannot be waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSettled {
    /// No task reads manifests on demand, because the plan comes from another source.
    #[error("this gateway reads no manifests: its operator's objects say what is in force (condition Programmed)")]
    NotFollowed,
    /// The manifests could not be read. The current plan stays in force.
    #[error("the plan stays as it is: {0}")]
    Unread(String),
}

/// Connects the tasks that request a reading with the task that performs it. Readings are numbered. One reading answers
/// all requests that were made before it began.
pub struct Readings {
    followed: AtomicBool,
    asked: watch::Sender<u64>,
    done: watch::Sender<(u64, Result<(), String>)>,
}

impl Default for Readings {
    fn default() -> Self {
        Self { followed: AtomicBool::new(false), asked: watch::Sender::new(0), done: watch::Sender::new((0, Ok(()))) }
    }
}

impl Readings {
    /// Declares that a task performs the requested readings. Until then, [`Readings::settle`] fails.
    pub fn follow(&self) {
        self.followed.store(true, Ordering::Relaxed);
    }

    /// Requests a reading, and waits until everything that was written before this call is in force.
    ///
    /// # Errors
    /// If no task performs readings, or the reading failed.
    pub async fn settle(&self) -> Result<(), NotSettled> {
        if !self.followed.load(Ordering::Relaxed) {
            return Err(NotSettled::NotFollowed);
        }
        let mut done = self.done.subscribe();
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        let reading = done.wait_for(|(done, _)| *done >= number).await;
        let reading = reading.map_err(|_| NotSettled::Unread("the gateway ends".to_owned()))?;
        reading.1.clone().map_err(NotSettled::Unread)
    }

    /// Returns why the last reading failed, and the plan therefore stays as it is; `None` if it did not fail.
    pub fn failure(&self) -> Option<NotSettled> {
        self.done.borrow().1.clone().err().map(NotSettled::Unread)
    }

    /// Waits until a reading is requested.
    pub async fn asked(&self) {
        let done = self.done.borrow().0;
        // The channel closes only when the gateway ends.
        let _ = self.asked.subscribe().wait_for(|asked| *asked > done).await;
    }

    /// Begins a reading and returns its number. The reading answers all requests made before this call.
    pub fn begin(&self) -> u64 {
        *self.asked.borrow()
    }

    /// Ends the reading with this number. `read` is `Ok` if the manifests are in force, or says why they could not be
    /// read.
    pub fn end(&self, number: u64, read: Result<(), String>) {
        let _ = self.done.send_replace((number, read));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn an_edit_is_waited_for_until_a_reading_that_began_after_it_is_in_force() {
        let readings = Arc::new(Readings::default());
        assert_eq!(readings.settle().await, Err(NotSettled::NotFollowed));
        readings.follow();
        let before = readings.begin();
        let waiting = tokio::spawn({
            let readings = Arc::clone(&readings);
            async move { readings.settle().await }
        });
        readings.asked().await;
        readings.end(before, Ok(()));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "that reading began before the edit");
        let after = readings.begin();
        readings.end(after, Ok(()));
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn what_could_not_be_read_is_told() {
        let readings = Arc::new(Readings::default());
        readings.follow();
        let waiting = tokio::spawn({
            let readings = Arc::clone(&readings);
            async move { readings.settle().await }
        });
        readings.asked().await;
        readings.end(readings.begin(), Err("the folder is away".to_owned()));
        let away = NotSettled::Unread("the folder is away".to_owned());
        assert_eq!((waiting.await.unwrap(), readings.failure()), (Err(away.clone()), Some(away)));
        readings.end(readings.begin(), Ok(()));
        assert_eq!(readings.failure(), None);
    }
}
