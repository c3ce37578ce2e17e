//! Files of a running gateway that are cut, replaced, crowded out and linked: a guard stays, or comes, and it is said.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, object, plugin, raw_server, yaml};
use super::vanished::{problems, waited};

const HEAD: &str = "apiVersion: hawsepipe.dev/v1alpha1\nkind: PluginChain\n";

async fn is_guarded(gateway: &Gateway) -> bool {
    Http::new().call(&gateway.url(), "up__args", &json!({}), &json!({})).await.to_string().contains("guarded")
}

async fn until_guarded(gateway: &Gateway) {
    gateway.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("guarded")).await;
}

/// A server, and a plugin that guards it where a chain names it.
fn unguarded() -> Folder {
    let code = "export default () => ({ text: 'guarded', continue: true });";
    Folder::with(&yaml(&[raw_server("up", &[]), plugin("guard", code, &json!({"role": "Guard"}))]))
}

fn guard() -> String {
    guard_of("args")
}

fn guard_of(tool: &str) -> String {
    let name = if tool == "args" { "guard" } else { tool };
    yaml(&[chain(name, "Response", tool, &[json!({"name": "guard"})])])
}

/// Puts a link at `path` in one step, whatever is there.
fn point(path: &Path, target: &str) {
    let beside = path.with_file_name("beside");
    symlink(target, &beside).unwrap();
    fs::rename(beside, path).unwrap();
}

fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir(path).unwrap() } else { fs::remove_file(path).unwrap() }
}

/// What may stand in the file of the guard, of which none says that it is meant to be deleted.
fn damaged_texts() -> [String; 8] {
    [
        "---\n".to_owned(),
        "# none\n".to_owned(),
        "apiVersion: v1\nkind: List\n".to_owned(),
        "apiVersion: hawsepipe.dev/v1alpha1\nkind: PluginCh".to_owned(),
        "kind: PluginChain\napiVersion: haw".to_owned(),
        guard().replace("hawsepipe.dev", "hawsepip.dev"),
        format!("{HEAD}metadata: {{}}\n"),
        "\"cut".to_owned(),
    ]
}

#[tokio::test]
async fn a_guard_whose_file_is_damaged_stays_and_that_is_said() {
    let folder = unguarded();
    folder.write("chain.yaml", &guard());
    let running = Gateway::start(&folder);
    until_guarded(&running).await;
    let file = folder.path().join("chain.yaml");
    let texts = damaged_texts();
    let damages = texts.iter().map(|text| {
        let file = &file;
        (text.as_str(), Box::new(move || fs::write(file, text).unwrap()) as Box<dyn Fn()>)
    });
    let replaced = |put: fn(&Path)| {
        let file = &file;
        Box::new(move || {
            remove(file);
            put(file);
        }) as Box<dyn Fn()>
    };
    let replacements = [
        ("a folder", replaced(|file| fs::create_dir(file).unwrap())),
        ("a FIFO", replaced(|file| mknodat(CWD, file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap())),
        ("a dangling link", replaced(|file| symlink("nowhere", file).unwrap())),
    ];
    for (what, damage) in damages.chain(replacements) {
        damage();
        let stays = "the file counts as it was, with PluginChain default/guard: ";
        let (is_settled, said) = waited(&running);
        assert!(!is_settled && said.contains(stays), "{what}: {said}");
        assert!(problems(&running).await.contains(stays), "{what}: {}", problems(&running).await);
        assert!(is_guarded(&running).await, "{what}");
        running.logged(|line| line["message"].as_str().is_some_and(|message| message.contains(stays)));
        remove(&file);
        folder.write("chain.yaml", &guard());
        let (is_settled, said) = waited(&running);
        assert!(is_settled && problems(&running).await == "[]", "{what}: {said}");
    }
}

#[tokio::test]
async fn a_folder_that_becomes_a_file_leaves_the_plan_as_it_is() {
    let (folder, guards) = (unguarded(), Folder::new());
    guards.write("chain.yaml", &guard());
    let running = Gateway::start_with(&folder, &["-f", guards.path().to_str().unwrap()]);
    until_guarded(&running).await;
    let aside = guards.path().with_extension("aside");
    fs::rename(guards.path(), &aside).unwrap();
    fs::write(guards.path(), "# none\n").unwrap();
    let (is_settled, said) = waited(&running);
    assert!(!is_settled && said.contains("was a folder of manifests"), "{said}");
    assert!(is_guarded(&running).await);
    fs::remove_file(guards.path()).unwrap();
    fs::rename(&aside, guards.path()).unwrap();
    assert!(waited(&running).0);
}

#[tokio::test]
async fn new_files_beyond_the_limit_are_left_out_and_the_guard_stays() {
    let folder = unguarded();
    for i in 0..1998 {
        let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: n{i}}}}}\n");
        fs::write(folder.path().join(format!("n{i:04}.yaml")), namespace).unwrap();
    }
    folder.write("z.yaml", &guard());
    let running = Gateway::start(&folder);
    until_guarded(&running).await;
    folder.write("a.yaml", &yaml(&[object("PluginChain", "late", &json!({}))]));
    let (is_settled, said) = waited(&running);
    assert!(!is_settled && said.contains("a.yaml") && said.contains("more than 2000 files"), "{said}");
    assert!(is_guarded(&running).await);
}

#[tokio::test]
async fn what_links_lead_to_is_followed() {
    let folder = unguarded();
    for below in ["one", "two", "volume", "volume/..1", "volume/..2"] {
        fs::create_dir(folder.path().join(below)).unwrap();
    }
    folder.write("two/chain.yaml", &guard_of("args"));
    folder.write("volume/..1/chain.yaml", "# none yet\n");
    folder.write("volume/..2/chain.yaml", &guard_of("slow"));
    folder.write("linked.txt", "# none yet\n");
    let point = |link: &str, target: &str| point(&folder.path().join(link), target);
    point("current", "one");
    point("linked.yaml", "linked.txt");
    point("volume/..data", "..1");
    point("volume/chain.yaml", "..data/chain.yaml");
    let more = ["current", "volume"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let running = Gateway::start_with(&folder, &["-f", &more[0], "-f", &more[1]]);
    let changes: [(&str, &dyn Fn()); 4] = [
        ("args", &|| point("current", "two")),
        ("chatter", &|| folder.write("two/more.yaml", &guard_of("chatter"))),
        ("huge", &|| fs::write(folder.path().join("linked.txt"), guard_of("huge")).unwrap()),
        ("slow", &|| point("volume/..data", "..2")),
    ];
    for (tool, change) in changes {
        let (name, few) = (format!("up__{tool}"), json!({"size": 5}));
        let answer = Http::new().call(&running.url(), &name, &few, &json!({})).await;
        assert!(!answer.to_string().contains("guarded"), "{tool}: {answer}");
        change();
        running.until_answer(&name, &few, "/result/content/0/text", &json!("guarded")).await;
    }
}
