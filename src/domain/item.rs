//! Items as upstreams list them: tools, prompts, resources, and templates of resources.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::caching::Caching;
use super::method::Method;
use super::raw::{RawObject, to_raw};
use super::secret::Mask;
use super::tool_name::{MAX_NAME, SEEN_PROMPT, is_seen_name, is_valid_name};
use crate::domain::quoted::Quoted;

/// Maximum length of the URI or URI template of a resource, in bytes.
pub const MAX_URI: usize = 2048;

/// Maximum number of characters of a name or URI that is shown.
const MAX_SHOWN: usize = 256;

/// Whether `uri` is of a part of the resource `whole`: it goes on after a separator. Servers may report that such a part
/// has changed (MCP 2025-11-25, resources/updated).
pub fn is_part(uri: &str, whole: &str) -> bool {
    let separators = ['/', '?', '#'];
    uri.strip_prefix(whole)
        .is_some_and(|rest| !rest.is_empty() && (rest.starts_with(separators) || whole.ends_with(separators)))
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    /// A tool, which clients call.
    Tool,
    /// A prompt, which clients fetch.
    Prompt,
    /// A resource, which clients read.
    Resource,
    /// A template of the URIs of resources.
    Template,
}

impl ItemKind {
    /// All kinds, in the order in which their items are shown.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// The kinds whose lists are announced when they change. Templates change with resources.
    pub const ANNOUNCED: [Self; 3] = [Self::Tool, Self::Prompt, Self::Resource];

    /// All kinds but tools. Their lists are read after the list of tools, so that they cannot delay it.
    pub const OTHERS: [Self; 3] = [Self::Prompt, Self::Resource, Self::Template];

    /// Returns the method that lists items of this kind.
    pub const fn listed_by(self) -> Method {
        match self {
            Self::Tool => Method::ListTools,
            Self::Prompt => Method::ListPrompts,
            Self::Resource => Method::ListResources,
            Self::Template => Method::ListTemplates,
        }
    }

    /// Returns the method that uses one item of this kind.
    pub const fn used_by(self) -> Method {
        match self {
            Self::Tool => Method::CallTool,
            Self::Prompt => Method::GetPrompt,
            Self::Resource | Self::Template => Method::ReadResource,
        }
    }

    /// Returns the kind of the items that this method lists; `None` if it lists none.
    pub fn listed_with(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.listed_by() == method)
    }

    /// Returns the kind of the items that this method uses; `None` if it uses none.
    pub fn used_with(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.used_by() == method)
    }

    /// Returns the member of a list's result that has the items.
    pub const fn list_member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    /// Returns the member of a definition that identifies the item.
    pub const fn name_member(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    /// Returns the name of an item as logs, records and traces show it: cut, and a URI without its user information, query
    /// and fragment, which can be secrets.
    pub fn shown(self, name: &str) -> String {
        if self.has_name() {
            return name.chars().take(MAX_SHOWN).collect();
        }
        let name = &name[..name.find(['?', '#']).unwrap_or(name.len())];
        let (scheme, rest) = name.split_once("://").map_or(("", name), |(scheme, _)| name.split_at(scheme.len() + 3));
        let path = rest.find('/').unwrap_or(rest.len());
        let host = rest[..path].rfind('@').map_or(0, |at| at + 1);
        scheme.chars().chain(rest[host..].chars()).take(MAX_SHOWN).collect()
    }

    /// Whether the items have names that the gateway can change, rather than URIs.
    pub const fn has_name(self) -> bool {
        matches!(self, Self::Tool | Self::Prompt)
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "resource template",
        })
    }
}

/// An item of an upstream. Its definition is kept unchanged. Clones share the definition and the schemas.
#[derive(Clone, Debug)]
pub struct Item {
    /// What the item is.
    pub kind: ItemKind,
    /// The server's own name for the item; the URI of a resource, and the URI template of a template.
    pub name: String,
    /// The whole definition as the server sent it.
    pub definition: Arc<RawValue>,
    /// A tool's input schema; `None` if the server sent none.
    pub input_schema: Option<Arc<RawValue>>,
    /// A tool's annotations, with the protocol's defaults filled in.
    pub hints: Hints,
    /// The `_meta` of the definition; `None` if there is none.
    pub meta: Option<Arc<RawValue>>,
    /// What providers of models reject of a tool, with its place; `None` if it has no such fault. Only lists of servers say so.
    pub fault: Option<Arc<str>>,
}

