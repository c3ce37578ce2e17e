//! Invocations that commands create: sends them to the admin API, waits for their end, and shows their results.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::admin::{encode, get_raw, post};
use super::args::AdminArgs;
use super::formats::ResultFormat;
use super::ordered_json;
use super::output::{harmless, harmless_lines, print_line, say, shown};
use crate::domain::raw::RawObject;

/// How many seconds one request waits for the end of an invocation.
const WAIT: u64 = 10;

/// An invocation that has ended.
pub struct Invoked {
    /// The whole invocation, as the admin API shows it.
    pub raw: Box<RawValue>,
    pub fields: Fields,
}

/// The fields of an invocation that commands read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fields {
    id: String,
    #[serde(default)]
    pub server_id: Option<String>,
    pub tool_name: String,
    pub status: String,
    pub result: Option<ResultFields>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultFields {
    content: Box<RawValue>,
    pub content_type: String,
    pub execution_duration: f64,
}

/// What is done with the bytes of images.
#[derive(Clone, Copy)]
pub enum Images<'a> {
    /// Nothing.
    Noted,
    /// Nothing; the note says how to save them.
    Offered,
    /// The first one is written to this file.
    Saved(&'a Path),
}

/// Creates an invocation with a request of this body, and waits until it has ended.
///
/// # Errors
/// If the gateway does not answer in time or refuses the invocation.
pub async fn invoke(admin: &AdminArgs, new: String) -> anyhow::Result<Invoked> {
    let mut invoked = Invoked::read(post(admin, "/api/v1/invocations", new).await?)?;
    let path = format!("/api/v1/invocations/{}?wait={WAIT}", encode(&invoked.fields.id));
    while !invoked.has_ended() {
        let deadline = Duration::from_secs(admin.timeout + WAIT);
        invoked = Invoked::read(get_raw(admin, &path, deadline).await?)?;
    }
    Ok(invoked)
}

/// Prints an invocation: its result, or the whole of it. Returns exit code 1 if it has ended without a result.
///
/// # Errors
/// If an image cannot be saved, or standard output cannot be written.
pub fn show(invoked: &Invoked, output: ResultFormat, images: Images<'_>) -> anyhow::Result<ExitCode> {
    match (output, &invoked.fields.result) {
        (ResultFormat::Json, _) => print_line(&ordered_json::to_json(&invoked.raw)?)?,
        (ResultFormat::Yaml, _) => print_line(ordered_json::to_yaml(&invoked.raw)?.trim_end())?,
        (ResultFormat::Text, Some(result)) => print_line(&shown(result.rendered(images)?))?,
        (ResultFormat::Text, None) if invoked.has_ended() => {
            say(&format!("Error: {}", harmless_lines(invoked.fields.error())))
        }
        (ResultFormat::Text, None) => print_line(&invoked.fields.status)?,
    }
    Ok(if invoked.succeeded() || !invoked.has_ended() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Invoked {
    pub fn read(raw: Box<RawValue>) -> anyhow::Result<Self> {
        let fields = serde_json::from_str(raw.get()).context("the admin API answered with something else")?;
        Ok(Self { raw, fields })
    }

    fn has_ended(&self) -> bool {
        !matches!(&*self.fields.status, "pending" | "executing")
    }

    pub fn succeeded(&self) -> bool {
        self.fields.status == "success"
    }
}

impl Fields {
    /// Returns the message of the error.
    pub fn error(&self) -> &str {
        let message = self.error.as_ref().and_then(|error| error["message"].as_str());
        message.unwrap_or(&self.status)
    }
}

impl ResultFields {
    /// Returns the result as text, by its type. An image is a note of its type and size.
    ///
    /// # Errors
    /// If an image cannot be saved.
    pub fn rendered(&self, images: Images<'_>) -> anyhow::Result<String> {
        match &*self.content_type {
            "text" | "markdown" => Ok(serde_json::from_str(self.content.get())?),
            "image" => self.image(images),
            _ => ordered_json::to_json(&self.content),
        }
    }

    fn image(&self, mut images: Images<'_>) -> anyhow::Result<String> {
        let blocks: Vec<Box<RawValue>> = match self.content.get().starts_with('[') {
            true => serde_json::from_str(self.content.get())?,
            false => vec![self.content.clone()],
        };
        let mut lines = Vec::new();
        for block in &blocks {
            let block = RawObject::parse(block.get()).unwrap_or_default();
            lines.push(match (block.get_str("text"), block.get_str("data")) {
                (Some(text), _) => text,
                (None, Some(data)) => binary(&block, &data, &mut images)?,
                (None, None) => {
                    format!("[{} block; -o json shows it]", harmless(&block.get_str("type").unwrap_or_default()))
                }
            });
        }
        Ok(lines.join("\n"))
    }
}

/// Describes a block of bytes. Of those that are saved, the first one is.
fn binary(block: &RawObject, data: &str, images: &mut Images<'_>) -> anyhow::Result<String> {
    let kind = harmless(&block.get_str("mimeType").unwrap_or_default());
    let Ok(bytes) = BASE64_STANDARD.decode(data) else { return Ok(format!("[{kind}, not valid Base64]")) };
    let note = format!("{kind}, {} bytes", bytes.len());
    let file = match std::mem::replace(images, Images::Noted) {
        Images::Noted => return Ok(format!("[{note}]")),
        Images::Offered => return Ok(format!("[{note}; --save FILE writes it]")),
        Images::Saved(file) => file,
    };
    std::fs::write(file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(format!("[{note}, saved as {}]", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_shown_by_their_type() {
        let rendered = |content: &str, kind: &str| {
            let content = RawValue::from_string(content.to_owned()).unwrap();
            let result = ResultFields { content, content_type: kind.to_owned(), execution_duration: 1.0 };
            result.rendered(Images::Offered).unwrap()
        };
        assert_eq!(rendered("\"a\\nb\"", "text"), "a\nb");
        assert_eq!(rendered(r#"{"z":1.0,"a":2}"#, "json"), "{\n  \"z\": 1.0,\n  \"a\": 2\n}");
        let image = r#"{"type":"image","mimeType":"image/png","data":"aGk="}"#;
        assert_eq!(rendered(image, "image"), "[image/png, 2 bytes; --save FILE writes it]");
        let mixed = format!(r#"[{{"type":"text","text":"see"}},{image},{{"type":"resource_link"}}]"#);
        assert_eq!(
            rendered(&mixed, "image"),
            "see\n[image/png, 2 bytes; --save FILE writes it]\n[resource_link block; -o json shows it]"
        );
    }
}
