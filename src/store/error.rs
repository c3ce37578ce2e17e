//! Errors of a history database.

use std::fmt::Display;

use crate::domain::causes::causes;

/// Why a store cannot be used. It names the store, without user and password.
#[derive(Debug, thiserror::Error)]
#[error("the store {store}: {message}")]
pub struct StoreError {
    store: String,
    message: String,
}

impl StoreError {
    pub(super) fn new(store: &impl Display, message: &(impl Display + ?Sized)) -> Self {
        Self { store: store.to_string(), message: message.to_string() }
    }

    pub(super) fn of(store: &impl Display, error: &sqlx::Error) -> Self {
        match error {
            // The pool's error has no cause.
            sqlx::Error::PoolTimedOut => Self::new(store, "no connection within 5 s"),
            error => Self::new(store, &causes(error)),
        }
    }
}
