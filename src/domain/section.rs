//! The place in a document that a request comes from, as clients name it, and how bindings of sections cover places
//! (document 003, SectionBinding).

use std::cmp::Reverse;
use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::plan::{SectionHeading, SectionPart};
use super::quoted::Quoted;
use super::raw::RawObject;

/// The key of `_meta` in which a client names the place.
pub const SECTION: &str = "hawsepipe.dev/section";

/// The maximum number of headings in a path.
const MAX_HEADINGS: usize = 32;
/// The maximum number of characters of a document's name, of a heading and of the id of a block.
const MAX_DOCUMENT: usize = 4096;
const MAX_TEXT: usize = 512;
const MAX_BLOCK: usize = 256;
/// The maximum number of a line.
const MAX_LINE: u32 = 10_000_000;

/// A place in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The name of the document.
    pub document: String,
    /// The headings that the place is below, the outermost one first.
    pub headings: Vec<PlaceHeading>,
    /// The id of the block that the place is in, without `^`.
    pub block: Option<String>,
    /// The line, counted from 1.
    pub line: Option<u32>,
}

/// A heading above a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceHeading {
    /// The text, without the leading `#` characters.
    pub text: String,
    /// The number of these characters, from 1 to 6.
    pub level: u32,
}

impl Place {
    /// Reads the place from `_meta`. Returns `None` if `_meta` names none.
    ///
    /// # Errors
    /// If the place is not valid. The message names the member that is at fault.
    pub fn of_meta(meta: Option<&RawValue>) -> Result<Option<Self>, String> {
        let Some(meta) = meta.filter(|meta| meta.get().contains("/section")) else { return Ok(None) };
        let object = RawObject::parse(meta.get()).unwrap_or_default();
        Self::read(object.get(SECTION)).map_err(|why| format!("_meta[\"{SECTION}\"]{why}"))
    }

    /// Reads a place that a command or a query names: a JSON object as in `_meta`, or
    /// `DOCUMENT[# HEADING][## HEADING]...[^BLOCK][:LINE]`.
    ///
    /// # Errors
    /// If the place is not valid. The message says what is at fault.
    pub fn of_argument(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            let raw: &RawValue = serde_json::from_str(text).map_err(|error| format!("section is not JSON: {error}"))?;
            let place = Self::read(Some(raw)).map_err(|why| format!("section{why}"))?;
            return Ok(place.unwrap_or_default());
        }
        let numbered = text.rsplit_once(':').and_then(|(rest, line)| Some((rest, line.parse::<u32>().ok()?)));
        let (rest, line) = numbered.map_or((text, None), |(rest, line)| (rest, Some(line)));
        let (rest, block) = rest.rsplit_once('^').map_or((rest, None), |(rest, block)| (rest, Some(block.trim())));
        let (document, mut path) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
        let mut place = Map::new();
        let mut headings = Vec::new();
        while !path.is_empty() {
            let text = path.trim_start_matches('#');
            let level = path.len() - text.len();
            let (text, after) = text.split_at(text.find('#').unwrap_or(text.len()));
            headings.push(serde_json::json!({"text": text.trim(), "level": level}));
            path = after;
        }
        place.insert("document".into(), document.trim().into());
        place.insert("headings".into(), headings.into());
        place.extend(block.map(|block| ("block".to_owned(), block.into())));
        place.extend(line.map(|line| ("line".to_owned(), line.into())));
        Self::of_object(&place).map_err(|why| format!("section{why}"))
    }

    fn read(section: Option<&RawValue>) -> Result<Option<Self>, String> {
        let Some(section) = section.filter(|section| section.get() != "null") else { return Ok(None) };
        match serde_json::from_str(section.get()) {
            Ok(Value::Object(members)) => Self::of_object(&members).map(Some),
            _ => Err(" must be an object".to_owned()),
        }
    }

    fn of_object(members: &Map<String, Value>) -> Result<Self, String> {
        known(members, "", &["document", "headings", "block", "line"])?;
        let document = text(members, "", "document", MAX_DOCUMENT)?;
        let document = document.ok_or_else(|| ".document is missing: name the document".to_owned())?;
        let headings = match member(members, "headings") {
            None => Vec::new(),
            Some(Value::Array(path)) if path.len() <= MAX_HEADINGS => path
                .iter()
                .enumerate()
                .map(|(place, heading)| PlaceHeading::read(place, heading))
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(format!(".headings must be a list of at most {MAX_HEADINGS} headings")),
        };
        let block = text(members, "", "block", MAX_BLOCK)?;
        if block.as_ref().is_some_and(|block| block.starts_with('^')) {
            return Err(".block must be the id without its ^".to_owned());
        }
        let line = number(members, "", "line", MAX_LINE)?;
        Ok(Self { document, headings, block, line })
    }
}

