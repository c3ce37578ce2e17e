//! The project's image, and what a container of it is allowed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::commands::{MCP, checkout, kubectl, try_run};

/// More than the image has with an unoptimised program.
const MOST_BYTES: u64 = 260_000_000;
const MEGABYTE: u64 = 1_000_000;
/// How often the start is measured.
const STARTS: usize = 5;
/// The node's containerd.
const SOCKET: &str = "/var/lib/hawsepipe-e2e/containerd/containerd.sock";

/// A file of the image's archive.
fn of_archive(file: &str) -> Vec<u8> {
    let archive = checkout().join(".cache/e2e/images/hawsepipe.tar");
    let output = Command::new("tar").arg("-xOf").arg(archive).arg(file).output().unwrap();
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The files of a layer: sizes and paths.
fn files(layer: &str) -> Vec<(u64, String)> {
    let folder = std::env::temp_dir().join(format!("hawsepipe-layer-{}", std::process::id()));
    fs::write(&folder, of_archive(layer)).unwrap();
    let output = Command::new("tar").arg("-tvf").arg(&folder).output().unwrap();
    fs::remove_file(&folder).unwrap();
    let listing = String::from_utf8(output.stdout).unwrap();
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let size = words.nth(2)?.parse().ok()?;
        Some((size, words.nth(2)?.trim_start_matches("./").to_owned()))
    };
    listing.lines().filter_map(entry).collect()
}

fn size_of(files: &[(u64, String)], path: &str) -> u64 {
    files.iter().filter(|(_, file)| file == path).map(|(size, _)| size).sum()
}

pub fn is_small_and_says_who_it_is() {
    let manifest: Value = serde_json::from_slice(&of_archive("manifest.json")).unwrap();
    let settings: Value = serde_json::from_slice(&of_archive(manifest[0]["Config"].as_str().unwrap())).unwrap();
    let settings = &settings["config"];
    assert_eq!(settings["User"], "65532:65532");
    for label in ["title", "description", "licenses", "version", "revision"] {
        let text = settings["Labels"][format!("org.opencontainers.image.{label}")].as_str();
        assert!(text.is_some_and(|text| !text.is_empty()), "{label}");
    }
    let layers = manifest[0]["Layers"].as_array().unwrap().iter();
    let files: Vec<_> = layers.flat_map(|layer| files(layer.as_str().unwrap())).collect();
    let total: u64 = files.iter().map(|(size, _)| size).sum();
    let node = size_of(&files, "usr/local/bin/node");
    let ours = size_of(&files, "usr/local/bin/hawsepipe");
    println!("image: {} MB, of which Node.js {}, hawsepipe {}", total / MEGABYTE, node / MEGABYTE, ours / MEGABYTE);
    assert!(node > 0 && ours > 0 && total < MOST_BYTES, "{total}");
    assert!(size_of(&files, "usr/share/doc/hawsepipe/sbom.cdx.json") > 0, "it has its list of what it is made of");
    let shells: Vec<_> =
        files.iter().filter(|(_, file)| file.ends_with("bin/sh") || file.ends_with("bin/bash")).collect();
    assert!(shells.is_empty(), "{shells:?}");
}

/// What the kernel says of a process, by name.
fn status(process: &Path) -> impl Fn(&str) -> String {
    let text = fs::read_to_string(process.join("status")).unwrap();
    move |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Every process of an operator and of a gateway on the node, as the kernel has it.
pub fn containers_are_confined() {
    for kind in ["operator", "gateway"] {
        let found = Command::new("pgrep").args(["-f", &format!("^/usr/local/bin/hawsepipe {kind} ")]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.lines().count(), 2, "pods of {kind}");
        for process in found.lines().map(|id| Path::new("/proc").join(id)) {
            let status = status(&process);
            assert_eq!(status("Uid"), "65532 65532 65532 65532", "{kind}");
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(status(set), "0000000000000000", "{kind}: {set}");
            }
            assert_eq!((status("NoNewPrivs"), status("Seccomp")), ("1".into(), "2".into()), "{kind}");
            let mounts = fs::read_to_string(process.join("mountinfo")).unwrap();
            let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
            assert!(root.split(' ').nth(5).unwrap().split(',').any(|option| option == "ro"), "{kind}: {root}");
        }
    }
}

/// Prints how long a container of the image takes from its start until its program has ended.
fn run_and_end() -> Duration {
    let name = format!("start-{}", std::process::id());
    let run = ["run", "--rm", "docker.io/library/hawsepipe:e2e", &name, "/usr/local/bin/hawsepipe", "--version"];
    let started = Instant::now();
    try_run("ctr", &[&["-a", SOCKET, "-n", "k8s.io"], &run[..]].concat(), "")
        .unwrap_or_else(|failure| panic!("{failure}"));
    started.elapsed()
}

pub fn starts() {
    let mut times: Vec<_> = (0..STARTS).map(|_| run_and_end()).collect();
    times.sort();
    println!("a container that prints its version and ends: {} ms (median of {STARTS})", times[STARTS / 2].as_millis());
    let log = kubectl(&[
        "logs",
        "-n",
        MCP,
        "-l",
        "hawsepipe.dev/gateway=main",
        "--timestamps",
        "--tail=-1",
        "--max-log-requests=9",
    ]);
    for line in log.lines().filter(|line| line.contains("admin API and metrics") || line.contains("MCP endpoint")) {
        println!("{line}");
    }
}
