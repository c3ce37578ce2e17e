//! Reads, in the background, the stream on which a legacy server sends messages outside of requests (MCP, transports:
//! listening for messages).

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::Connection;
use super::media::encoding;
use super::response_body::Messages;
use crate::domain::invalid_message;
use crate::domain::item::ItemKind;
use crate::domain::upstream::{UpstreamError, UpstreamEvent};
use crate::upstream::server_message;

/// The pause before the stream is first opened again. It doubles each time, up to the longest pause.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest pause. A stream that was open for at least as long resets the pause to the first one.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Keeps the stream open in the background, until the session stops or the server does not offer a stream. The returned
/// token is cancelled as soon as the stream was opened, or could not be.
pub(super) fn listen(connection: &Arc<Connection>) -> CancellationToken {
    let (connection, tried) = (Arc::clone(connection), CancellationToken::new());
    let (tasks, first) = (connection.endpoint.shared.tasks.clone(), tried.clone().drop_guard());
    tasks.spawn(async move {
        let stop = connection.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_listening(&connection, first) => {}
        }
    });
    tried
}

async fn keep_listening(connection: &Arc<Connection>, first: DropGuard) {
    let mut first = Some(first);
    let (mut wait, mut told) = (FIRST_WAIT, false);
    let key = &connection.endpoint.target.plan.key;
    loop {
        let opened = open(connection).await;
        first.take();
        match opened {
            Ok(None) => {
                // A server that had a stream before does not know the session any more.
                if told {
                    connection.endpoint.shared.events.push(UpstreamEvent::Doubtful(key.clone()));
                }
                return;
            }
            Ok(Some(mut messages)) => {
                if told || wait > FIRST_WAIT {
                    // Messages that the server sent while the stream was closed are lost, and one of them may have
                    // announced a change of a list.
                    doubt_lists(connection);
                }
                told = true;
                let opened = Instant::now();
                read_all(connection, &mut messages).await;
                if opened.elapsed() >= LONGEST_WAIT {
                    wait = FIRST_WAIT;
                }
            }
            Err(UpstreamError::Connect(_)) if told => {
                // The connections of single clients end with the server too, which is one end of it.
                if connection.users.are_all {
                    connection.endpoint.shared.events.push(UpstreamEvent::Disconnected(key.clone()));
                }
                told = false;
            }
            Err(_) => {}
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Handles all messages of a stream, to its end.
async fn read_all(connection: &Arc<Connection>, messages: &mut Messages) {
    while let Ok(Some(text)) = messages.next().await {
        let messages = invalid_message::messages(text.as_bytes());
        let read = messages.into_iter().filter_map(|text| server_message::read(text).ok());
        read.for_each(|one| connection.take_notice(one));
    }
}

/// Reports that all lists may have changed.
fn doubt_lists(connection: &Connection) {
    let key = &connection.endpoint.target.plan.key;
    for kind in ItemKind::ANNOUNCED {
        connection.endpoint.shared.events.push(UpstreamEvent::ListStale(key.clone(), kind));
    }
}

/// Opens the stream. Returns `None` if the server does not offer one, or no longer knows the session.
async fn open(connection: &Connection) -> Result<Option<Messages>, UpstreamError> {
    let response = connection.get(None).await?;
    match response.status() {
        StatusCode::OK if encoding(response.headers()).is_none() => {
            // A message that is too large ends the stream, which is then opened again.
            Ok(Some(connection.endpoint.unasked_events(response.into_body())))
        }
        status
            if status == StatusCode::TOO_MANY_REQUESTS
                || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED =>
        {
            Err(UpstreamError::Lost(format!("HTTP {}", status.as_u16())))
        }
        _ => Ok(None),
    }
}