impl PlaceHeading {
    fn read(place: usize, heading: &Value) -> Result<Self, String> {
        let at = format!(".headings[{place}]");
        let Value::Object(members) = heading else { return Err(format!("{at} must be an object with text and level")) };
        known(members, &at, &["text", "level"])?;
        let text = text(members, &at, "text", MAX_TEXT)?.ok_or_else(|| format!("{at}.text is missing"))?;
        let plain = text.trim_start_matches('#');
        if plain.len() < text.len() && (plain.is_empty() || plain.starts_with(' ')) {
            return Err(format!("{at}.text must be the text without its #s: their number is the level"));
        }
        let level = number(members, &at, "level", 6)?.ok_or_else(|| format!("{at}.level is missing"))?;
        Ok(Self { text: text.trim().to_owned(), level })
    }
}

/// Returns a member. `null` counts as absent.
fn member<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m Value> {
    members.get(name).filter(|value| !value.is_null())
}

/// Refuses members that are not known: one that is misspelt would otherwise leave a section unrestricted.
fn known(members: &Map<String, Value>, at: &str, names: &[&str]) -> Result<(), String> {
    match members.keys().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => {
            Err(format!("{at} has no member {}: its members are {}", Quoted(unknown, 60), names.join(", ")))
        }
        None => Ok(()),
    }
}

fn text(members: &Map<String, Value>, at: &str, name: &str, most: usize) -> Result<Option<String>, String> {
    match member(members, name) {
        None => Ok(None),
        Some(Value::String(text)) if (1..=most).contains(&text.chars().count()) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{at}.{name} must be a string of 1 to {most} characters")),
    }
}

fn number(members: &Map<String, Value>, at: &str, name: &str, most: u32) -> Result<Option<u32>, String> {
    let Some(value) = member(members, name) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| (1..=most).contains(number));
    number.map(Some).ok_or_else(|| format!("{at}.{name} must be a whole number from 1 to {most}"))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.document)?;
        for PlaceHeading { text, level } in &self.headings {
            write!(f, "{} {text}", "#".repeat(*level as usize))?;
        }
        if let Some(block) = &self.block {
            write!(f, "^{block}")?;
        }
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// How specifically a part covers a place; the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Specificity {
    /// A section around that of the place, which holds for its subsections. The number is the index of its heading in the
    /// path, so that the nearest section is the most specific one.
    Inherited(usize, HasLevel),
    /// The section of the place itself.
    Heading(HasLevel),
    /// A range of this many lines that contains the place.
    Range(Reverse<u32>),
    /// The block of the place.
    Block,
}

/// Whether a binding names the level of its heading.
type HasLevel = bool;

impl SectionPart {
    /// Returns how specifically the part covers a place; `None` if it does not. `inherits` tells whether a section counts
    /// for its subsections.
    pub fn covers(&self, place: &Place, inherits: bool) -> Option<Specificity> {
        match self {
            Self::Block { id } => (place.block.as_ref() == Some(id)).then_some(Specificity::Block),
            Self::Range { start, end } => {
                let line = place.line?;
                (*start..=*end).contains(&line).then_some(Specificity::Range(Reverse(end - start)))
            }
            Self::Heading(SectionHeading { text, level }) => {
                let is_it = |h: &PlaceHeading| h.text == *text && level.is_none_or(|level| level == h.level);
                let index = place.headings.iter().rposition(is_it)?;
                match index + 1 == place.headings.len() {
                    true => Some(Specificity::Heading(level.is_some())),
                    false => inherits.then_some(Specificity::Inherited(index, level.is_some())),
                }
            }
        }
    }

    /// Whether both parts can cover one place with the same specificity.
    pub fn rivals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Range { start, end }, Self::Range { start: other_start, end: other_end }) => {
                end - start == other_end - other_start && start <= other_end && other_start <= end
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for SectionPart {
    /// Writes the short form of the part: `## Deploy`, `Deploy` at any level, `^db-checks` or `10-40`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heading(SectionHeading { text, level: None }) => f.write_str(text),
            Self::Heading(SectionHeading { text, level: Some(level) }) => {
                write!(f, "{} {text}", "#".repeat(*level as usize))
            }
            Self::Block { id } => write!(f, "^{id}"),
            Self::Range { start, end } => write!(f, "{start}-{end}"),
        }
    }
}

#[cfg(test)]
mod tests;
