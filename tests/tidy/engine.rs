//! The folders of the engine, and who may open what a server answered.

use super::{check, code, names, rust};

/// A folder or file of `src/engine`, and those that it may not name because they stand above it.
const ABOVE: [(&str, &[&str]); 3] = [
    ("exchange", &["calls", "chains", "invocations", "notices", "pipelines", "servers", "upstreams", "views"]),
    (
        "chains",
        &["calls", "completion", "invocations", "list", "notices", "pipelines", "servers", "upstreams", "views"],
    ),
    ("servers", &["calls", "completion", "invocations", "list", "notices", "pipelines", "upstreams", "views"]),
];

/// The places of `src/engine` that may name the text of an answer before its chains ran.
const OPENS_ANSWERS: [&str; 2] = ["chains", "servers"];

/// Returns the folder or file below `src/engine` that a file belongs to, and the rest of its path.
fn place(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix("src/engine/").filter(|rest| !rest.starts_with("tests/"))?;
    let (place, rest) = rest.split_once(['/', '.'])?;
    Some((place, rest))
}

#[test]
fn folders_of_the_engine_know_only_those_below() {
    check("a folder of the engine names one above it", rust(), |name, text, faults| {
        let Some((place, _)) = place(name) else { return };
        for above in ABOVE.iter().filter(|(folder, _)| *folder == place).flat_map(|(_, above)| *above) {
            let path = format!("engine::{above}::");
            let named = code(text).filter(|(_, line)| names(line, &path));
            faults.extend(named.map(|(number, _)| (number, format!("names {path}"))));
        }
    });
}

#[test]
fn only_chains_and_servers_name_what_a_server_answered() {
    check("names an answer that no chain has seen", rust(), |name, text, faults| {
        let Some((place, _)) = place(name).filter(|(place, _)| !OPENS_ANSWERS.contains(place)) else { return };
        let words = ["ServerAnswer", "CallUpstream", "impl GuardedClient"];
        // The engine itself is given the port.
        let words = if place == "mod" { &words[..1] } else { &words[..] };
        for word in words {
            let named = code(text).filter(|(_, line)| names(line, word));
            faults.extend(named.map(|(number, _)| (number, format!("names {word}"))));
        }
    });
}
