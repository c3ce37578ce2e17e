//! What the system shows of confined processes, and of the gateway.

use std::fs::read_to_string;
use std::io::ErrorKind;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::as_nobody;
use super::place::Victim;
use crate::gateway::harness::{Folder, Gateway, hawsepipe};
use crate::node::{Rig, module};

/// A field of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> String {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}: {status}")).trim().to_owned()
}

fn assert_confined(pid: u32) {
    assert_eq!(status(pid, "Seccomp"), "2");
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&status(pid, set), 16), Ok(0), "{set}");
    }
    let limits = read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for limit in ["Max file size             0 ", "Max core file size        0 "] {
        assert!(limits.contains(limit), "{limits}");
    }
}

#[tokio::test]
async fn a_worker_has_no_rights_and_bounds() {
    let plugin = module("export default (input) => input").link();
    let rig = Rig::with(&[&plugin]).await;
    let pid = rig.run(&plugin, "").await.worker_pid.unwrap();
    assert_confined(pid);
    assert_eq!(read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim(), "1000");
    let limits = read_to_string(format!("/proc/{pid}/limits")).unwrap();
    assert!(limits.contains("Max open files            4096 "), "{limits}");
    // What is left of it is for the plugin.
    let line = limits.lines().find_map(|line| line.strip_prefix("Max data size")).unwrap();
    let most: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    let mapped: u64 = status(pid, "VmData").strip_suffix(" kB").unwrap().parse().unwrap();
    let left = (most >> 20) - (mapped >> 10);
    assert!((220..280).contains(&left), "{left} MiB of 256");
}

#[test]
fn a_parser_has_no_rights_and_bounds() {
    let mut parser = hawsepipe().arg("inspect").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while status(parser.id(), "Seccomp_filters") != "2" {
        assert!(is_there(&mut parser) && Instant::now() < deadline, "it is not confined");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_confined(parser.id());
    drop(parser.stdin.take());
    assert!(!parser.wait().unwrap().success(), "it was asked nothing");
}

fn is_there(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

#[test]
fn the_gateways_memory_is_hidden_from_its_user() {
    if as_nobody("sandbox::marks::the_gateways_memory_is_hidden_from_its_user") {
        return;
    }
    let gateway = Gateway::start(&Folder::new());
    let victim = Victim::start();
    for file in ["environ", "maps", "auxv"] {
        let hidden = read_to_string(format!("/proc/{}/{file}", gateway.pid())).unwrap_err();
        assert_eq!(hidden.kind(), ErrorKind::PermissionDenied, "{file}");
        assert!(std::fs::read(format!("/proc/{}/{file}", victim.pid())).is_ok(), "{file} of any other process");
    }
    // What the admin port shows of the process itself is there all the same.
    assert_eq!(status(gateway.pid(), "CoreDumping"), "0");
}
