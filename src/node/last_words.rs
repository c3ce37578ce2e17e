//! What errors and the last lines of a process say of limits.

use serde_json::Value;

use super::sandbox::MAX_DESCRIPTORS;

/// V8, Node.js and the C++ library say these words if memory ran out.
const OUT_OF_MEMORY: [&str; 3] = ["out of memory", "std::bad_alloc", "llocation failed"];

/// Whether memory ran out.
pub fn is_out_of_memory(text: &str) -> bool {
    OUT_OF_MEMORY.iter().any(|words| text.contains(words))
}

/// Adds the limit to the message of an error that says that too many files are open.
pub fn with_limit_of_files(message: String) -> String {
    if !message.contains("EMFILE") {
        return message;
    }
    format!("{message} (a worker can have {MAX_DESCRIPTORS} files and connections open)")
}

/// Returns what a line says of an error: the code and the message of a JSON object `{code, message}`, or the line.
pub fn reported_error(line: &str) -> String {
    let object: Value = serde_json::from_str(line).unwrap_or_default();
    match (object["code"].as_str(), object["message"].as_str()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => line.trim().to_owned(),
    }
}

/// Whether the line begins with the name of an error, as `TypeError: ...` or `Error [ERR_X]: ...`.
pub fn starts_with_error(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else { return false };
    let name = name.split_once(' ').map_or(name, |(name, _)| name);
    name.ends_with("Error") && name.chars().all(|c| c.is_ascii_alphanumeric())
}
