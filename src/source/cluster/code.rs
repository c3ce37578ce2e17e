//! Plugin code in the pod itself: files of its image or of a volume, below the plugin folder.

use std::collections::BTreeSet;

use crate::config::compile::{complete, file_code};
use crate::config::input::Files;
use crate::domain::plan::Plan;
use crate::domain::ports::Inspect;
use crate::domain::problem::Problem;
use crate::source::code::{by_key, folders_of_code, read_plugin_files};
use crate::source::facts_cache::FactsCache;
use crate::source::folders::Folders;

/// Adds plugin code from the pod's files to plans.
pub struct PodCode<I> {
    facts: FactsCache<I>,
}

/// A plan with the code of its plugins, as far as it could be read.
pub struct Completed {
    /// The plan. A plugin whose new code is not accepted keeps the code that it has in the running plan, if it has any.
    pub plan: Plan,
    /// The Problems of code files.
    pub problems: Vec<Problem>,
    /// The folders to watch, and which of their files can change the code; empty if the plan names no files.
    pub folders: Folders,
}

impl<I: Inspect> PodCode<I> {
    /// Creates an instance with an empty cache.
    pub fn new(inspect: I) -> Self {
        Self { facts: FactsCache::new(inspect) }
    }

    /// Reads the files that `plan` names and adds their code. `running` is the plan in force.
    pub async fn complete(&mut self, plan: Plan, running: &Plan) -> Completed {
        let paths: BTreeSet<String> = plan.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect();
        let scripts = plan.plugins.iter().filter(|plugin| plugin.wrapper.is_none());
        let scripts: BTreeSet<String> = scripts.filter_map(|plugin| plugin.path.clone()).collect();
        if paths.is_empty() {
            return Completed { plan, problems: Vec::new(), folders: Folders::default() };
        }
        let plugin_dir = plan.gateway.runtime.plugin_dir.clone();
        let folder = plugin_dir.clone();
        let read = move || read_plugin_files(&folder, paths.iter().map(String::as_str));
        let files: Files = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        let code = scripts.iter().filter_map(|path| file_code(&files, path).ok());
        let facts = self.facts.of(&by_key(code)).await;
        let (plan, problems) = complete(plan, Some(running), &files, &facts);
        let folders = folders_of_code(&plugin_dir, &files);
        Completed { plan, problems, folders }
    }
}
