//! Reads request bodies within bounds of size and time.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

use crate::domain::budget::{NoRoom, Reservation};

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the rest of a body may take to arrive once its endpoint is closed, or the process ends.
const LAST_BODIES: Duration = Duration::from_secs(5);
/// How long the rest of a refused body is read and discarded, so that its sender can read the answer.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than this number of bytes.
    #[error("the request is larger than {0} bytes")]
    TooLarge(u64),
    /// It did not arrive within this time.
    #[error("the request's body did not arrive within {0:?}")]
    TooSlow(Duration),
    /// It had not arrived when the endpoint was closed, which the end of the process does too.
    #[error("the request's body had not arrived when this endpoint was closed; nothing ran")]
    Ending,
    /// The budget of bytes has no room for it.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The connection ended before it did.
    #[error("the request's body was cut off")]
    Broken,
}

impl BodyError {
    /// Returns the HTTP status for a request whose body could not be read.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom(_) | Self::Ending => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

/// Whether the body of a request with these headers is JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether a request says that its body is encoded, such as compressed (RFC 9110, 8.4).
pub fn is_encoded(headers: &HeaderMap) -> bool {
    let named =
        headers.get_all(header::CONTENT_ENCODING).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    named.map(<[u8]>::trim_ascii).any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// Reads a whole body of at most `limit` bytes, and reserves memory for it in `reservation`. A body in one piece is not
/// copied. Once `ending` is cancelled, a body has 5 seconds to arrive.
///
/// # Errors
/// If the body is too large, too slow or cut off, or if there is no room for it. A body that is too large is refused
/// before it is read if its length is declared, otherwise as soon as it exceeds the limit.
pub async fn read_body(
    mut body: Body,
    declared: Option<u64>,
    limit: u64,
    reservation: &Reservation,
    ending: &CancellationToken,
) -> Result<Bytes, BodyError> {
    if declared.is_some_and(|length| length > limit) {
        discard(body);
        return Err(BodyError::TooLarge(limit));
    }
    let most = declared.unwrap_or(limit);
    let result = tokio::select! {
        // Most bodies are there at once.
        biased;
        read = tokio::time::timeout(BODY_TIMEOUT, collect(&mut body, limit, most, reservation)) => {
            read.unwrap_or(Err(BodyError::TooSlow(BODY_TIMEOUT)))
        }
        () = last_bodies(ending) => Err(BodyError::Ending),
    };
    if matches!(result, Err(BodyError::TooLarge(_) | BodyError::NoRoom(_))) {
        discard(body);
    }
    result
}

async fn last_bodies(ending: &CancellationToken) {
    ending.cancelled().await;
    tokio::time::sleep(LAST_BODIES).await;
}

/// Reads the whole body. Memory is reserved only for bytes that have arrived, because a client can declare any length.
async fn collect(body: &mut Body, limit: u64, most: u64, reservation: &Reservation) -> Result<Bytes, BodyError> {
    let mut first = Bytes::new();
    let mut more = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        let needed = first.len() + more.len() + data.len();
        if needed as u64 > limit {
            return Err(BodyError::TooLarge(limit));
        }
        if first.is_empty() && more.is_empty() {
            reservation.resize(data.len() as u64)?;
            first = data;
            continue;
        }
        if needed > more.capacity() {
            let doubled = usize::try_from(most).unwrap_or(usize::MAX).min(2 * more.capacity());
            let capacity = needed.max(doubled);
            reservation.resize(capacity as u64)?;
            more.reserve_exact(capacity - more.len());
        }
        more.extend_from_slice(&std::mem::take(&mut first));
        more.extend_from_slice(&data);
    }
    Ok(if more.is_empty() { first } else { more.into() })
}

/// Reads and discards the rest of a body. If a connection were closed with unread bytes, the client might not receive
/// the answer.
fn discard(mut body: Body) {
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move { while let Some(Ok(_)) = body.frame().await {} }));
}
