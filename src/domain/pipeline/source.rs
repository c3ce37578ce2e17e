//! The sources that a run has found (document 002, `Source`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::domain::json_size::json_size;

/// The key of `_meta` with the facts about a run.
pub const RUN: &str = "hawsepipe.dev/run";
/// The key of `_meta` with the sources of a run, or of what a server answers.
pub const SOURCES: &str = "hawsepipe.dev/sources";
/// The schemes of the URLs of sources. Others, such as `javascript`, are no links that a user may follow.
const SCHEMES: [&str; 3] = ["http", "https", "file"];
/// The member of a source's metadata with a URI that is no URL of a source.
const URI: &str = "uri";
/// The maximum number of sources of a run.
const MAX_SOURCES: usize = 1000;
/// The maximum number of bytes of a title or a URL, and of the metadata as JSON.
const MAX_TEXT: usize = 4096;
const MAX_METADATA: u64 = 16 << 10;

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
pub struct Sources {
    all: Vec<Source>,
    bytes: u64,
}

/// Why a source is not taken in. The message can have the scheme of its URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSource(String);

fn invalid<T>(why: impl Into<String>) -> Result<T, InvalidSource> {
    Err(InvalidSource(why.into()))
}

impl NewSource {
    /// The number of bytes that the source holds.
    #[must_use]
    pub fn size(&self) -> u64 {
        let [title, url] = [&self.title, &self.url].map(|text| text.as_ref().map_or(0, String::len));
        (title + url) as u64 + json_size(&self.source_metadata)
    }

    /// Returns the source as a server's result has it: what cannot be a URL of a source is text, in its metadata.
    #[must_use]
    pub fn of_server(mut self) -> Self {
        let Some(uri) = self.url.take() else { return self };
        let uri = without_controls(&uri);
        match checked_url(&uri) {
            Ok(_) => self.url = Some(uri),
            Err(_) => {
                let uri = without_credentials(uri);
                self.title.get_or_insert_with(|| uri.clone());
                self.source_metadata.insert(URI.to_owned(), Value::String(uri));
            }
        }
        self
    }
}

impl Sources {
    /// Adds a source, and returns its number. A source with the URL of an earlier one, or without a URL and with the title
    /// and metadata of an earlier one, gets the number of that one.
    ///
    /// # Errors
    /// If it has neither a URL nor a title, has a URL that no client may follow, is too large, is of an unknown type, or if
    /// there are too many.
    pub fn add(&mut self, new: NewSource) -> Result<String, InvalidSource> {
        let bytes = new.size();
        let NewSource { url, title, source_type, source_metadata, fetched_at } = new;
        let source_type = match source_type.map(|word| serde_json::from_value(Value::String(word))) {
            None => SourceType::default(),
            Some(Ok(source_type)) => source_type,
            Some(Err(_)) => return invalid("sourceType is none of web, vector_search, knowledge_assistant, custom"),
        };
        let url = url.map(|url| without_controls(&url));
        let domain = url.as_deref().map(checked_url).transpose()?.flatten();
        let title = title.map(|title| without_controls(&title)).filter(|title| !title.trim().is_empty());
        let Some(title) = title.or_else(|| url.clone()) else {
            return invalid("title: a source needs a title or a url");
        };
        if title.len() > MAX_TEXT
            || url.as_ref().is_some_and(|url| url.len() > MAX_TEXT)
            || json_size(&source_metadata) > MAX_METADATA
        {
            return invalid("the title or the url has more than 4 KiB, or sourceMetadata more than 16 KiB");
        }
        let is_same = |known: &&Source| match (&known.url, &url) {
            (Some(known), Some(url)) => known == url,
            (None, None) => known.title == title && known.source_metadata == source_metadata,
            _ => false,
        };
        if let Some(known) = self.all.iter().find(is_same) {
            return Ok(known.id.clone());
        }
        if self.all.len() == MAX_SOURCES {
            return invalid("the run has 1000 sources, as many as it may");
        }
        let id = (self.all.len() + 1).to_string();
        self.bytes += bytes;
        self.all.push(Source { id: id.clone(), url, title, domain, fetched_at, source_type, source_metadata });
        Ok(id)
    }

    /// Returns all sources.
    pub fn all(&self) -> &[Source] {
        &self.all
    }

    /// The number of bytes that the sources hold.
    pub fn size(&self) -> u64 {
        self.bytes
    }
}

