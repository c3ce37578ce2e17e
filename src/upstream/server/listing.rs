//! Reads the lists of a server, page by page.

use std::time::Duration;

use super::{Purpose, Server};
use crate::domain::item::{ItemKind, Listed};
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;
use crate::upstream::list_reader::ListReader;
use crate::upstream::pauses::Pauses;
use crate::upstream::wire::McpRequest;

/// How long to wait for a page of a list that the server does not announce.
const UNANNOUNCED: Duration = Duration::from_secs(5);

impl Server {
    /// Reads all pages of the server's list of items of this kind. A server that does not announce such items is asked too,
    /// as clients do; an error then means that it has none. Other lists than that of tools are only read over a connection that
    /// is open or that was closed because no call used it, and a server that does not know their methods has none of their
    /// items: servers that announce resources need not have templates.
    pub(in crate::upstream) async fn list(&self, kind: ItemKind, limit: Duration) -> Result<Listed, UpstreamError> {
        let lease = if kind == ItemKind::Tool || self.slot.rests() {
            self.lease(&self.slot, None, Purpose::Maintenance, false).await?
        } else {
            self.slot
                .current(Purpose::Maintenance)
                .ok_or_else(|| UpstreamError::Connect("it is not connected".into()))?
        };
        let (era, is_announced) = (lease.facts().era, lease.facts().has(kind));
        drop(lease);
        if is_announced {
            return self.read_list(kind, era, is_announced, limit).await;
        }
        match self.read_list(kind, era, is_announced, limit.min(UNANNOUNCED)).await {
            Err(
                UpstreamError::Refused { .. }
                | UpstreamError::RateLimited { .. }
                | UpstreamError::Protocol(_)
                | UpstreamError::Timeout(_),
            ) => Ok(Listed::default()),
            listed => listed,
        }
    }

    /// Reads all pages of one list.
    async fn read_list(
        &self,
        kind: ItemKind,
        era: Era,
        is_announced: bool,
        limit: Duration,
    ) -> Result<Listed, UpstreamError> {
        let (mut list, mut cursor, mut pauses) = (ListReader::new(kind, era), None, Pauses::default());
        loop {
            let request = McpRequest::List(kind, cursor.as_deref());
            let asked = self.ask(request, Purpose::Maintenance, None, limit).await;
            if let Err(UpstreamError::RateLimited { retry_after, .. }) = &asked
                && is_announced
                && let Some(pause) = pauses.take(*retry_after)
            {
                tokio::time::sleep(pause).await;
                continue;
            }
            let added = asked.and_then(|(answer, lease)| Ok((list.add(&answer)?, lease)));
            let is_unknown = added.as_ref().is_err_and(UpstreamError::is_unknown_method);
            if is_unknown && kind != ItemKind::Tool && cursor.is_none() {
                return Ok(Listed::default());
            }
            let (next, lease) = added.map_err(|error| self.masked(error, None))?;
            cursor = next;
            if cursor.is_none() {
                let mut listed = list.finish(is_announced);
                if kind == ItemKind::Tool {
                    lease.note_tools(&mut listed);
                }
                return Ok(listed.masked(&self.connector.mask(None)));
            }
        }
    }
}
