//! Where an object stands.

use std::path::Path;

/// Where an object stands: what there is for it differs.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// In a file.
    File {
        /// Where its relative paths start.
        folder: &'a Path,
        /// Where plugins' paths start, for a gateway that names no folder.
        plugin_dir: &'a Path,
    },
    /// In a cluster.
    Cluster,
}