/// A server's list of items of one kind.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The items in the server's order.
    pub items: Vec<Item>,
    /// Messages that name items which are not offered to clients, and say why; see [`Listed::leave_out`].
    pub left_out: Vec<String>,
    /// Messages about the list as a whole, without text of the server.
    pub notes: Vec<String>,
    /// What the server says about the caching of the list. A legacy server says nothing.
    pub caching: Caching,
}

/// Maximum number of items that the messages about a list of a server name.
const MAX_LEFT_OUT: usize = 20;

impl Listed {
    /// Records that an item is not offered. After the first twenty items, only records that there are more.
    pub fn leave_out(&mut self, kind: ItemKind, name: &str, fault: &str) {
        match self.left_out.len() {
            0..MAX_LEFT_OUT => self.left_out.push(format!("{kind} {name:.128} is left out: {fault}")),
            MAX_LEFT_OUT => self.left_out.push("more items are left out".to_owned()),
            _ => {}
        }
    }

    /// Records something unusual about the list as a whole. It contains no text of the server.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the list with secret values hidden in the messages about items that are left out. These messages
    /// contain names that the server sent.
    pub fn masked(mut self, mask: &Mask) -> Self {
        self.left_out.iter_mut().for_each(|said| *said = mask.masked(said.as_str()).into_owned());
        self
    }
}

/// A tool's annotations with the protocol's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Whether the tool changes nothing. Default: false.
    pub read_only: bool,
    /// Whether the tool may destroy data. Default: true.
    pub destructive: bool,
    /// Whether calling the tool again with the same arguments has no further effect. Default: false.
    pub idempotent: bool,
    /// Whether the tool interacts with the outside world. Default: true.
    pub open_world: bool,
}

impl Hints {
    fn read(annotations: &RawValue) -> Self {
        let default = Self::default();
        let read = serde_json::from_str::<Option<AnnotationsJson>>(annotations.get()).ok().flatten();
        read.map_or(default, |a| Self {
            read_only: a.read_only_hint.unwrap_or(default.read_only),
            destructive: a.destructive_hint.unwrap_or(default.destructive),
            idempotent: a.idempotent_hint.unwrap_or(default.idempotent),
            open_world: a.open_world_hint.unwrap_or(default.open_world),
        })
    }
}

impl Default for Hints {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: Option<String>,
    uri: Option<String>,
    uri_template: Option<String>,
    input_schema: Option<Box<RawValue>>,
    annotations: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnnotationsJson {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
    open_world_hint: Option<bool>,
}

impl Item {
    /// Parses one element of a server's list. The error says why the element is not a valid item of this kind.
    pub fn parse(kind: ItemKind, definition: &RawValue) -> Result<Self, String> {
        let read: Definition = serde_json::from_str(definition.get()).map_err(|e| e.to_string())?;
        let name = match kind {
            ItemKind::Tool | ItemKind::Prompt => read.name,
            ItemKind::Resource => read.uri,
            ItemKind::Template => read.uri_template,
        };
        let name = name.ok_or_else(|| format!("its {} is missing", kind.name_member()))?;
        check_name(kind, &name)?;
        let is_tool = kind == ItemKind::Tool;
        Ok(Self {
            kind,
            name,
            definition: definition.to_owned().into(),
            input_schema: read.input_schema.filter(|_| is_tool).map(Arc::from),
            hints: read.annotations.filter(|_| is_tool).map_or_else(Hints::default, |a| Hints::read(&a)),
            meta: read.meta.map(Arc::from),
            fault: None,
        })
    }

    /// Returns the name by which it is remembered that an upstream had the item; see [`seen_name`].
    pub fn seen_name(&self) -> Option<Cow<'_, str>> {
        seen_name(self.kind, &self.name)
    }

    /// Returns the definition with the name or URI `public`. Everything else keeps its bytes.
    pub fn public_definition(&self, public: &str) -> Arc<RawValue> {
        if public == self.name {
            return self.definition.clone();
        }
        let Ok(mut object) = RawObject::parse(self.definition.get()) else {
            return self.definition.clone();
        };
        object.set(self.kind.name_member(), to_raw(&public));
        object.to_raw().into()
    }
}

