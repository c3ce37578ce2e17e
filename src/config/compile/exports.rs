//! The exports of plugin code: by which names a worker calls a Module, and what to say about code with other exports.

use crate::config::nearest::nearest;
use crate::domain::plugin::PluginKind;
use crate::domain::ports::CodeFacts;
use crate::domain::quoted::Quoted;

/// The names by which a worker calls the functions of a Module. It calls `warmup` too, but a plugin needs another one.
const CALLED: [&str; 3] = ["default", "onRequest", "onResponse"];
/// What parsing reports for `export * from`, whose names are those of another file.
const STAR: &str = "*";
/// The maximum number of exports that a message names.
const NAMED: usize = 5;
/// The maximum number of characters of a name that a message shows.
const SHOWN: usize = 40;

/// Whether the code exports a function that a worker calls by its name.
pub(super) fn exports_called(facts: &CodeFacts) -> bool {
    facts.exports.iter().any(|name| CALLED.contains(&name.as_str()))
}

/// Says what the code exports, what a Module exports, and what to do, for code that exports nothing that is called.
pub(super) fn not_called(facts: &CodeFacts) -> String {
    let hint = if facts.exports.iter().any(|name| name == STAR) {
        " (names behind `export * from` are not known: list them, as in `export { onRequest } from`)".to_owned()
    } else {
        similar(facts).map(|(_, meant)| format!(" (did you mean {meant}?)")).unwrap_or_default()
    };
    format!(
        "its code exports {}{hint}: export default, onRequest or onResponse for a Module, or write protocol: Once for a \
         script",
        listed(&facts.exports)
    )
}

/// Says what the code exports, and the function that a plugin of this type needs: one of `missing`.
pub(super) fn not_typed(facts: &CodeFacts, missing: &[&str], kind: PluginKind) -> String {
    let (exported, missing, kind) = (listed(&facts.exports), missing.join(" or "), kind.with_article());
    format!("its code exports {exported}, and no function {missing}, which {kind} needs")
}

/// Returns a warning if CommonJS assigns a similar name to its exports, since it then runs as a script.
pub(super) fn nearly_called(facts: &CodeFacts) -> Option<String> {
    let (name, meant) = similar(facts)?;
    Some(format!(
        "its code exports {} and no function for a phase, and so runs as a script: did you mean {meant}? If not, write \
         protocol: Once",
        Quoted(name, SHOWN)
    ))
}

/// Returns the first export whose name is similar to one that is called, and that one.
fn similar(facts: &CodeFacts) -> Option<(&str, &'static str)> {
    facts.exports.iter().find_map(|name| Some((name.as_str(), nearest(name, CALLED)?)))
}

fn listed(exports: &[String]) -> String {
    let mut names: Vec<_> = exports.iter().take(NAMED).map(|name| Quoted(name, SHOWN).to_string()).collect();
    if exports.len() > NAMED {
        names.push(format!("{} more", exports.len() - NAMED));
    }
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => format!("only {last}"),
        Some((last, first)) => format!("only {} and {last}", first.join(", ")),
    }
}
