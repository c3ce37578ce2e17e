//! Queries and errors of the admin API.

use std::error::Error;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::engine::Engine;

/// The state that every handler of the admin API receives.
pub(super) type AdminState = State<Arc<Engine>>;

/// An error response: its status, a reason and a message.
pub(super) struct AdminError(pub(super) StatusCode, pub(super) &'static str, pub(super) String);

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let Self(status, reason, message) = self;
        (status, Json(json!({"error": {"reason": reason, "message": message}}))).into_response()
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
