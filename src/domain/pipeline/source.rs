//! The sources that a run has found (document 002, `Source`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key of `_meta` with the facts about a run.
pub const RUN: &str = "hawsepipe.dev/run";
/// The key of `_meta` with the sources of a run, or of what a server answers.
pub const SOURCES: &str = "hawsepipe.dev/sources";
/// The maximum number of sources of a run.
const MAX_SOURCES: usize = 1000;
/// The maximum number of bytes of a title or a URL, and of the metadata as JSON.
const MAX_TEXT: usize = 4096;
const MAX_METADATA: usize = 16 << 10;

/// A source, with its number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Its number in the run, from "1".
    pub id: String,
    /// Its URL; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its title.
    pub title: String,
    /// The host of its URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// When the run found it, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<String>,
    /// Where it was found.
    pub source_type: SourceType,
    /// Further data.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub source_metadata: Map<String, Value>,
}

/// Where a source was found (document 002, `SourceType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceType {
    /// On a web page.
    #[default]
    Web,
    /// In an index of vectors.
    VectorSearch,
    /// By an assistant with documents of its own.
    KnowledgeAssistant,
    /// Elsewhere.
    Custom,
}

/// A source, as a step or a tool reports it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSource {
    /// Its URL.
    pub url: Option<String>,
    /// Its title. Default: the URL.
    pub title: Option<String>,
    /// Where it was found, as a word of [`SourceType`].
    pub source_type: Option<String>,
    /// Further data.
    #[serde(default)]
    pub source_metadata: Map<String, Value>,
    /// When it was found. Only the gateway says so.
    #[serde(skip)]
    pub fetched_at: Option<String>,
}

/// The sources of a run, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

/// Why a source is not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSource(String);

impl Sources {
    /// Adds a source, and returns its number. A source with the URL of an earlier one, or without a URL and with the title
    /// and metadata of an earlier one, gets the number of that one.
    ///
    /// # Errors
    /// If it has neither a URL nor a title, is too large, is of an unknown type, or if there are too many.
    pub fn add(&mut self, new: NewSource) -> Result<String, InvalidSource> {
        let NewSource { url, title, source_type, source_metadata, fetched_at } = new;
        let invalid = |why: &str| Err(InvalidSource(why.to_owned()));
        let source_type = match source_type.map(|word| serde_json::from_value(Value::String(word))) {
            None => SourceType::default(),
            Some(Ok(source_type)) => source_type,
            Some(Err(_)) => {
                return invalid("sourceType is none of web, vector_search, knowledge_assistant, custom");
            }
        };
        let Some(title) = title.or_else(|| url.clone()) else { return invalid("a source needs a url or a title") };
        let metadata_size = Value::Object(source_metadata.clone()).to_string().len();
        if title.len() > MAX_TEXT
            || url.as_ref().is_some_and(|url| url.len() > MAX_TEXT)
            || metadata_size > MAX_METADATA
        {
            return invalid("the title or the url has more than 4 KiB, or sourceMetadata more than 16 KiB");
        }
        let is_same = |known: &&Source| match (&known.url, &url) {
            (Some(known), Some(url)) => known == url,
            (None, None) => known.title == title && known.source_metadata == source_metadata,
            _ => false,
        };
        if let Some(known) = self.0.iter().find(is_same) {
            return Ok(known.id.clone());
        }
        if self.0.len() == MAX_SOURCES {
            return invalid("the run has 1000 sources, as many as it may");
        }
        let id = (self.0.len() + 1).to_string();
        let domain = url.as_deref().and_then(domain);
        self.0.push(Source { id: id.clone(), url, title, domain, fetched_at, source_type, source_metadata });
        Ok(id)
    }

    /// Returns all sources.
    pub fn all(&self) -> &[Source] {
        &self.0
    }
}

/// Returns the host of a URL.
fn domain(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?.split(':').next()?;
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_is_numbered_once() {
        let mut sources = Sources::default();
        let mut add = |new: Value| sources.add(serde_json::from_value(new).unwrap());
        assert_eq!(add(json!({"url": "https://user@Example.com:1/a", "title": "A"})).unwrap(), "1");
        assert_eq!(add(json!({"title": "T", "sourceType": "custom", "sourceMetadata": {"x": 1}})).unwrap(), "2");
        assert_eq!(add(json!({"url": "https://user@Example.com:1/a", "title": "B"})).unwrap(), "1");
        assert_eq!(add(json!({"title": "T", "sourceMetadata": {"x": 1}})).unwrap(), "2");
        assert_eq!(add(json!({"title": "T"})).unwrap(), "3");
        assert!(add(json!({"title": "T", "sourceType": "blog"})).is_err());
        assert!(add(json!({})).is_err());
        let shown = json!(sources.all());
        assert_eq!(
            (&shown[0]["domain"], &shown[1]["sourceType"], &shown[0]["sourceType"]),
            (&json!("example.com"), &json!("custom"), &json!("web"))
        );
    }
}
