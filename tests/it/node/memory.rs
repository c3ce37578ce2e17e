//! What workers' processes take.

use hawsepipe::domain::ports::RunPlugin;
use hawsepipe::telemetry::metrics::Metrics;
use hawsepipe::telemetry::scrape_input::ScrapeInput;

use super::{Rig, module};

const MEBIBYTE: f64 = (1 << 20) as f64;

/// What the metric says, in MiB.
fn shown(rig: &Rig) -> f64 {
    let text =
        Metrics::new().unwrap().render(&ScrapeInput { workers: rig.workers.workers(), ..ScrapeInput::default() });
    let line = text.lines().find(|line| line.starts_with("hawsepipe_worker_memory_bytes{plugin=\"default/p\"} "));
    line.unwrap_or_else(|| panic!("{text}")).rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() / MEBIBYTE
}

#[tokio::test]
async fn the_memory_of_workers_is_shown_as_it_grows() {
    let plugin = module(
        "const kept = [];
         export default (input) => {
             if (input.rawContent) kept.push(Buffer.alloc(Number(input.rawContent), 1));
             return { text: '', continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    rig.answer(&plugin, "").await;
    let before = shown(&rig);
    // Node.js and an empty heap, without its program.
    assert!((1.0..100.0).contains(&before), "{before} MiB");
    rig.answer(&plugin, &(64 << 20).to_string()).await;
    let grown = shown(&rig) - before;
    assert!((60.0..80.0).contains(&grown), "{grown} MiB more than {before} MiB");
    rig.workers.shutdown().await;
    assert!(rig.workers.workers().is_empty());
}
