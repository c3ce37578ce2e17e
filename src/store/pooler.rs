//! Finds a pooler, such as PgBouncer, that gives the sessions of PostgreSQL to other clients between transactions. Statements
//! that are prepared in a session are then lost, and rows with them.

use std::time::Duration;

use sqlx::{AnyConnection, Row};

/// How long PostgreSQL may take to answer while another session has a transaction. A pooler with one connection never answers.
const ANSWER: Duration = Duration::from_secs(5);
const SESSIONS: &str = "the URL leads to a pooler that does not keep sessions (PgBouncer: `pool_mode = transaction` or \
    `statement`), and rows would be lost. Set `pool_mode = session` for this database or user in pgbouncer.ini, or name PostgreSQL \
    itself in the URL";
const FEW: &str = "a second connection gets no answer within 5 s, and a gateway needs 4 at a time. If the URL leads to a pooler, set \
    `pool_mode = session` and a `pool_size` of at least 4 for each gateway, or name PostgreSQL itself in the URL";
const PARAMETER: &str = "The URL leads to a pooler. Set `ignore_startup_parameters = extra_float_digits` and `pool_mode = session` \
    in pgbouncer.ini, or name PostgreSQL itself in the URL";

/// Finds out whether two connections have a session each, which they keep. Returns what to do if they do not.
///
/// # Errors
/// If a statement fails.
pub(super) async fn fault(
    first: &mut AnyConnection,
    second: &mut AnyConnection,
) -> Result<Option<&'static str>, sqlx::Error> {
    match tokio::time::timeout(ANSWER, keeps_sessions(first, second)).await {
        Ok(is_kept) => Ok((!is_kept?).then_some(SESSIONS)),
        Err(_) => Ok(Some(FEW)),
    }
}

/// A pooler gives the connection that was free last, or the one that was free longest: the second statement of the first client
/// then gets another one, or the transaction of the second client that of the first.
async fn keeps_sessions(first: &mut AnyConnection, second: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let (own, other) = (process(first).await?, process(second).await?);
    if own == other || process(first).await? != own {
        return Ok(false);
    }
    sqlx::raw_sql("BEGIN").execute(&mut *second).await?;
    let is_kept = process(second).await? == other && process(first).await? == own;
    sqlx::raw_sql("ROLLBACK").execute(&mut *second).await?;
    Ok(is_kept && process(second).await? == other && process(first).await? == own)
}

/// Returns the id of the process that serves a connection. The statement is not prepared.
async fn process(connection: &mut AnyConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// Returns what to do about an error that only a pooler causes.
pub(super) fn advice(error: &str) -> Option<&'static str> {
    let is_lost =
        error.contains("prepared statement") && ["not exist", "already exists"].iter().any(|it| error.contains(it));
    if error.contains("unsupported startup parameter") {
        Some(PARAMETER)
    } else if is_lost || error.contains("statement pooling mode") {
        Some(SESSIONS)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn errors_of_poolers_say_what_to_set() {
        let of = |what: &str| format!("error returned from database: {what}");
        for (error, word) in [
            (of("unsupported startup parameter: extra_float_digits"), "ignore_startup_parameters = extra_float_digits"),
            (of("unsupported startup parameter in options: x"), "pool_mode = session"),
            (of("prepared statement \"sqlx_s_1\" already exists"), "pool_mode = session"),
            (of("prepared statement \"sqlx_s_2\" does not exist"), "pool_mode = session"),
            (of("unnamed prepared statement does not exist"), "pool_mode = session"),
            (of("transaction blocks not allowed in statement pooling mode"), "pool_mode = session"),
        ] {
            assert!(advice(&error).is_some_and(|advice| advice.contains(word)), "{error}");
        }
        for error in [of("relation \"calls\" does not exist"), of("relation \"audit\" already exists")] {
            assert_eq!(advice(&error), None, "{error}");
        }
    }
}