/// Returns the name by which it is remembered that an upstream had an item: that of a tool, or `prompt/` and that of a
/// prompt, which no tool can have. `None` for items that are not remembered: URIs, and prompts whose
/// names are long or have characters that names of tools cannot have.
pub fn seen_name(kind: ItemKind, name: &str) -> Option<Cow<'_, str>> {
    match kind {
        ItemKind::Tool => Some(Cow::Borrowed(name)),
        ItemKind::Prompt => Some(format!("{SEEN_PROMPT}{name}")).filter(|name| is_seen_name(name)).map(Cow::Owned),
        ItemKind::Resource | ItemKind::Template => None,
    }
}

/// Checks the name of an item. Names of tools follow the rule of the protocol, which has none for prompts and URIs:
/// these must be short and without control characters, so that they can stand in logs and headers.
fn check_name(kind: ItemKind, name: &str) -> Result<(), String> {
    let (valid, rule) = match kind {
        ItemKind::Tool => (is_valid_name(name), format!("1 to {MAX_NAME} of A-Z a-z 0-9 _ . -")),
        ItemKind::Prompt => (is_plain(name, MAX_NAME), format!("1 to {MAX_NAME} bytes without control characters")),
        ItemKind::Resource | ItemKind::Template => {
            (is_plain(name, MAX_URI), format!("1 to {MAX_URI} bytes without control characters"))
        }
    };
    if valid { Ok(()) } else { Err(format!("its {} is not {rule}: {}", kind.name_member(), Quoted(name, 40))) }
}

fn is_plain(name: &str, most: usize) -> bool {
    (1..=most).contains(&name.len()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_named_by_its_own_member() {
        let definition = r#"{"name":"n","uri":"file:///a","uriTemplate":"file:///{b}"}"#;
        let definition = RawValue::from_string(definition.into()).unwrap();
        let names = ItemKind::ALL.map(|kind| Item::parse(kind, &definition).unwrap().name);
        assert_eq!(names, ["n", "n", "file:///a", "file:///{b}"]);
        for (kind, bad) in [
            (ItemKind::Tool, r#"{"uri":"a"}"#),
            (ItemKind::Tool, r#"{"name":"a b"}"#),
            (ItemKind::Prompt, r#"{"name":"a\nb"}"#),
            (ItemKind::Resource, r#"{"name":"a"}"#),
            (ItemKind::Resource, r#"{"uri":""}"#),
            (ItemKind::Template, r#"{"uri":"a","uriTemplate":"\u0007"}"#),
        ] {
            let parsed = Item::parse(kind, &RawValue::from_string(bad.into()).unwrap());
            let fault = parsed.unwrap_err();
            assert!(fault.starts_with(&format!("its {}", kind.name_member())), "{bad}: {fault}");
        }
    }

    #[test]
    fn what_can_be_a_secret_in_a_uri_is_not_shown() {
        for (uri, shown) in [
            ("https://user:word@host:1/a@b?key=1#x", "https://host:1/a@b"),
            ("db://a@b@host", "db://host"),
            ("mail:a@b.c", "b.c"),
            ("user:word@host/a", "host/a"),
            ("file:///a#b?c", "file:///a"),
            ("https://host?user@x", "https://host"),
        ] {
            assert_eq!(ItemKind::Resource.shown(uri), shown);
        }
        assert_eq!(ItemKind::Prompt.shown("a?b@c"), "a?b@c");
    }

    #[test]
    fn a_definition_keeps_everything_but_the_name() {
        let raw = r#"{"name":"echo","inputSchema":{"x-n": 1.0},"annotations":{"readOnlyHint":true},"new":[1]}"#;
        let tool = Item::parse(ItemKind::Tool, &RawValue::from_string(raw.into()).unwrap()).unwrap();
        assert!(tool.hints.read_only && tool.hints.destructive);
        assert_eq!(tool.public_definition("up__echo").get(), raw.replacen("echo", "up__echo", 1));
    }

    #[test]
    fn parts_of_a_resource_begin_after_a_separator() {
        for (uri, whole, is) in [
            ("file:///a/b", "file:///a", true),
            ("file:///a/b", "file:///a/", true),
            ("file:///a#b", "file:///a", true),
            ("file:///ab", "file:///a", false),
            ("file:///a", "file:///a", false),
            ("file:///", "file:///a", false),
        ] {
            assert_eq!(is_part(uri, whole), is, "{uri} {whole}");
        }
    }
}
