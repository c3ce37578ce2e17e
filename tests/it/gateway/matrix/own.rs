//! What clients ask of the gateway itself.

use serde_json::json;

use super::GATEWAY;
use super::cells::{Row, Who};
use super::checks::answered;
use super::clients::Era;

pub fn rows() -> Vec<Row> {
    let modern = Who::In(Era::Modern);
    vec![
        Row::of(GATEWAY, "ping", json!({"ping": true}), answered()).differs(modern, "2026-07-28 has no ping"),
        Row::of(GATEWAY, "logging/setLevel", json!({"level": "warning"}), answered())
            .differs(modern, "in 2026-07-28 each request names its level"),
    ]
}
