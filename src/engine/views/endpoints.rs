//! Whether the MCP endpoints of this process are where the plan in force has them.

use tokio::sync::watch;

use crate::domain::problem::Problem;

/// What is known of the endpoints since the last plan that they followed.
#[derive(Debug, Default)]
struct Followed {
    /// The revision of the plan.
    revision: String,
    /// What is wrong with its listeners, such as an address that another program has.
    problems: Vec<Problem>,
}

/// Connects the task that opens and closes endpoints with those who ask what came of it.
#[derive(Debug, Default)]
pub struct Endpoints(watch::Sender<Option<Followed>>);

impl Endpoints {
    /// Says that the endpoints followed the plan of this revision, and what is wrong with its listeners.
    pub fn followed(&self, revision: &str, problems: Vec<Problem>) {
        self.0.send_replace(Some(Followed { revision: revision.to_owned(), problems }));
    }

    /// Says that no task follows plans any more.
    pub fn end(&self) {
        self.0.send_replace(None);
    }

    /// Waits until the endpoints have followed the plan whose revision `current` returns. Returns at once if no task
    /// follows plans.
    pub(super) async fn settle(&self, current: impl Fn() -> String) {
        let follows =
            |followed: &Option<Followed>| followed.as_ref().is_none_or(|followed| followed.revision == current());
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(follows).await;
    }

    /// What is wrong with the listeners of the plan that was followed last.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.0.borrow().as_ref().map(|followed| followed.problems.clone()).unwrap_or_default()
    }
}
