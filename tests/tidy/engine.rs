//! The folders of the engine, and who may open what a server answered.

use super::{check, code, names, rust};

/// The folders and files of `src/engine` from the ground up: each names only those before it.
const ORDER: [&str; 16] = [
    "catalogue",
    "exchange",
    "in_flight",
    "plan",
    "request",
    "notices",
    "access",
    "audit_trail",
    "chains",
    "servers",
    "pipelines",
    "lists",
    "calls",
    "invocations",
    "apply",
    "views",
];

/// The files that put the engine together, which name everything.
const WHOLE: [&str; 2] = ["mod", "assemble"];

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
        let Some((place, _)) = place(name).filter(|(place, _)| !WHOLE.contains(place)) else { return };
        let Some(at) = ORDER.iter().position(|known| *known == place) else {
            return faults.push((1, "is in no place of the order".to_owned()));
        };
        for above in &ORDER[at + 1..] {
            let path = format!("engine::{above}::");
            let named = code(text).filter(|(_, line)| names(line, &path));
            faults.extend(named.map(|(number, _)| (number, format!("names {path}"))));
        }
        let named = code(text).filter(|(_, line)| line.contains("crate::engine::{") || names(line, "engine::Engine"));
        faults.extend(named.map(|(number, _)| (number, "names the whole engine".to_owned())));
    });
}

#[test]
fn only_chains_and_servers_name_what_a_server_answered() {
    check("names an answer that no chain has seen", rust(), |name, text, faults| {
        let Some((place, _)) = place(name).filter(|(place, _)| !OPENS_ANSWERS.contains(place)) else { return };
        let words = ["ServerAnswer", "CallUpstream", "impl GuardedClient"];
        // The engine itself is given the port.
        let words = if WHOLE.contains(&place) { &words[..1] } else { &words[..] };
        for word in words {
            let named = code(text).filter(|(_, line)| names(line, word));
            faults.extend(named.map(|(number, _)| (number, format!("names {word}"))));
        }
    });
}
