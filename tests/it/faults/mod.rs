//! What plugins do that they must not, against a gateway that has to stand.

mod cases;
mod corpus;
mod crossed;
mod guarded;
mod json;
mod matrix;
mod table;
mod texts;
mod vitals;

/// Whether this is a long run (`make soak`), not one of CI.
fn soaking() -> bool {
    std::env::var_os("HAWSEPIPE_SOAK").is_some()
}