/// Checks the URL of a source, and returns its host.
fn checked_url(text: &str) -> Result<Option<String>, InvalidSource> {
    let allowed = SCHEMES.join(", ");
    let Ok(url) = Url::parse(text) else {
        return invalid(format!("url: it is not an absolute URL of scheme {allowed}"));
    };
    if !SCHEMES.contains(&url.scheme()) {
        return invalid(format!("url: scheme {:.32} is not one of {allowed}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return invalid("url: it has credentials before the host: leave them out");
    }
    Ok(url.host_str().map(str::to_owned))
}

/// Returns a URI without the credentials of its authority.
fn without_credentials(uri: String) -> String {
    let Ok(mut url) = Url::parse(&uri) else { return uri };
    if url.username().is_empty() && url.password().is_none() {
        return uri;
    }
    let is_removed = url.set_username("").and_then(|()| url.set_password(None)).is_ok();
    if is_removed { url.into() } else { String::new() }
}

/// Readers of a URL pass over some control characters, so that it would be another one for them.
fn without_controls(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_is_numbered_once() {
        let mut sources = Sources::default();
        let mut add = |new: Value| sources.add(serde_json::from_value(new).unwrap());
        assert_eq!(add(json!({"url": "https://Example.com:1/a", "title": "A"})).unwrap(), "1");
        assert_eq!(add(json!({"title": "T", "sourceType": "custom", "sourceMetadata": {"x": 1}})).unwrap(), "2");
        assert_eq!(add(json!({"url": "https://Example.com:1/a", "title": "B"})).unwrap(), "1");
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

    /// A URL, with words of why a plugin's source with it is refused, and the `url` and `sourceMetadata.uri` of a server's.
    const URLS: [(&str, &str, Option<&str>, Option<&str>); 12] = [
        ("https://a.example/b", "", Some("https://a.example/b"), None),
        ("HTTP://a.example", "", Some("HTTP://a.example"), None),
        ("file:///a/b", "", Some("file:///a/b"), None),
        (
            "java\nscript:alert(1)",
            "scheme javascript is not one of http, https, file",
            None,
            Some("javascript:alert(1)"),
        ),
        ("\u{1}javascript:alert(1)", "scheme javascript", None, Some("javascript:alert(1)")),
        ("data:text/html,x", "scheme data", None, Some("data:text/html,x")),
        ("db://orders/1", "scheme db", None, Some("db://orders/1")),
        ("/a/b", "not an absolute URL", None, Some("/a/b")),
        ("//a.example/b", "not an absolute URL", None, Some("//a.example/b")),
        ("https://", "not an absolute URL", None, Some("https://")),
        ("https://u:secret@a.example/b", "it has credentials", None, Some("https://a.example/b")),
        ("ftp://u:secret@a.example/b", "scheme ftp", None, Some("ftp://a.example/b")),
    ];

    #[test]
    fn a_url_that_no_client_may_follow_is_refused_from_a_plugin_and_text_from_a_server() {
        for (url, words, expected, uri) in URLS {
            let source = NewSource { url: Some(url.to_owned()), ..NewSource::default() };
            let refused = Sources::default().add(source.clone()).map_or_else(|why| why.to_string(), |_| String::new());
            assert!(refused.contains(words) && refused.is_empty() == words.is_empty(), "{url}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
            let mut sources = Sources::default();
            sources.add(source.of_server()).unwrap();
            let shown = &sources.all()[0];
            let found = (shown.url.as_deref(), shown.source_metadata.get("uri").and_then(Value::as_str));
            assert_eq!(found, (expected, uri), "{url}");
            assert_eq!(Some(shown.title.as_str()), expected.or(uri), "{url}");
        }
    }

    #[test]
    fn a_source_has_a_title() {
        let added = |new: Value| {
            let mut sources = Sources::default();
            sources.add(serde_json::from_value(new).unwrap()).map(|_| sources.all()[0].title.clone())
        };
        let needed = Err(InvalidSource("title: a source needs a title or a url".to_owned()));
        assert_eq!(added(json!({"title": " \u{7}"})), needed);
        assert_eq!(added(json!({"url": "https://a.example", "title": ""})).unwrap(), "https://a.example");
        assert_eq!(added(json!({"title": "a\nb"})).unwrap(), "ab");
    }
}
