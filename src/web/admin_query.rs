//! Queries, bodies and errors of the admin API.

use std::error::Error;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::quoted::Quoted;
use crate::engine::Engine;

/// The default number of items on a page.
const DEFAULT_LIMIT: usize = 100;
/// The maximum number of items on a page.
const MAX_LIMIT: usize = 1000;

/// Reads the parameter `limit`.
pub(super) fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let given = String::deserialize(deserializer)?;
    let refused =
        || D::Error::custom(format!("must be a whole number from 1 to {MAX_LIMIT}; it is {}", Quoted(&given, 60)));
    given.parse().map(Some).map_err(|_| refused())
}

/// Returns the number of items on a page, for the parameter `limit`.
pub(super) fn page_size(limit: Option<usize>) -> Result<usize, AdminError> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let message = format!("limit must be 1 to {MAX_LIMIT}");
        return Err(AdminError(StatusCode::BAD_REQUEST, "InvalidLimit", message));
    }
    Ok(limit)
}

/// The state that every handler of the admin API receives.
pub(super) type AdminState = State<Arc<Engine>>;

/// An error response: its status, a reason and a message.
pub(super) struct AdminError(pub(super) StatusCode, pub(super) &'static str, pub(super) String);

/// The reason of an error; an extension of the response.
#[derive(Clone, Copy)]
pub(super) struct ErrorReason(pub(super) &'static str);

/// The body of an error response.
#[derive(Serialize, JsonSchema)]
pub(super) struct ErrorBody {
    error: ErrorFields,
}

#[derive(Serialize, JsonSchema)]
struct ErrorFields {
    /// The reason, a single word.
    reason: &'static str,
    /// What is wrong, and what to do.
    message: String,
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let Self(status, reason, message) = self;
        (status, Extension(ErrorReason(reason)), Json(ErrorBody { error: ErrorFields { reason, message } }))
            .into_response()
    }
}

/// A parsed query. An invalid query is answered with an [`AdminError`].
pub(super) struct AdminQuery<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for AdminQuery<T> {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AdminError> {
        let read = Query::try_from_uri(&parts.uri).map(|Query(asked)| Self(asked));
        read.map_err(|fault| {
            // The cause begins with the name of the parameter, if one is at fault.
            let why = fault.source().map_or_else(|| fault.body_text(), ToString::to_string);
            AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", format!("the query of the URL: {why}"))
        })
    }
}

/// The parsed body of a request that changes something. It must be declared as JSON: a web page cannot send that to another
/// origin without asking first. An empty body counts as an object without fields.
pub(super) struct AdminJson<T>(pub(super) T);

/// A body without fields.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoFields {}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for AdminJson<T> {
    type Rejection = AdminError;

    async fn from_request(request: Request, state: &S) -> Result<Self, AdminError> {
        let sent = request.headers().get(header::CONTENT_TYPE).and_then(|sent| sent.to_str().ok()).unwrap_or_default();
        let is_json = sent.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        if !is_json {
            let message = "a request that changes something needs the header `content-type: application/json`";
            return Err(AdminError(StatusCode::UNSUPPORTED_MEDIA_TYPE, "InvalidContentType", message.to_owned()));
        }
        let invalid = |status, why: String| AdminError(status, "InvalidBody", format!("the body: {why}"));
        let body =
            Bytes::from_request(request, state).await.map_err(|fault| invalid(fault.status(), fault.body_text()))?;
        let body = if body.is_empty() { b"{}" } else { &body[..] };
        serde_json::from_slice(body).map(Self).map_err(|fault| invalid(StatusCode::BAD_REQUEST, fault.to_string()))
    }
}

/// Declares the query parameters of a list.
macro_rules! list_query {
    ($name:ident { $($(#[doc = $doc:literal])+ $filter:ident),* }) => {
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(default)]
        pub(super) struct $name {
            /// The number of items on the page.
            #[serde(deserialize_with = "limit")]
            pub(super) limit: Option<usize>,
            /// `next` of the previous page; absent for the first page.
            pub(super) cursor: Option<String>,
            $($(#[doc = $doc])+ pub(super) $filter: Option<String>,)*
        }
    };
}
pub(super) use list_query;

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListOf{T}")]
pub(super) struct ListPage<T> {
    pub(super) items: Vec<T>,
    /// The cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// A page of a list, or why there is none.
pub(super) type PageResult<T> = Result<Json<ListPage<T>>, AdminError>;

/// Returns the requested page of `items`. `key` returns the id of an item; the id of the last item on a page is the
/// cursor of the next page.
pub(super) fn page<T>(
    items: Vec<T>,
    (limit, cursor): (Option<usize>, Option<String>),
    key: impl Fn(&T) -> &str,
) -> PageResult<T> {
    let limit = page_size(limit)?;
    let from = match &cursor {
        None => 0,
        Some(cursor) => {
            1 + items.iter().position(|item| key(item) == cursor).ok_or_else(|| {
                let message = "the item that the cursor names is gone: list from the start".to_owned();
                AdminError(StatusCode::BAD_REQUEST, "InvalidCursor", message)
            })?
        }
    };
    let more = items.len() > from + limit;
    let items: Vec<_> = items.into_iter().skip(from).take(limit).collect();
    let next = items.last().filter(|_| more).map(|item| key(item).to_owned());
    Ok(Json(ListPage { items, next }))
}
