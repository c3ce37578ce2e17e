//! The life of a guard: edited, broken, deleted, recreated, slow to load, not to be loaded.

use std::time::{Duration, Instant};

use serde_json::json;

use super::calls::{Clients, End};
use crate::gateway::harness::Folder;
use crate::gateway::manifests::{object, yaml};

/// How long each form of it is left alone.
const DWELL: Duration = Duration::from_secs(1);
/// A stretch of time.
pub type Span = (Instant, Instant);

/// When it could not run.
#[derive(Default)]
pub struct Gaps {
    /// From the moment before it was deleted until it was seen to run again.
    pub maybe: Vec<Span>,
    /// From when it was seen to refuse until it was recreated.
    pub surely: Vec<Span>,
}

/// A version of its code; `first` runs as it is loaded. It marks what it takes out with its version.
fn code(version: u32, first: &str) -> String {
    format!(
        "{first}
const clean = (text) => text.replace(/SECRET-[0-9a-f]+/g, '[v{version}]');
const walk = (value) => {{
  if (typeof value === 'string') return clean(value);
  if (Array.isArray(value)) return value.map(walk);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [clean(name), walk(inner)]));
}};
export default ({{ rawContent, metadata }}) => ({{
  text: metadata.contentType === 'json' ? JSON.stringify(walk(JSON.parse(rawContent))) : clean(rawContent),
  continue: true,
  metadata: {{ request: metadata.requestId, version: {version} }},
}});
"
    )
}

/// A form that parses and cannot be loaded.
fn not_to_be_loaded(round: usize) -> String {
    match round % 3 {
        0 => code(1000, "throw new Error('not today');"),
        1 => code(1000, "import './missing.mjs';"),
        _ => "export const nothing = 1;".to_owned(),
    }
}

/// Writes its first version, its Plugin and its chain.
pub fn create(folder: &Folder) {
    folder.write("plugins/guard.mjs", &code(0, ""));
    write_plugin(folder);
    write_chain(folder);
}

fn write_plugin(folder: &Folder) {
    let spec = json!({"source": {"path": "guard.mjs"}, "role": "Guard", "protocol": "Module"});
    folder.write("guard.yaml", &yaml(&[object("Plugin", "guard", &spec)]));
}

fn write_chain(folder: &Folder) {
    let spec = json!({"phase": "Response", "entries": [{"name": "guard"}]});
    folder.write("answers.yaml", &yaml(&[object("PluginChain", "answers", &spec)]));
}

/// The guard under the hands of its owner.
pub struct Guard<'a> {
    folder: &'a Folder,
    clients: &'a Clients,
    version: u32,
    gaps: Gaps,
}

impl<'a> Guard<'a> {
    /// As [`create`] left it.
    pub fn new(folder: &'a Folder, clients: &'a Clients) -> Self {
        Self { folder, clients, version: 0, gaps: Gaps::default() }
    }

    /// Lives in rounds until `end`, then says when it could not run.
    pub async fn live(mut self, end: Instant) -> Gaps {
        let mut round = 0;
        while Instant::now() < end {
            self.edit("").await;
            self.keep("export default (").await;
            self.edit("").await;
            self.delete("guard.yaml", write_plugin).await;
            self.edit("await new Promise((resolve) => setTimeout(resolve, 1500));").await;
            self.keep(&not_to_be_loaded(round)).await;
            self.edit("").await;
            self.delete("answers.yaml", write_chain).await;
            round += 1;
        }
        self.gaps
    }

    /// A new version: the one before it runs until the new one does.
    async fn edit(&mut self, first: &str) {
        self.version += 1;
        self.folder.write("plugins/guard.mjs", &code(self.version, first));
        self.runs().await;
        tokio::time::sleep(DWELL).await;
    }

    /// A form that cannot run: the version before it runs on.
    async fn keep(&self, code: &str) {
        self.folder.write("plugins/guard.mjs", code);
        tokio::time::sleep(DWELL).await;
        self.runs().await;
    }

    /// Deletes a manifest, and writes it again.
    async fn delete(&mut self, file: &str, write: fn(&Folder)) {
        let from = Instant::now();
        std::fs::remove_file(self.folder.path().join(file)).unwrap();
        let refuses = self.clients.until("real", |end| *end == End::Refused).await;
        tokio::time::sleep(DWELL).await;
        self.gaps.surely.push((refuses, Instant::now()));
        write(self.folder);
        self.gaps.maybe.push((from, self.runs().await));
    }

    async fn runs(&self) -> Instant {
        let version = self.version;
        self.clients.until("real", |end| matches!(end, End::Answered(seen, _) if *seen == version)).await
    }
}
