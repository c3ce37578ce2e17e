//! Code that is in the pod itself: files of its image or of a volume, below the plugin folder.

use std::collections::BTreeSet;

use crate::config::compile::{complete, file_code};
use crate::config::input::Files;
use crate::domain::plan::Plan;
use crate::domain::ports::Inspect;
use crate::domain::problem::Problem;
use crate::source::code::{by_key, folders_of_code, read_plugin_files};
use crate::source::facts_cache::FactsCache;
use crate::source::folders::Folders;

/// Puts code of the pod into plans.
pub struct PodCode<I> {
    facts: FactsCache<I>,
}

/// A plan with all the code there is.
pub struct Completed {
    /// The plan.
    pub plan: Plan,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    /// Files where a change may mean other code; none where the plan names none.
    pub folders: Folders,
}

impl<I: Inspect> PodCode<I> {
    /// Nothing was read yet.
    pub fn new(inspect: I) -> Self {
        Self { facts: FactsCache::new(inspect) }
    }

    /// Reads the files that `plan` names and puts them in. `running` is the plan in force.
    pub async fn complete(&mut self, plan: Plan, running: &Plan) -> Completed {
        let paths: BTreeSet<String> = plan.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect();
        if paths.is_empty() {
            return Completed { plan, problems: Vec::new(), folders: Folders::default() };
        }
        let plugin_dir = plan.gateway.runtime.plugin_dir.clone();
        let folder = plugin_dir.clone();
        let read = move || read_plugin_files(&folder, paths.iter().map(String::as_str));
        let files: Files = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        let code = files.keys().filter_map(|path| file_code(&files, path).ok());
        let facts = self.facts.of(&by_key(code)).await;
        let (plan, problems) = complete(plan, Some(running), &files, &facts);
        let folders = folders_of_code(&plugin_dir, &files);
        Completed { plan, problems, folders }
    }
}
