//! Where the programs of a control plane are. `make setup` puts them there.

use std::path::PathBuf;

use super::checkout;

/// A folder with etcd, kube-apiserver and perhaps more, as envtest has it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The programs of a control plane.
pub struct Programs {
    /// etcd, 3.4 or newer.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub api_server: PathBuf,
    /// kube-controller-manager.
    pub controller_manager: PathBuf,
}

impl Programs {
    /// Looks for each of them.
    ///
    /// # Errors
    /// One line that names what lacks and says how to get it.
    pub fn find() -> Result<Self, String> {
        Ok(Self {
            etcd: program("etcd")?,
            api_server: program("kube-apiserver")?,
            controller_manager: program("kube-controller-manager")?,
        })
    }
}

/// kubectl; `PATH` is looked through last.
///
/// # Errors
/// One line that says how to get it.
pub fn kubectl() -> Result<PathBuf, String> {
    program("kubectl").or_else(|lacks| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file()).ok_or(lacks)
    })
}

fn program(name: &str) -> Result<PathBuf, String> {
    let named = std::env::var_os(ASSETS).map(|folder| PathBuf::from(folder).join(name));
    let built = checkout().join(".cache/k8s/bin").join(name);
    named.into_iter().chain([built]).find(|file| file.is_file()).ok_or_else(|| {
        format!(
            "{name} is neither in {ASSETS} nor in .cache/k8s/bin: run `make setup`, which builds it with Go, or name a \
             throw-away cluster in KUBECONFIG_TEST"
        )
    })
}
