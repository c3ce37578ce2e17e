//! The chains of a call over its request, which nothing of it is sent before.

use std::sync::Arc;

use super::arrived::Arrived;
use crate::domain::upstream::OutMembers;
use crate::engine::chains::Chains;
use crate::engine::chains::asked_client::AskedClient;
use crate::engine::chains::content::Content;
use crate::engine::chains::outcome::CallEnd;

/// Runs the request chains on the content, and returns the members of `params` that are sent: `checked`, if there are no chains.
pub(super) async fn request_chains(
    chains: &Arc<Chains>,
    arrived: &mut Arrived<'_>,
    client: &AskedClient<'_>,
    checked: Option<OutMembers>,
) -> Result<OutMembers, CallEnd> {
    if let Some(members) = checked {
        return Ok(members);
    }
    let (call, traces) = (client.call, &mut arrived.recorder.traces);
    let content = Content::Arguments(call.content.clone().into_owned());
    let (when, context) = (call.when(&call.content), client.call_context());
    let changed = chains.run_chains(context, &call.item.request, &when, &content, traces).await;
    match changed.map_err(|end| end.of_call(call.request.kind))? {
        None => call.members_in_time(None).await,
        Some(Content::Arguments(text)) => {
            client.changed_to(&text);
            call.members_in_time(Some(text)).await
        }
        Some(_) => Err(CallEnd::internal("a request chain gave no arguments")),
    }
}
