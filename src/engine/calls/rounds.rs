//! Calls of servers that ask for input in their result (MCP 2026-07-28, multi-round-trip requests): the client answers by
//! sending the call once more. For a client of the legacy era, the gateway asks it in the middle of its call and sends
//! the call itself.

use std::sync::Arc;

use super::Calls;
use super::arrived::Arrived;
use crate::domain::upstream::{OutMembers, UpstreamError};
use crate::domain::version::Era;
use crate::engine::chains::asked_client::AskedClient;
use crate::engine::chains::input_questions::InputQuestions;
use crate::engine::chains::input_state::Answered;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::unchecked::Unchecked;

/// How often one call is sent, at most.
const MAX_ROUNDS: usize = 16;

impl Calls {
    /// Sends the call until the server has answered it. A result that asks a client of the modern era for input is
    /// returned as an answer, since that client itself sends the call once more.
    pub(super) async fn send_in_rounds(
        self: &Arc<Self>,
        arrived: &mut Arrived<'_>,
        client: &AskedClient<'_>,
        members: &mut OutMembers,
        Answered { round, early }: &mut Answered,
    ) -> Result<Unchecked, CallEnd> {
        let (call, recorder) = (client.call, &mut arrived.recorder);
        recorder.sends(|| call.as_content(members));
        for _ in 0..MAX_ROUNDS {
            let answer = self.send(call, (client, client), members, std::mem::take(round), recorder).await?;
            if !answer.facts().asks_back {
                return Ok(answer);
            }
            let client_is_asked = call.request.caller.era == Era::Modern && call.request.within.is_none();
            let is_modern = answer.era() == Era::Modern;
            if client_is_asked && (is_modern || call.item.watches_questions()) {
                let Some(given) = early.take().filter(|_| is_modern) else { return Ok(answer) };
                let Some(next) = client.answers_early(&given, &answer).await? else { return Ok(answer) };
                *round = next;
                continue;
            }
            if !is_modern {
                // To a server of the legacy era the member means nothing: it has executed the call.
                return Ok(answer.not_asking_back());
            }
            *round = match InputQuestions::of(&answer) {
                Ok(questions) => questions.ask(client).await?,
                Err(why) => return Err(self.ends.upstream_failed(call, &UpstreamError::Protocol(why.to_owned()))),
            };
        }
        let why = format!("it asked for input {MAX_ROUNDS} times and did not answer the call");
        Err(self.ends.upstream_failed(call, &UpstreamError::Protocol(why)))
    }
}
