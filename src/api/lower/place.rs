//! Where an object comes from.

use std::path::Path;

/// Where an object comes from, which decides what is available to it.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A file outside a cluster.
    File {
        /// Folder that the object's relative paths start from.
        folder: &'a Path,
        /// Folder that paths of plugins start from, if the gateway names none.
        plugin_dir: &'a Path,
    },
    /// A cluster.
    Cluster,
}
