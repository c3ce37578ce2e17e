//! Texts with references to variables of the gateway's environment, as the files of MCP clients write them: `${NAME}`, and
//! `${NAME:-default}`, whose default counts if the variable is not set or empty.

/// A text, in its parts.
#[derive(Debug)]
pub struct EnvironmentText<'a>(Vec<Part<'a>>);

#[derive(Debug)]
enum Part<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

impl<'a> EnvironmentText<'a> {
    /// Whether a text has references.
    pub fn is_needed(text: &str) -> bool {
        text.contains("${")
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What begins as a reference and is none.
    pub fn parse(text: &'a str) -> Result<Self, &'a str> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, behind) = after.split_once('}').ok_or(&rest[before.len()..])?;
            let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, it)| (name, Some(it)));
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(is_name) || default.is_some_and(Self::is_needed) {
                return Err(&rest[before.len()..rest.len() - behind.len()]);
            }
            parts.extend([Part::Text(before), Part::Variable { name, default }]);
            rest = behind;
        }
        parts.push(Part::Text(rest));
        Ok(Self(parts))
    }

    /// The names of the variables, and whether each must be set.
    pub fn variables(&self) -> impl Iterator<Item = (&'a str, bool)> {
        self.0.iter().filter_map(|part| match part {
            Part::Variable { name, default } => Some((*name, default.is_none())),
            Part::Text(_) => None,
        })
    }

    /// Returns the text with the values of the variables.
    ///
    /// # Errors
    /// The name of the first one that is not set.
    pub fn resolve(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, &'a str> {
        let text = self.0.iter().map(|part| match part {
            Part::Text(text) => Ok((*text).to_owned()),
            Part::Variable { name, default: None } => value(name).ok_or(*name),
            Part::Variable { name, default: Some(default) } => {
                Ok(value(name).filter(|value| !value.is_empty()).unwrap_or_else(|| (*default).to_owned()))
            }
        });
        text.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<String, String> {
        let variable = |name: &str| [("A", "a"), ("B_2", "${A}"), ("NONE", "")].into_iter().find(|it| it.0 == name);
        let text = EnvironmentText::parse(text).map_err(|wrong| format!("no reference {wrong}"))?;
        text.resolve(|name| variable(name).map(|it| it.1.to_owned())).map_err(|unset| format!("unset {unset}"))
    }

    #[test]
    fn references_are_replaced_once() {
        for (text, expected) in [
            ("", Ok("")),
            ("plain $A {A}", Ok("plain $A {A}")),
            ("${A}", Ok("a")),
            ("x${A}y${B_2}z", Ok("xay${A}z")),
            ("${A:-b}${C:-b}${NONE:-b}${C:-}", Ok("abb")),
            ("${NONE}", Ok("")),
            ("${C:-http://h:1/}", Ok("http://h:1/")),
            ("a${C}", Err("unset C")),
            ("a${A b}c", Err("no reference ${A b}")),
            ("${}", Err("no reference ${}")),
            ("${:-x}", Err("no reference ${:-x}")),
            ("${A", Err("no reference ${A")),
            ("${C:-${A}}", Err("no reference ${C:-${A}")),
            ("${input:key}", Err("no reference ${input:key}")),
        ] {
            assert_eq!(resolved(text).as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
