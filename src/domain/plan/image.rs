//! Images that contain plugin code, which the gateway's pods mount.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::digest::sha256_hex;

/// The folder in a gateway's pod that contains one folder for each mounted image.
const IMAGES: &str = "/run/hawsepipe/images";

/// An image with plugin code, which is mounted in the pods of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImagePlan {
    /// Reference of the image.
    pub reference: String,
    /// When the image is pulled, as Kubernetes writes it; `None` means the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<String>,
    /// Names of the Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
}

impl ImagePlan {
    /// Returns the name of the volume: a DNS label that differs for every reference and pull policy.
    pub fn volume(&self) -> String {
        let policy = self.pull_policy.as_deref().unwrap_or_default();
        format!("image-{:.16}", sha256_hex(format!("{} {policy}", self.reference).as_bytes()))
    }

    /// Returns the folder in the pod in which the image is mounted.
    pub fn folder(&self) -> PathBuf {
        Path::new(IMAGES).join(self.volume())
    }
}

/// Returns the folder of the mounted image to which a path in the pod leads, and the rest of the path; `None` for other
/// paths.
pub fn in_image(path: &str) -> Option<(PathBuf, &str)> {
    let (volume, rest) = path.strip_prefix(IMAGES)?.strip_prefix('/')?.split_once('/')?;
    Some((Path::new(IMAGES).join(volume), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_an_image_is_found_in_paths() {
        let of = |reference: &str, policy: Option<&str>| ImagePlan {
            reference: reference.into(),
            pull_policy: policy.map(str::to_owned),
            pull_secrets: Vec::new(),
        };
        let image = of("a/b:1", None);
        let path = image.folder().join("dist/index.mjs");
        assert_eq!(in_image(path.to_str().unwrap()), Some((image.folder(), "dist/index.mjs")));
        for other in ["dist/index.mjs", "/plugins/a.mjs", "/run/hawsepipe/images/a", "/run/hawsepipe/images2/a/b"] {
            assert_eq!(in_image(other), None, "{other}");
        }
        assert_ne!(image.volume(), of("a/b:2", None).volume());
        assert_ne!(image.volume(), of("a/b:1", Some("Always")).volume());
        assert!(image.volume().len() <= 63);
    }
}
