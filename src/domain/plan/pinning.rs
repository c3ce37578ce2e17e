//! Which definitions of tools the owner of an upstream approved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What happens with tools whose definitions are not approved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinningPlan {
    /// Whether such tools are withheld: neither listed nor callable.
    pub enforce: bool,
    /// The digests of the approved definitions, by the server's own names for the tools. `None` means that the first
    /// definition of a tool that was seen is approved.
    pub approved: Option<BTreeMap<String, String>>,
}
