//! What is made of folders of manifests, as files that people can read: `tests/golden/plans`.
//!
//! Each folder there is a case. One that holds folders itself is edited: each of them, by name, takes the place of the
//! one before. Beside the manifests lie the plan and the Problems; `UPDATE_GOLDEN=1` in the environment writes them
//! anew. What differs from one machine to another is left out: paths, digests over paths, and the text of code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hawsepipe::domain::plan::Plan;
use hawsepipe::node::{Inspector, Launcher};
use hawsepipe::source::{CompiledManifests, Directory, DirectoryError, DirectorySettings};

use crate::fixtures::checkout;
use crate::fixtures::program;

/// Cases whose manifests lie elsewhere in the checkout.
const ELSEWHERE: [(&str, &str); 1] = [("quickstart", "manifests/quickstart")];
/// Cases that have several gateways: each is compiled.
const SEVERAL: [(&str, &[&str]); 1] = [("gateways", &["internal", "public"])];
/// What Secrets of the cases hold, as text and in base64.
const SECRET: [&str; 2] = ["swordfish", "c3dvcmRmaXNo"];

/// Where manifests are read from. One that was made for a case goes with its value.
struct Place {
    path: PathBuf,
    made: bool,
}

impl Place {
    /// Of the checkout for what lies elsewhere, else an empty folder that all steps of a case are put into in turn.
    fn of(case: &str) -> Self {
        if let Some((_, path)) = ELSEWHERE.iter().find(|(name, _)| *name == case) {
            return Self { path: checkout().join(path), made: false };
        }
        let path = std::env::temp_dir().join(format!("hawsepipe-golden-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&path).unwrap();
        Self { path: path.canonicalize().unwrap(), made: true }
    }

    /// Takes a step's manifests and plugins, and nothing else.
    fn fill(&self, step: &Path) {
        if self.made {
            fs::remove_dir_all(&self.path).unwrap();
            copy(step, &self.path, &|name| name.ends_with(".yaml") || !name.contains('.'));
        }
    }

    /// `text` without what is true on this machine only.
    fn strip(&self, text: &str) -> String {
        let (root, shown) = if self.made { (&*self.path, "/manifests") } else { (checkout(), "/checkout") };
        text.replace(root.to_str().unwrap(), shown)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.made {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn copy(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) {
    fs::create_dir(to).unwrap();
    for path in listed(from) {
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            _ if !wanted(name) => {}
            true => copy(&path, &to.join(name), &|_| true),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// What a folder holds, by name.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let found: BTreeSet<_> = fs::read_dir(folder).unwrap().map(|found| found.unwrap().path()).collect();
    found.into_iter().collect()
}

/// The steps of a case: folders whose names begin with a number, else the case itself.
fn steps(case: &Path) -> Vec<PathBuf> {
    let numbered = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    let steps: Vec<_> = listed(case).into_iter().filter(numbered).collect();
    if steps.is_empty() { vec![case.to_owned()] } else { steps }
}

/// The plan as people read it.
fn shown(plan: &Plan, place: &Place) -> String {
    let mut plan = plan.clone();
    plan.revision.clear();
    for text in plan.code.values_mut() {
        *text = format!("{} bytes", text.len());
    }
    place.strip(&serde_json::to_string_pretty(&plan).unwrap()) + "\n"
}

fn problems(compiled: &CompiledManifests, place: &Place) -> String {
    compiled.located.iter().map(|located| place.strip(&format!("{located}\n"))).collect()
}

/// Compares with a file, or writes it.
fn hold(file: &Path, found: &str, differ: &mut Vec<String>) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(file, found).unwrap();
    }
    let kept = fs::read_to_string(file).unwrap_or_default();
    if kept != found {
        let lines = kept.lines().chain(std::iter::repeat("")).zip(found.lines().chain(["(its end)"]));
        let (number, (kept, found)) = (1..).zip(lines).find(|(_, (kept, found))| kept != found).unwrap();
        differ.push(format!("{}:{number}\n   kept: {kept}\n  found: {found}", file.display()));
    }
}

/// Reads the steps of a case one after another and holds what comes out against the files.
async fn check(case: &Path, gateway: Option<&str>, differ: &mut Vec<String>) {
    let place = Place::of(case.file_name().unwrap().to_str().unwrap());
    let settings = DirectorySettings {
        paths: vec![place.path.clone()],
        gateway: gateway.map(str::to_owned),
        secrets_dir: None,
        node: None,
    };
    let mut directory = Directory::new(settings, Inspector::new(Launcher::at(program())));
    let mut previous: Option<Plan> = None;
    let mark = gateway.map(|name| format!(".{name}")).unwrap_or_default();
    for step in steps(case) {
        place.fill(&step);
        let compiled = directory.read(previous.as_ref()).await.unwrap();
        let written = serde_json::to_string(&compiled.plan).unwrap();
        let read: Plan = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), written, "a plan is read as it was written");
        let (plan, problems) = (shown(&compiled.plan, &place), problems(&compiled, &place));
        for secret in SECRET {
            assert!(!written.contains(secret) && !problems.contains(secret), "{} shows a secret", step.display());
        }
        hold(&step.join(format!("plan{mark}.json")), &plan, differ);
        hold(&step.join(format!("problems{mark}.txt")), &problems, differ);
        previous = Some(compiled.plan);
    }
}

#[tokio::test]
async fn folders_of_manifests_become_the_plans_beside_them() {
    let (mut differ, mut secrets) = (Vec::new(), 0);
    for case in listed(&checkout().join("tests/golden/plans")) {
        let several = SEVERAL.iter().find(|(name, _)| case.ends_with(name));
        match several {
            Some((_, gateways)) => {
                for gateway in *gateways {
                    check(&case, Some(gateway), &mut differ).await;
                }
            }
            None => check(&case, None, &mut differ).await,
        }
        let texts = steps(&case).into_iter().flat_map(|step| listed(&step)).filter(|path| path.is_file());
        secrets += texts.filter(|file| fs::read_to_string(file).unwrap().contains(SECRET[0])).count();
    }
    assert!(secrets > 0, "no case has a secret that could be shown");
    assert!(differ.is_empty(), "UPDATE_GOLDEN=1 writes anew what is meant:\n{}", differ.join("\n"));
}

#[tokio::test]
async fn of_several_gateways_one_is_to_be_named() {
    for (case, _) in SEVERAL {
        let place = Place::of(case);
        place.fill(&checkout().join("tests/golden/plans").join(case));
        let settings =
            DirectorySettings { paths: vec![place.path.clone()], gateway: None, secrets_dir: None, node: None };
        let read = Directory::new(settings, Inspector::new(Launcher::at(program()))).read(None).await;
        assert!(matches!(read, Err(DirectoryError::SeveralGateways(_))), "{:?}", read.err());
    }
}
