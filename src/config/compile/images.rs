//! Limits how many images with plugin code the pods of a gateway mount.

use std::collections::{BTreeMap, HashMap};

use super::fault::id;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{ImagePlan, Plan, PluginPlan};

/// Maximum number of images with plugin code in a plan.
const MAX_IMAGES: usize = 64;

/// The images that are mounted, by their volumes, each with the number of plugins that need it.
#[derive(Default)]
struct Mounted(HashMap<String, usize>);

impl Mounted {
    fn add(&mut self, image: &ImagePlan) {
        *self.0.entry(image.volume()).or_default() += 1;
    }

    fn remove(&mut self, image: &ImagePlan) {
        self.0.entry(image.volume()).and_modify(|plugins| *plugins -= 1);
        self.0.retain(|_, plugins| *plugins > 0);
    }
}

/// Returns the plugins whose images would be too many for the pods of the gateway, each with a message. A plugin of the
/// `previous` plan has room for the image that it has there, so new plugins never displace existing ones.
pub fn images_beyond(plan: &Plan, previous: Option<&Plan>) -> BTreeMap<ObjectId, String> {
    let before: HashMap<_, _> = previous.into_iter().flat_map(images).collect();
    let (existing, new): (Vec<_>, Vec<_>) = images(plan).partition(|(plugin, _)| before.contains_key(plugin));
    let mut mounted = Mounted::default();
    existing.iter().filter_map(|(plugin, _)| before.get(plugin)).for_each(|image| mounted.add(image));
    let mut beyond = BTreeMap::new();
    for (plugin, image) in existing.into_iter().chain(new) {
        let before = before.get(plugin);
        if let Some(before) = before {
            mounted.remove(before);
        }
        mounted.add(image);
        if mounted.0.len() > MAX_IMAGES {
            mounted.remove(image);
            if let Some(before) = before {
                mounted.add(before);
            }
            let message = format!(
                "the plugins of this gateway have more than {MAX_IMAGES} images, the most that its pods mount: put several \
                 plugins into one image"
            );
            beyond.insert(id(Kind::Plugin, plugin), message);
        }
    }
    beyond
}

/// Returns the plugins that run from an image.
fn images(plan: &Plan) -> impl Iterator<Item = (&ObjectKey, &ImagePlan)> {
    let image = |plugin: &'_ PluginPlan| plugin.enabled && plugin.image.is_some();
    plan.plugins
        .iter()
        .filter(move |plugin| image(plugin))
        .filter_map(|plugin| Some((&plugin.key, plugin.image.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{add_plugin, folder};
    use crate::config::input::{Inputs, SourceInput};

    /// Returns inputs with plugins of these images.
    fn inputs(images: impl Iterator<Item = String>) -> Inputs {
        let mut inputs = folder();
        for (number, reference) in images.enumerate() {
            let image = ImagePlan { reference, pull_policy: None, pull_secrets: Vec::new() };
            let source = SourceInput::Image { image, path: "a.mjs".into() };
            add_plugin(&mut inputs, &format!("p{number:02}"), |plugin| plugin.source = source);
        }
        inputs
    }

    #[test]
    fn images_beyond_the_most_wait_and_never_displace_those_that_run() {
        let numbered = |from: usize, to: usize| (from..to).map(|number| format!("i{number}"));
        let beyond = |images: Vec<String>, previous: Option<&Plan>| {
            let plan = compile(&inputs(images.into_iter()), previous).0;
            let found = images_beyond(&plan, previous);
            (plan, found.into_keys().map(|object| object.key.name).collect::<Vec<_>>())
        };
        let (full, none) = beyond(numbered(0, MAX_IMAGES).collect(), None);
        assert_eq!(none, [""; 0]);
        let (_, added) = beyond(numbered(0, MAX_IMAGES + 1).collect(), Some(&full));
        assert_eq!(added, ["p64"]);
        let (_, same) = beyond(numbered(0, MAX_IMAGES).chain(numbered(0, 8)).collect(), Some(&full));
        assert_eq!(same, [""; 0], "it is mounted already");
        let (_, changed) = beyond(numbered(100, 100 + MAX_IMAGES + 1).collect(), Some(&full));
        assert_eq!(changed, ["p64"], "each of the others takes the place of its image of before");
        let (shared, _) = beyond(numbered(0, MAX_IMAGES).chain(numbered(0, 2)).collect(), None);
        let (_, parted) = beyond(numbered(0, MAX_IMAGES).chain(numbered(100, 102)).collect(), Some(&shared));
        assert_eq!(parted, ["p64", "p65"]);
    }
}
