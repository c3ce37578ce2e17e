//! Errors of a history database.

use std::fmt::Display;

use super::pooler;
use crate::domain::causes::causes;
use crate::transport::outbound::{TlsNames, tls_advice};

const NO_TABLES: &str = "The database is no store of a gateway, or of an earlier version: none has made this table";

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
            error => {
                let said = causes(error) + &tls_advice(error, TlsNames::DATABASE);
                let lacks_table =
                    said.contains("no such table") || said.contains("relation") && said.contains("not exist");
                let advice = pooler::advice(&said).or_else(|| lacks_table.then_some(NO_TABLES));
                Self::new(store, &advice.map_or_else(|| said.clone(), |advice| format!("{said}. {advice}")))
            }
        }
    }
}
