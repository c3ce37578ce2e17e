//! Questions to the user of a client that come in an error: URLs that are to be opened before the call is sent once more
//! (MCP 2025-11-25, elicitation: URL elicitation required error). They pass the chains that name their method.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::asked_client::AskedClient;
use super::input_questions::MAX_QUESTIONS;
use super::outcome::CallEnd;
use super::unchecked::Unchecked;
use crate::domain::budget::{Category, NoRoom};
use crate::domain::json::doubled_key;
use crate::domain::method::Method;
use crate::domain::question::Question;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::URL_ELICITATION_REQUIRED;
use crate::domain::upstream::{Answer, UpstreamError};
use crate::engine::plan::linked_item::Selected;

impl AskedClient<'_> {
    /// Runs the chains on the questions of an answer, which has only what they let pass afterwards. The questions in an error are part of the content that the response
    /// chains see, so that they pass if a plugin there checks them and no chain names their method.
    pub(in crate::engine) async fn asks_by_error(&self, answer: &mut Unchecked) -> Result<(), CallEnd> {
        let item = self.call.item;
        let Answer::Error(error) = answer.unseen() else { return Ok(()) };
        let Some(chains) = item.questions(Method::Elicit).filter(|_| item.watches_questions() && asks(error)) else {
            return Ok(());
        };
        if chains.is_empty() && item.response.iter().any(Selected::checks) {
            return Ok(());
        }
        if let Some(steps) = doubled_key(error.get()) {
            return Err(self.chains.ends.withheld(self.call, &steps));
        }
        let misshapen = || {
            let why = "its error asks the user to open URLs in no form that the protocol has".to_owned();
            self.chains.ends.upstream_failed(self.call, &UpstreamError::Protocol(why))
        };
        let mut error = RawObject::parse(error.get()).map_err(|_| misshapen())?;
        let mut data = error.get("data").and_then(|data| RawObject::parse(data.get()).ok()).unwrap_or_default();
        let asked: Option<Vec<Box<RawValue>>> =
            data.get("elicitations").and_then(|asked| serde_json::from_str(asked.get()).ok());
        let asked = asked.filter(|asked| asked.len() <= MAX_QUESTIONS).ok_or_else(misshapen)?;
        let held = self.chains.budget.reservation(Category::Answer);
        let (mut passed, mut size) = (Vec::new(), 0);
        for params in asked {
            let question = Question { method: Method::Elicit, params: Some(params) };
            let params = self.checked(question).await.map_err(|end| self.ended_by(end))?.params;
            let params = params.unwrap_or_else(|| RawValue::NULL.to_owned());
            size += params.get().len() as u64;
            held.resize(size).map_err(|NoRoom| CallEnd::no_room())?;
            passed.push(params);
        }
        if item.checks_questions() {
            // Nothing passes beside the questions that no plugin has seen.
            data = RawObject::default();
        }
        data.set("elicitations", to_raw(&passed));
        error.set("data", data.to_raw());
        answer.set_error(error.to_raw());
        Ok(())
    }
}

/// Whether an error asks the user to open URLs. What cannot be read may ask.
pub(in crate::engine) fn asks(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Code<'a> {
        #[serde(borrow)]
        code: &'a RawValue,
    }
    let is_it = |code: &str| code.parse::<f64>().is_ok_and(|code| code.round() as i64 == URL_ELICITATION_REQUIRED);
    serde_json::from_str::<Code<'_>>(error.get()).map_or(true, |error| is_it(error.code.get()))
}
