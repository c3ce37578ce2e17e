//! What the measurements say: medians over the rounds, and the ratios that matter.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use crate::client::Era;
use crate::edits::Outcome;
use crate::load::{Load, Measured};
use crate::matrix::{Cell, Results};
use crate::runtime;
use crate::systems::System;

/// Everything that the run found.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub rounds: usize,
    pub slice_seconds: f64,
    pub rows: Vec<Row>,
    pub ratios: Vec<Ratio>,
    /// Microseconds of an echo between two Rust processes over a socketpair, by its bytes.
    pub floor_us: BTreeMap<u32, f64>,
    /// What could not be measured, and why.
    pub missing: Vec<(System, String)>,
    /// Edits under load, where they were asked for.
    pub edits: Option<Outcome>,
    /// The runtime of plugins, where it was asked for.
    pub plugins: Option<runtime::Outcome>,
    /// Calls that failed; with edits also those that were answered as before one, and edits that no call showed.
    pub errors: usize,
}

/// What the figures were measured on.
#[derive(Serialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
}

/// Medians over the rounds of one system under one load.
#[derive(Serialize)]
pub struct Row {
    pub era: Era,
    #[serde(flatten)]
    pub load: Load,
    pub system: System,
    pub p50_us: Option<f64>,
    /// Above a direct call's, in the same round.
    pub added_p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub calls_per_second: f64,
    pub cpu_us_per_call: Option<f64>,
    /// In all rounds.
    pub calls: usize,
    pub errors: usize,
}

/// A figure held against a yardstick of the same run.
#[derive(Serialize)]
pub struct Ratio {
    pub what: &'static str,
    pub size: u32,
    pub us: f64,
    pub yardstick_us: f64,
    pub ratio: f64,
    /// At most this is wanted.
    pub aim: f64,
    /// What is known of the best gateway there was, in microseconds. Measured elsewhere: hold it against the hop's 33
    /// and 68 us (p50), 26 and 79 us (CPU) of that run.
    pub best_elsewhere_us: Option<f64>,
}

const AIM_OVER_HOP: f64 = 2.0;
const AIM_OVER_FLOOR: f64 = 6.0;

impl Report {
    /// Works it out.
    pub fn new(results: Results, edits: Option<Outcome>, plugins: Option<runtime::Outcome>) -> Self {
        let cells = Cells(&results.cells);
        let rows: Vec<Row> = results.cells.keys().map(|cell| cells.row(*cell)).collect();
        let floor_us: BTreeMap<u32, f64> =
            results.floor.iter().filter_map(|(size, rounds)| Some((*size, median(rounds.clone())?))).collect();
        Self {
            machine: Machine::read(),
            rounds: results.cells.values().map(Vec::len).max().unwrap_or_default(),
            slice_seconds: results.slice_seconds,
            ratios: floor_us.iter().flat_map(|(size, floor)| cells.ratios(*size, *floor)).collect(),
            errors: rows.iter().map(|row| row.errors).sum::<usize>() + edits.as_ref().map_or(0, Outcome::errors),
            edits,
            plugins,
            rows,
            floor_us,
            missing: results.missing,
        }
    }
}

struct Cells<'a>(&'a BTreeMap<Cell, Vec<Measured>>);

impl Cells<'_> {
    fn rounds(&self, cell: Cell) -> &[Measured] {
        self.0.get(&cell).map_or(&[], Vec::as_slice)
    }

    fn row(&self, cell: Cell) -> Row {
        let rounds = self.rounds(cell);
        Row {
            era: cell.era,
            load: cell.load,
            system: cell.system,
            p50_us: median(rounds.iter().filter_map(|m| m.p50_us)),
            added_p50_us: self.added(cell, System::Direct).filter(|_| cell.system != System::Direct),
            p99_us: median(rounds.iter().filter_map(|m| m.p99_us)),
            calls_per_second: median(rounds.iter().map(|m| m.calls_per_second)).unwrap_or_default(),
            cpu_us_per_call: median(rounds.iter().filter_map(|m| m.cpu_us_per_call)),
            calls: rounds.iter().map(|m| m.calls).sum(),
            errors: rounds.iter().flat_map(|m| m.errors.values()).sum(),
        }
    }

    /// How much longer the median call takes than on another system: the median of the rounds' differences.
    fn added(&self, cell: Cell, to: System) -> Option<f64> {
        let (these, those) = (self.rounds(cell), self.rounds(Cell { system: to, ..cell }));
        median(these.iter().zip(those).filter_map(|(this, that)| Some(this.p50_us? - that.p50_us?)))
    }

    fn cpu(&self, cell: Cell) -> Option<f64> {
        median(self.rounds(cell).iter().filter_map(|m| m.cpu_us_per_call))
    }

    fn ratios(&self, size: u32, floor: f64) -> Vec<Ratio> {
        let cell = |era, connections, system| Cell { era, load: Load { size, connections }, system };
        let known = |small, large| match size {
            1024 => Some(small),
            51200 => Some(large),
            _ => None,
        };
        let mut ratios = Vec::new();
        let mut hold = |what, us: Option<f64>, yardstick: Option<f64>, aim, best_elsewhere_us| {
            if let Some((us, yardstick_us)) = us.zip(yardstick) {
                let ratio = us / yardstick_us;
                ratios.push(Ratio { what, size, us, yardstick_us, ratio, aim, best_elsewhere_us });
            }
        };
        for (era, what, best) in [
            (Era::Legacy, "added p50 at 1 connection, over the hop's", known(98.0, 340.0)),
            (Era::Modern, "the same in the modern era", None),
        ] {
            let added = |system| self.added(cell(era, 1, system), System::Direct);
            hold(what, added(System::Gateway), added(System::Hop), AIM_OVER_HOP, best);
        }
        let cpu = |system| self.cpu(cell(Era::Legacy, 16, system));
        let what = "CPU a call at 16 connections, over the hop's";
        hold(what, cpu(System::Gateway), cpu(System::Hop), AIM_OVER_HOP, known(91.0, 263.0));
        for (system, modules, what) in [
            (System::OneModule, 1.0, "p50 that one Module adds, over the floor"),
            (System::ThreeModules, 3.0, "p50 that each of three Modules adds, over the floor"),
        ] {
            let added = self.added(cell(Era::Legacy, 1, system), System::Gateway).map(|us| us / modules);
            hold(what, added, Some(floor), AIM_OVER_FLOOR, None);
        }
        ratios
    }
}

/// The middle one; of an even number of figures the mean of the middle two.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

impl Machine {
    fn read() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor.map_or("unknown", |(_, name)| name).to_owned(),
            kernel: kernel.as_deref().map_or("unknown", str::trim).to_owned(),
        }
    }
}
