//! Converts YAML text to JSON values and their positions. This module performs no IO, and limits the depth and the
//! number of values, including those that aliases repeat.
//!
//! Scalars follow the core schema of YAML 1.2: `yes` and `on` are strings. kubectl still follows YAML 1.1; a scalar
//! that it would read differently yields a warning.

mod positions;
mod scalar;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScanError, Span};
use serde_json::{Map, Value};

pub use self::positions::{Position, PositionTree};

/// The deepest nesting of mappings and lists.
pub const MAX_DEPTH: usize = 128;
/// The maximum number of scalars, mappings and lists in one file. An alias counts as much as the value that it refers
/// to, and each 64 bytes of text count as one more.
pub const MAX_NODES: usize = 200_000;
const BYTES_PER_NODE: usize = 64;

/// One document of a file. `Debug` leaves out the value, because it can be a Secret.
#[derive(Clone)]
pub struct Document {
    /// The document as JSON.
    pub value: Value,
    /// The positions of the document's values.
    pub places: PositionTree,
    /// Values that kubectl would read differently: the position, and a message that says what to do.
    pub ambiguous: Vec<(Position, String)>,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("here", &self.places.here()).finish_non_exhaustive()
    }
}

/// Why a text cannot be read: it is not valid YAML, uses something unsupported, or exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", place.line, place.column)]
pub struct YamlError {
    /// The position of the error.
    pub place: Position,
    /// Message that describes the error, without its position.
    pub message: String,
    /// True if the text is not valid YAML, false if it is YAML that is not supported or exceeds a limit.
    pub is_syntax: bool,
}

/// Returns the documents of `text`, without empty ones.
///
/// # Errors
/// Returns the first place that is not valid YAML, repeats a key, has an unsupported tag or a merge key, or exceeds
/// [`MAX_DEPTH`] or [`MAX_NODES`].
pub fn read(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut parser = Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut reader = DocumentReader::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| no_yaml(&error))?;
        reader.event(event, span)?;
    }
    Ok(reader.documents)
}

fn no_yaml(error: &ScanError) -> YamlError {
    YamlError { place: place(error.marker()), message: format!("it is not YAML: {}", error.info()), is_syntax: true }
}

fn place(marker: &Marker) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: number(marker.line()), column: number(marker.col().saturating_add(1)) }
}

/// A value that was read completely.
#[derive(Clone)]
struct Whole {
    value: Value,
    places: PositionTree,
    nodes: usize,
}

/// A mapping or list whose end has not been reached yet.
enum Open {
    Mapping { members: Map<String, Value>, places: PositionTree, key: Option<(String, Position)> },
    List { items: Vec<Value>, places: PositionTree },
}

/// An open collection, its anchor, and the nodes in it so far.
struct Level {
    open: Open,
    anchor: usize,
    nodes: usize,
}

#[derive(Default)]
struct DocumentReader {
    documents: Vec<Document>,
    ambiguous: Vec<(Position, String)>,
    levels: Vec<Level>,
    anchors: HashMap<usize, Whole>,
    nodes: usize,
}

impl DocumentReader {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let at = place(&span.start);
        match event {
            Event::DocumentStart(_) => {
                self.anchors.clear();
                self.ambiguous.clear();
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                if self.wants_key() {
                    return self.key(&text, at);
                }
                let scalar = scalar::read(&text, style, tag.as_deref());
                let (value, warning) = scalar.or_else(|message| fail(at, message))?;
                self.ambiguous.extend(warning.map(|warning| (at, warning)));
                self.whole(
                    Whole { value, places: PositionTree::leaf(at), nodes: 1 + text.len() / BYTES_PER_NODE },
                    anchor,
                    at,
                )
            }
            Event::MappingStart(anchor, tag) => {
                let places = PositionTree::leaf(at);
                self.open(Open::Mapping { members: Map::new(), places, key: None }, anchor, tag.is_some(), at)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(Open::List { items: Vec::new(), places: PositionTree::leaf(at) }, anchor, tag.is_some(), at)
            }
            Event::MappingEnd | Event::SequenceEnd => self.close(at),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(whole) => self.whole(Whole { places: whole.places.moved(at), ..whole }, 0, at),
                None => fail(at, "the alias stands inside what it names"),
            },
            _ => Ok(()),
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.levels.last(), Some(Level { open: Open::Mapping { key: None, .. }, .. }))
    }

    fn key(&mut self, text: &str, at: Position) -> Result<(), YamlError> {
        let Some(Level { open: Open::Mapping { members, places, key }, nodes, .. }) = self.levels.last_mut() else {
            return Ok(());
        };
        *nodes += text.len() / BYTES_PER_NODE;
        self.nodes += text.len() / BYTES_PER_NODE;
        if text == "<<" {
            return fail(at, "merge keys (<<) are not read; write the members out");
        }
        if members.contains_key(text) {
            let first = places.member(text).map_or(0, |first| first.line);
            return fail(at, format!("the key {text:.40} stands here twice; it is in line {first} too"));
        }
        *key = Some((text.to_owned(), at));
        Ok(())
    }

    fn open(&mut self, open: Open, anchor: usize, tagged: bool, at: Position) -> Result<(), YamlError> {
        if tagged {
            return fail(at, "tags are not read on mappings and lists; take it out");
        }
        if self.wants_key() {
            return fail(at, "a key must be a word");
        }
        if self.levels.len() >= MAX_DEPTH {
            return fail(at, format!("more than {MAX_DEPTH} levels of mappings and lists"));
        }
        self.levels.push(Level { open, anchor, nodes: 1 });
        Ok(())
    }

    fn close(&mut self, at: Position) -> Result<(), YamlError> {
        let Some(Level { open, anchor, nodes }) = self.levels.pop() else { return Ok(()) };
        let (value, places) = match open {
            Open::Mapping { members, places, .. } => (Value::Object(members), places),
            Open::List { items, places } => (Value::Array(items), places),
        };
        // `whole` adds all `nodes`, but those inside were already counted when they were read.
        self.nodes = self.nodes.saturating_sub(nodes - 1);
        let start = places.here();
        self.whole(Whole { value, places, nodes }, anchor, start).map_err(|error| YamlError { place: at, ..error })
    }

    /// Stores a value under its key, in its list, or as a document.
    fn whole(&mut self, whole: Whole, anchor: usize, at: Position) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(whole.nodes);
        if self.nodes > MAX_NODES {
            return fail(at, format!("more than {MAX_NODES} values, aliases counted as what they stand for"));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, whole.clone());
        }
        let Whole { value, places: inner, nodes } = whole;
        let Some(level) = self.levels.last_mut() else {
            if !value.is_null() {
                let ambiguous = std::mem::take(&mut self.ambiguous);
                self.documents.push(Document { value, places: inner, ambiguous });
            }
            return Ok(());
        };
        level.nodes = level.nodes.saturating_add(nodes);
        match &mut level.open {
            Open::Mapping { members, places, key } => {
                if let Some((key, at)) = key.take() {
                    places.put_member(&key, inner.moved(at));
                    members.insert(key, value);
                } else {
                    return fail(at, "a key must be a word");
                }
            }
            Open::List { items, places } => {
                places.put_item(inner);
                items.push(value);
            }
        }
        Ok(())
    }
}

fn fail<T>(place: Position, message: impl Into<String>) -> Result<T, YamlError> {
    Err(YamlError { place, message: message.into(), is_syntax: false })
}
