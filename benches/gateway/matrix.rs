//! Measures every load on every system, in rounds, so that other activity on the machine affects all of them alike.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::client::Era;
use crate::floor::Floor;
use crate::load::{self, Load, Measured};
use crate::options::Options;
use crate::system::{Running, System};
use crate::systems::Systems;

/// One measurement: a system under a load in an era.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    pub era: Era,
    pub load: Load,
    pub system: System,
}

/// All measurements. Each list of them has one element for each round.
#[derive(Default)]
pub struct Results {
    pub cells: BTreeMap<Cell, Vec<Measured>>,
    /// The time of an echo over a socketpair in microseconds, by its size in bytes.
    pub floor: BTreeMap<u32, Vec<f64>>,
    /// The systems that could not be measured, and why.
    pub missing: Vec<(System, String)>,
    /// The length of a slice, in seconds.
    pub slice_seconds: f64,
}

/// Starts all systems, measures them, and ends them.
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
                let load = Load { size, connections, payload: options.payload };
                measure(&systems.running, era, load, options.slice(), &mut results).await?;
            }
        }
    }
    Ok(results)
}

/// All numbers of connections in the legacy era, and only one connection in the modern era.
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
            // Workers that start after the last answer must not slow down the next system.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    Ok(())
}
