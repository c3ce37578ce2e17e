//! The run: every load on every system, in rounds, so that what else the machine does hits all alike.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::client::Era;
use crate::floor::Floor;
use crate::load::{self, Load, Measured};
use crate::options::Options;
use crate::systems::{Running, System, Systems};

/// What is measured at once: a system under a load in an era.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    pub era: Era,
    pub load: Load,
    pub system: System,
}

/// Everything that was measured; each list has one element a round.
#[derive(Default)]
pub struct Results {
    pub cells: BTreeMap<Cell, Vec<Measured>>,
    /// Microseconds of an echo over a socketpair, by its bytes.
    pub floor: BTreeMap<u32, Vec<f64>>,
    /// What could not be measured, and why.
    pub missing: Vec<(System, String)>,
    /// Seconds that a slice was measured.
    pub slice_seconds: f64,
}

/// Starts everything, measures, and ends everything.
pub async fn run(options: &Options) -> Result<Results> {
    let systems = Systems::start(options).await?;
    let mut floor = Floor::start()?;
    let mut results = Results {
        cells: BTreeMap::new(),
        floor: BTreeMap::new(),
        missing: systems.missing.clone(),
        slice_seconds: options.slice().as_secs_f64(),
    };
    for round in 1..=options.rounds() {
        for &size in &options.sizes {
            eprintln!("round {round} of {}: {size} bytes", options.rounds());
            let time = options.slice() / 4;
            let (back, echo) = tokio::task::spawn_blocking(move || {
                let echo = floor.measure(size as usize, time);
                (floor, echo)
            })
            .await?;
            floor = back;
            results.floor.entry(size).or_default().push(echo?);
            for (era, connections) in loads(options) {
                measure(&systems.running, era, Load { size, connections }, options.slice(), &mut results).await?;
            }
        }
    }
    Ok(results)
}

/// The whole table in the legacy era, one line of it in the modern one.
fn loads(options: &Options) -> impl Iterator<Item = (Era, u16)> {
    options.connections.iter().map(|&connections| (Era::Legacy, connections)).chain([(Era::Modern, 1)])
}

async fn measure(systems: &[Running], era: Era, load: Load, time: Duration, results: &mut Results) -> Result<()> {
    for system in systems.iter().filter(|system| system.era == era) {
        let measured = load::slice(system, load, time).await?;
        for (error, count) in &measured.errors {
            eprintln!("{}, {load:?}: {count} calls failed: {error}", system.system.label());
        }
        let cell = Cell { era, load, system: system.system };
        results.cells.entry(cell).or_default().push(measured);
        if system.system == System::OneOnce {
            // New processes start after the last answer; they are not the next system's load.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    Ok(())
}
