//! The static build in a root folder with nothing else in it.

use super::*;
use crate::gateway::harness::Folder;

/// Where `make test-bridge` names the static build, by which this is tried. It needs the rights to change the root.
#[tokio::test]
async fn the_static_bridge_needs_no_other_file() {
    let Some(bridge) = std::env::var_os(BRIDGE) else {
        return eprintln!("not tried: {BRIDGE} does not name a static build");
    };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tried: only root may change the root folder");
    }
    let root = Folder::new();
    std::fs::remove_dir(root.path().join("plugins")).unwrap();
    let (installed, server) = (root.path().join("bridge"), root.path().join("server"));
    assert!(Command::new(bridge).arg("--install").arg(&installed).status().unwrap().success());
    let built = Command::new("rustc")
        .args(["--edition=2024", "-C", "target-feature=+crt-static", "-o"])
        .args([&server, &fixture("servers/alone.rs")])
        .status();
    assert!(built.unwrap().success());
    let mut command = Command::new("chroot");
    command.arg(root.path()).arg("/bridge").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let mut bridge = Bridge::start_as(command, &[], &["/server"]);
    assert_eq!(bridge.health().await, 200);
    let session = Http::new().initialize(&bridge.url()).await;
    let ping = session.send(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#).await.json();
    assert_eq!((&ping["id"], &ping["result"]), (&json!(5), &json!({})));
    bridge.signal(Signal::TERM);
    assert!(bridge.ended().await);
    let mut left: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["bridge", "server"], "it writes nothing");
}
