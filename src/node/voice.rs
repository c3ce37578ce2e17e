//! What is known of a plugin's words: whose they are, and which values must not be seen in them.

use std::borrow::Cow;

use crate::domain::ports::LinkedPlugin;
use crate::domain::secret::SecretText;

/// Shorter values of an environment (`1`, `yes`) stand in too many words to be taken for secrets.
const SHORTEST: usize = 4;

/// A plugin's name, and its environment, which no log line and no error of it shows.
#[derive(Clone, Debug)]
pub struct Voice {
    name: String,
    secrets: Vec<SecretText>,
}

impl Voice {
    /// That of `plugin`.
    pub fn of(plugin: &LinkedPlugin) -> Self {
        let values = plugin.env.iter().map(|(_, value)| value.clone());
        Self {
            name: plugin.plan.key.to_string(),
            secrets: values.filter(|value| value.expose().len() >= SHORTEST).collect(),
        }
    }

    /// The plugin, as `namespace/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `text` with `[secret]` in the place of each value of the environment.
    pub fn masked<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        self.secrets.iter().fold(text.into(), |text, secret| match text.contains(secret.expose()) {
            true => text.replace(secret.expose(), "[secret]").into(),
            false => text,
        })
    }
}

#[cfg(test)]
impl Voice {
    /// One of a plugin that is only a name.
    pub fn named(name: &str, secrets: &[&str]) -> Self {
        Self { name: name.into(), secrets: secrets.iter().map(|secret| SecretText::new(*secret)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_environment_are_not_said() {
        let voice = Voice::named("n/p", &["swordfish", "hunter2"]);
        assert_eq!(voice.masked("a swordfish, hunter2, a swordfish"), "a [secret], [secret], a [secret]");
        assert!(matches!(voice.masked("nothing"), Cow::Borrowed("nothing")));
    }
}
