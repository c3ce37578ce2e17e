//! Where an object comes from.

use std::path::Path;

/// Where an object comes from. This decides which settings can be served: for example, only a file can start local
/// programs.
#[derive(Clone, Copy, Debug)]
pub enum ManifestSource<'a> {
    /// A file outside a cluster.
    File {
        /// Folder that the object's relative paths are resolved against.
        folder: &'a Path,
        /// Plugin folder of a gateway that sets no `pluginDir`.
        plugin_dir: &'a Path,
    },
    /// A cluster.
    Cluster {
        /// DNS domain of the cluster, such as `cluster.local`.
        domain: &'a str,
    },
}
