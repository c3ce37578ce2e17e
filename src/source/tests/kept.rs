//! Tests that only what is clearly a deletion takes an object away.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::*;
use super::{CHAIN, PLUGIN, file, one, read, said};
use crate::config::input::SourceInput;
use crate::source::files::MAX_FILES;

const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\n";

fn again(text: &str, before: &LoadedManifests) -> LoadedManifests {
    load(vec![file("a.yaml", text)], Some(before), Path::new(""))
}

/// Whether the chain is there and it is said that it stays.
fn stays(loaded: &LoadedManifests, what: &str) -> bool {
    let said = said(loaded);
    let is_said = said.iter().any(|line| {
        line.starts_with("a.yaml: error: the file counts as it was, with ") && line.contains("PluginChain team/c: ")
    });
    assert_eq!(loaded.chains.len() == 1, is_said, "{what}: {said:?}");
    is_said
}

#[test]
fn a_document_that_can_be_a_broken_one_deletes_nothing() {
    let both = one(&format!("{PLUGIN}---\n{CHAIN}---\n{ROLE}"));
    assert_eq!((both.plugins.len(), both.chains.len()), (1, 1));
    let head = "apiVersion: hawsepipe.dev/v1alpha1\nkind: PluginChain\n";
    for broken in [
        "kind: PluginChain\n".to_owned(),
        "apiVersion: hawsepipe.dev/v1alpha1\nkind: PluginCh\n".to_owned(),
        "kind: PluginChain\napiVersion: haw\n".to_owned(),
        CHAIN.replace("hawsepipe.dev", "hawsepip.dev"),
        CHAIN.replace("hawsepipe.dev/v1alpha1", "v1"),
        CHAIN.replace("kind: PluginChain", "kind: [PluginChain]"),
        CHAIN.replace("name: c,", ""),
        CHAIN.replace("name: c,", "name: 1,"),
        CHAIN.replace("namespace: team", "namespace: [team]"),
        format!("{head}metadata:\n  namespace: team\n  name: ca"),
        "apiVersion: v1\nkind: List\nitem: []\n".to_owned(),
        "apiVersion: v1\nkind: Lis\n".to_owned(),
        "[]\n".to_owned(),
        "a: [\n".to_owned(),
    ] {
        // The same text says the same again at each later reading.
        let mut loaded = both.clone();
        for _ in 0..2 {
            loaded = again(&format!("{}---\n{broken}", PLUGIN.replace("inline: x", "inline: y")), &loaded);
            assert!(stays(&loaded, &broken));
        }
        assert_eq!(loaded.plugins.len(), 1, "{broken}");
        assert!(!stays(&again(PLUGIN, &loaded), &broken), "every document is understood, and it is not there");
    }
}

#[test]
fn a_document_that_is_taken_out_of_a_file_with_others_is_deleted() {
    let both = one(&format!("{PLUGIN}---\n{CHAIN}---\n{ROLE}"));
    let other = CHAIN.replace("name: c,", "name: d,");
    for left in [PLUGIN.to_owned(), format!("---\n---\n{PLUGIN}---\n{ROLE}"), format!("{PLUGIN}---\n{other}")] {
        let loaded = again(&left, &both);
        assert!(!said(&loaded).iter().any(|line| line.contains("stays")), "{:?}", said(&loaded));
        assert!(loaded.chains.iter().all(|chain| chain.key.name == "d"), "{left}");
    }
}

#[test]
fn a_file_counts_as_a_whole_while_an_object_is_missing() {
    let edited = format!("kind: PluginCh\n---\n{}", PLUGIN.replace("inline: x", "inline: edited"));
    let code = |loaded: &LoadedManifests| match &loaded.plugins[0].source {
        SourceInput::Inline(code) => code.clone(),
        other => panic!("{other:?}"),
    };
    let missing = again(&edited, &one(&format!("{PLUGIN}---\n{CHAIN}")));
    assert!(stays(&missing, "the chain is missing"));
    assert_eq!((code(&missing).as_str(), missing.unreadable.len()), ("x", 1));
    let complete = again(&edited, &one(PLUGIN));
    assert_eq!((code(&complete).as_str(), complete.unreadable.len()), ("edited", 0), "nothing is missing");
}

#[test]
fn a_file_that_declares_nothing_any_more_counts_as_it_was_until_it_is_deleted_or_says_something_else() {
    let mut loaded = one(CHAIN);
    let list = "apiVersion: v1\nkind: List\nitems: []\n";
    for empty in ["", "\u{feff}", " \n\n", "---\n", "---\n---\n", "# nothing\n", "null\n", list, ROLE] {
        loaded = again(empty, &loaded);
        assert!(stays(&loaded, empty));
        assert!(said(&loaded).iter().any(|line| line.contains("or delete the file")), "{:?}", said(&loaded));
    }
    assert!(load(vec![], Some(&loaded), Path::new("")).chains.is_empty());
    assert!(!stays(&again(PLUGIN, &loaded), "another object"));
}

