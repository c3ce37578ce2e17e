//! Reads one level of a JSON text that is known to be valid.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::splice::Splice;
use super::tokens::{is_between, length_of_first, raw, valid};

const WHITE_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A valid JSON value as text, without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skim<'a>(&'a str);

impl<'a> From<&'a RawValue> for Skim<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self::of_valid(raw.get())
    }
}

impl<'a> Skim<'a> {
    /// Reads a text if it is one JSON value.
    pub fn of(text: &'a [u8]) -> Option<Self> {
        valid(text).map(Self::of_valid)
    }

    /// Reads a text that is valid, or is the beginning of a valid one.
    pub(super) fn of_valid(text: &'a str) -> Self {
        Self(text.trim_matches(WHITE_SPACE))
    }

    /// Returns the value as raw JSON.
    pub fn raw(self) -> Option<&'a RawValue> {
        raw(self.0)
    }

    /// Iterates over the names and values of an object, alternately; `None` if the value is not an object.
    pub(super) fn parts(self) -> Option<Elements<'a>> {
        self.0.starts_with('{').then(|| Elements(&self.0[1..]))
    }

    /// An object without members.
    pub const EMPTY: Self = Self("{}");

    /// Returns the text of the value.
    pub fn get(self) -> &'a str {
        self.0
    }

    /// Returns the string value; `None` if the value is not a string, or contains a lone surrogate.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        match memchr::memchr(b'\\', inner.as_bytes()) {
            None => Some(Cow::Borrowed(inner)),
            Some(_) => serde_json::from_str(self.0).ok().map(Cow::Owned),
        }
    }

    /// Iterates over the elements of an array; `None` if the value is not an array.
    pub fn elements(self) -> Option<Elements<'a>> {
        self.0.starts_with('[').then(|| Elements(&self.0[1..]))
    }

    /// Returns the value of a member of an object. If the name occurs twice, returns the last value, as most parsers do.
    pub fn member(self, wanted: &str) -> Option<Self> {
        self.members()?.filter(|(name, _)| name.as_deref() == Some(wanted)).last().map(|(_, value)| value)
    }

    /// Returns the text of an object in which these members have these values, which are JSON, and those with `None` are
    /// left out; `None` if the value is not an object. A member that is there keeps its place and occurs once afterwards,
    /// another one is added at the end. Everything else keeps its bytes.
    pub fn with_members(self, changes: &[(&str, Option<&str>)]) -> Option<String> {
        let (mut new, mut is_done) = (Splice::new(self.0), vec![false; changes.len()]);
        let change = |name: Option<&str>| changes.iter().position(|(changed, _)| name == Some(*changed));
        let stays = |name: Option<&str>| {
            let place = change(name);
            place.is_none_or(|place| !std::mem::replace(&mut is_done[place], true) && changes[place].1.is_some())
        };
        let edit = |new: &mut Splice<'_>, name: Option<&str>, value: Self| {
            change(name).and_then(|place| changes[place].1).into_iter().for_each(|json| new.replace(value.0, json));
        };
        let mut has_some = self.retain_members(&mut new, stays, edit)?;
        let mut end = String::new();
        for ((name, value), _) in changes.iter().zip(is_done).filter(|(_, is_done)| !is_done) {
            let Some(json) = value else { continue };
            let comma = if std::mem::replace(&mut has_some, true) { "," } else { "" };
            end.push_str(&format!("{comma}{}:{json}", quoted(name)));
        }
        if !end.is_empty() {
            new.replace(&self.0[self.0.len() - 1..], &(end + "}"));
        }
        Some(new.finish().unwrap_or_else(|| self.0.to_owned()))
    }

    /// Leaves out the members of an object that do not stay, and has the values of the others edited. The object is a part of
    /// the text of `new`. Returns whether any member stays; `None` if the value is not an object.
    pub(super) fn retain_members(
        self,
        new: &mut Splice<'_>,
        mut stays: impl FnMut(Option<&str>) -> bool,
        mut edit: impl FnMut(&mut Splice<'_>, Option<&str>, Self),
    ) -> Option<bool> {
        let (mut from, mut has_some, mut is_cut) = (1, false, false);
        for (name, value) in self.members()? {
            let end = Splice::place(self.0, value.0) + value.0.len();
            if stays(name.as_deref()) {
                if is_cut && !has_some {
                    let member = self.0[from..end].trim_start_matches([' ', '\t', '\r', '\n', ',']);
                    new.replace(&self.0[from..end - member.len()], "");
                }
                has_some = true;
                edit(new, name.as_deref(), value);
            } else {
                new.replace(&self.0[from..end], "");
                is_cut = true;
            }
            from = end;
        }
        Some(has_some)
    }

    /// Iterates over the members of an object in their order; `None` if the value is not an object.
    pub fn members(self) -> Option<Members<'a>> {
        self.parts().map(Members)
    }
}

