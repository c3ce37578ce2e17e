//! The arguments of a call, as an override of the tool has them: what a client may give, and what is sent.

use serde_json::value::RawValue;

use super::outcome::CallEnd;
use super::routed_call::Routed;
use crate::domain::changed_tool::{check_given, completed};
use crate::domain::plan::ToolOverride;

impl<'a> Routed<'a> {
    /// Checks the arguments as the client sent them: against what the override says of them, and against the schema that
    /// clients see.
    ///
    /// # Errors
    /// The places that do not fit, one per line.
    pub(super) fn check_arguments(&self) -> Result<(), String> {
        self.change.map_or(Ok(()), |change| check_given(self.arguments(), change))?;
        self.item.arguments.check(self.arguments())
    }

    /// The text that answers the call instead of the server.
    pub(super) fn fixed_answer(&self) -> Option<&'a str> {
        self.change.and_then(|change| change.answer.as_deref())
    }

    /// Returns the arguments to send: those that the request chains gave, if they changed any, else the client's, with
    /// the values that the override fixes. What was changed or added is checked against the schema again.
    pub(super) fn arguments_to_send(&self, changed: Option<String>) -> Result<Option<Box<RawValue>>, CallEnd> {
        let tool = self.request.name;
        let change = self.change.filter(|change| !change.arguments.is_empty() && change.answer.is_none());
        match (change, changed) {
            (None, None) => Ok(self.request.arguments.map(RawValue::to_owned)),
            (None, Some(text)) => {
                let fits = self.item.arguments.check_changed(&text);
                fits.map_err(|places| CallEnd::invalid_changed_arguments(tool, &places))?;
                Ok(RawValue::from_string(text).ok())
            }
            (Some(change), changed) => {
                let text = changed.as_deref().unwrap_or(self.arguments());
                let sent = completed(text, change).and_then(|sent| self.check_sent(sent, change));
                sent.map(Some).map_err(|places| CallEnd::invalid_completed_arguments(tool, &places))
            }
        }
    }

    fn check_sent(&self, sent: Box<RawValue>, change: &ToolOverride) -> Result<Box<RawValue>, String> {
        let is_hidden = |name: &str| change.arguments.iter().any(|argument| argument.hidden && argument.name == name);
        let check = self.item.sent.as_ref().unwrap_or(&self.item.arguments);
        check.check_completed(sent.get(), is_hidden).map(|()| sent)
    }
}