#[test]
fn a_manifest_without_an_object_is_a_warning_and_a_list_without_items_an_error() {
    for empty in ["", "---\n---\n", "# nothing\n", "apiVersion: v1\nkind: List\nitems: []\n"] {
        assert_eq!(said(&one(empty)), ["a.yaml: warning: it declares no object (NothingToServe)"], "{empty:?}");
    }
    let list = "apiVersion: v1\nkind: List\nitem:\n- {}\n";
    let expected = "a.yaml:1:1: error: the List has no items: items must be a list of objects (InvalidObject)";
    assert_eq!(said(&one(list)), [expected]);
    let loaded = load(vec![file("b.json", r#"{"kind": "List", "items": {}}"#)], None, Path::new(""));
    assert!(said(&loaded)[0].contains("the List has no items"), "{:?}", said(&loaded));
}

#[test]
fn a_secret_whose_name_is_cut_does_not_take_the_place_of_another() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {k: v}\n";
    let cut = again("apiVersion: v1\nkind: Secret\nmetadata:\n  name: to", &one(secret));
    assert!(
        said(&cut)[0].contains("with Secret default/token: ")
            && said(&cut)[0].contains("Secret default/to has no data")
    );
    assert!(cut.secrets.keys().any(|key| key.name == "token"));
    assert!(said(&again(&secret.replace("token", "other"), &one(secret))).is_empty(), "it has another name");
}

#[test]
fn files_vanish_with_objects_that_no_other_file_declares_alike() {
    let before = load(vec![file("a.yaml", PLUGIN), file("b.yaml", CHAIN)], None, Path::new(""));
    let vanished = |files: Vec<FileText>| {
        let vanished = before.vanished(&load(files, Some(&before), Path::new("")));
        vanished.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(vanished(vec![file("a.yaml", PLUGIN)]), ["b.yaml"]);
    assert!(vanished(vec![file("a.yaml", PLUGIN), file("c.yaml", CHAIN)]).is_empty(), "it is renamed");
    let weaker = CHAIN.replace("read_*", "write_*");
    assert_eq!(vanished(vec![file("a.yaml", PLUGIN), file("c.yaml", &weaker)]), ["b.yaml"], "another one is there");
    let edited = format!("{}---\n{CHAIN}", PLUGIN.replace("name: p", "name: q"));
    assert!(vanished(vec![file("a.yaml", PLUGIN), file("b.yaml", &edited)]).is_empty(), "it is edited");
}

#[test]
fn a_known_file_is_read_whatever_takes_its_place() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-known-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("a.yaml")).unwrap();
    std::fs::write(folder.join("a.yaml/inside.yaml"), PLUGIN).unwrap();
    mknodat(CWD, folder.join("b.yaml"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::os::unix::fs::symlink(folder.join("nowhere"), folder.join("c.yaml")).unwrap();
    let files = ["a.yaml", "b.yaml", "c.yaml", "gone.yaml"].map(|name| folder.join(name));
    let known: HashSet<PathBuf> = files.clone().into();
    let unread = |files: Vec<FileText>| {
        let unread =
            files.iter().map(|file| (file.path.to_path_buf(), file.text.as_ref().unwrap_err().message.clone()));
        unread.collect::<Vec<_>>()
    };
    let found = unread(read_files(std::slice::from_ref(&folder), &known));
    assert_eq!(found.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), files[..3]);
    assert!(found[..2].iter().all(|(_, why)| why == "it is not a regular file"), "{found:?}");
    assert_eq!(unread(read_files(&files[..2], &known)), found[..2], "named on the command line");
    assert_eq!(
        unread(read(std::slice::from_ref(&folder))).len(),
        1,
        "others than known ones are not looked at, but for the link"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn new_files_do_not_crowd_out_known_ones() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-crowd-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for i in 0..MAX_FILES + 2 {
        std::fs::write(folder.join(format!("{i:04}.yaml")), "").unwrap();
    }
    let last = folder.join(format!("{:04}.yaml", MAX_FILES + 1));
    let names = |files: &[FileText]| files.iter().map(|file| file.path.to_path_buf()).collect::<Vec<_>>();
    let files = read_files(std::slice::from_ref(&folder), &[last.clone()].into());
    assert_eq!(
        names(&files[MAX_FILES - 2..]),
        [folder.join(format!("{:04}.yaml", MAX_FILES - 2)), folder.join(format!("{:04}.yaml", MAX_FILES - 1)), last]
    );
    let unread: Vec<_> = files.iter().filter(|file| file.text.is_err()).collect();
    assert_eq!(unread.len(), 1);
    let why = &unread[0].text.as_ref().unwrap_err().message;
    assert!(unread[0].path.ends_with("1999.yaml") && why.contains("more than 2000 files"), "{why}");
    std::fs::remove_dir_all(folder).unwrap();
}
