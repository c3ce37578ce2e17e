//! The values of the labels `tool` and `step`, whose number is limited.

use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashSet;

/// The maximum number of tools that have their own value of the label `tool`. The value for all other tools is
/// `_other`.
pub const MAX_TOOLS: usize = 500;

/// The tools that have their own value, as `{upstream}/{tool}`.
#[derive(Default)]
pub(super) struct ToolLabels {
    known: DashSet<String>,
    count: AtomicUsize,
}

impl ToolLabels {
    /// Returns the value for a tool.
    pub(super) fn label<'a>(&self, upstream: &str, tool: &'a str) -> &'a str {
        let mut key = String::with_capacity(upstream.len() + tool.len() + 1);
        key.push_str(upstream);
        key.push('/');
        key.push_str(tool);
        if self.known.contains(&key) {
            return tool;
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= MAX_TOOLS {
            self.count.store(MAX_TOOLS, Ordering::Relaxed);
            return "_other";
        }
        self.known.insert(key);
        tool
    }

    /// Removes the tools of upstreams for which `is_planned` returns false.
    pub(super) fn retain(&self, is_planned: impl Fn(&str) -> bool) {
        self.known.retain(|key| key.split_once('/').is_some_and(|(upstream, _)| is_planned(upstream)));
        self.count.store(self.known.len(), Ordering::Relaxed);
    }
}
