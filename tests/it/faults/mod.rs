//! What plugins do that they must not, against a gateway that has to stand.

mod cases;
mod corpus;
mod crossed;
mod guarded;
mod json;
mod matrix;
mod table;
mod texts;
pub mod vitals;
