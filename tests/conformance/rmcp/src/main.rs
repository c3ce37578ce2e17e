//! The server that the official conformance suite is run against, the client that it runs, and one for the gateway's own
//! tests: all on the SDK for Rust, so that what they say on the wire is not our own work.

mod asking;
mod catalogue;
mod changes;
mod client;
mod hearing;
mod rounds;
mod script;
mod server;
mod tasks;

use std::io::Write as _;
use std::path::PathBuf;

// One thread: what arrives is handled in the order in which it came.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => serve(None, None).await,
        ["server-at", address] => serve(None, Some(address)).await,
        ["server", scheme, log] => {
            let _ = catalogue::SCHEME.set(scheme.to_owned());
            serve(Some(log.into()), None).await;
        }
        ["client", url] => client::run(url).await,
        ["script", url, mode @ ("legacy" | "modern"), answers] => script::run(url, mode, answers).await,
        _ => panic!("usage: hawsepipe-conformance server [SCHEME LOG] | server-at ADDRESS | client URL | script URL legacy|modern ANSWERS"),
    }
}

/// Serves at an address of this machine besides loopback, if one is given.
async fn serve(log: Option<PathBuf>, address: Option<&str>) {
    let said = |url: &str| {
        println!("{}", serde_json::json!({ "url": url }));
        let _ = std::io::stdout().flush();
    };
    server::serve(log, address, said).await.expect("the server runs");
}
