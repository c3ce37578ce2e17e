//! The server that the official conformance suite is run against, and the client that it runs: both on the SDK for
//! Rust, so that what they say on the wire is not our own work.

mod asking;
mod catalogue;
mod client;
mod rounds;
mod server;

use std::io::Write as _;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => server::serve(|url| {
            println!("{}", serde_json::json!({ "url": url }));
            let _ = std::io::stdout().flush();
        })
        .await
        .expect("the server runs"),
        ["client", url] => client::run(url).await,
        _ => panic!("usage: hawsepipe-conformance server | client URL"),
    }
}
