//! A plugin that is a program, in the form that the compiler reads.

/// A plugin's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrapperInput {
    /// The name of the gateway's interpreter that runs the code; `None` if the code is the program.
    pub interpreter: Option<String>,
    /// `spec.wrapper.args`.
    pub args: Vec<String>,
    /// `spec.wrapper.protocolVersion`.
    pub protocol_version: Option<String>,
}