/// Returns a name as a JSON string.
fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// Iterates over the members of an object. The name is `None` if it contains a lone surrogate. Members are not
/// collected, because a short text can have millions of them.
#[derive(Clone, Debug)]
pub struct Members<'a>(Elements<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Option<Cow<'a, str>>, Skim<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next()?;
        Some((name.text(), self.0.next()?))
    }
}

/// Iterates over the values within an array, or over the names and values of an object, alternately.
#[derive(Clone, Debug)]
pub struct Elements<'a>(&'a str);

impl<'a> Iterator for Elements<'a> {
    type Item = Skim<'a>;

    fn next(&mut self) -> Option<Skim<'a>> {
        let start = self.0.bytes().position(|byte| !is_between(byte))?;
        let text = self.0.get(start..).filter(|text| !text.starts_with([']', '}']))?;
        let (value, rest) = text.split_at_checked(length_of_first(text.as_bytes())?)?;
        self.0 = rest;
        Some(Skim(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::raw::{RawObject, to_raw};

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_object_is_taken_apart_as_a_parser_does() {
        for json in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            "{ \"a\" : -1.5e+3 ,\n\t\"b\" : [ 1 , { \"c\" : \"]}\" } ] , \"a\" : null }",
            r#"{"\u0061\"b":"x\\","é😀":{"k":["\"","{"]},"":"","t":true,"f":false}"#,
            r#"{"a":[[],{},[{}]],"b":{"a":{"a":1}}}"#,
        ] {
            let object = RawObject::parse(json).unwrap();
            let parsed: Vec<_> = object.iter().map(|(name, value)| (name.into(), value.get())).collect();
            let members = Skim::from(raw(json)).members().unwrap();
            let members: Vec<_> = members.map(|(name, value)| (name.unwrap(), value.get())).collect();
            assert_eq!(members, parsed, "{json}");
        }
    }

    #[test]
    fn an_array_is_taken_apart_as_a_parser_does() {
        for json in ["[]", "[ ]", "[[ ] ,{}]", r#"[1,-2e3 , null,"a,]\\",[[1],"]"],{"k":[2,{}]} ]"#] {
            let parsed: Vec<&RawValue> = serde_json::from_str(json).unwrap();
            let elements: Vec<_> = Skim::from(raw(json)).elements().unwrap().map(Skim::get).collect();
            assert_eq!(elements, parsed.into_iter().map(RawValue::get).collect::<Vec<_>>(), "{json}");
        }
    }

    #[test]
    fn a_string_is_read_as_a_parser_does() {
        for json in [r#""""#, r#""plain é""#, r#""a\nb\\""#, r#""\ud83d\ude00""#, r#""\ud800""#, "1", "[]", "null"] {
            let parsed: Option<String> = serde_json::from_str(json).ok();
            assert_eq!(Skim::from(raw(json)).text().as_deref(), parsed.as_deref(), "{json}");
        }
    }

    #[test]
    fn members_are_set_and_left_out_as_an_object_does_it() {
        for json in [
            "{}",
            r#"{"a":1}"#,
            r#"{"x":{"a":[1.0]},"a":1,"y":"\u0061\\","b":2}"#,
            r#"{"b":1,"a":2,"a":3,"b":4,"z":null}"#,
        ] {
            let mut object = RawObject::parse(json).unwrap();
            object.set("a", to_raw(&"new"));
            object.remove("b");
            object.set("c", to_raw(&0));
            let changes = [("a", Some("\"new\"")), ("b", None), ("c", Some("0"))];
            assert_eq!(Skim::from(raw(json)).with_members(&changes).as_deref(), Some(object.to_raw().get()), "{json}");
            assert_eq!(Skim::from(raw(json)).with_members(&[]).as_deref(), Some(json));
            let (a, none) = (Skim::from(raw(json)).member("a").map(Skim::get), Skim::from(raw(json)).member("c"));
            assert_eq!((a, none), (RawObject::parse(json).unwrap().get("a").map(RawValue::get), None));
        }
        let spaced = Skim::from(raw("{ \"a\" : 1 , \"\\ud800\":[ 2 ] }"));
        assert_eq!(spaced.with_members(&[("\"", Some("3"))]).unwrap(), r#"{ "a" : 1 , "\ud800":[ 2 ] ,"\"":3}"#);
        assert_eq!(Skim::from(raw(r#"{"\u0061":1}"#)).with_members(&[("a", None)]).unwrap(), "{}");
        assert_eq!(Skim::from(raw("[]")).with_members(&[]), None);
    }

    #[test]
    fn what_is_another_kind_of_value_has_no_parts() {
        for json in ["1", r#""{}""#, "null", "[1]"] {
            assert!(Skim::from(raw(json)).members().is_none(), "{json}");
        }
        let mut members = Skim::from(raw(r#"{"\ud800":1,"a":2}"#)).members().unwrap();
        assert_eq!(members.next().unwrap().0, None, "nobody can say which member that is");
        assert_eq!(members.next().unwrap().0.unwrap(), "a");
        assert!(Skim::from(raw("{}")).elements().is_none());
    }
}
