//! The results of a run: medians over the rounds, and the key ratios.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use crate::aims::{self, Ratio, Yardsticks};
use crate::cells::{Cells, median};
use crate::client::Era;
use crate::edits::Outcome;
use crate::load::Load;
use crate::matrix::{Cell, Results};
use crate::system::System;
use crate::{history, hostile, idle, lists, pipelines, ruled_lists, runtime};

/// The results of the parts that need a gateway.
pub struct Measurements {
    pub results: Results,
    pub edits: Option<Outcome>,
    pub lists: Option<lists::Outcome>,
    pub ruled_lists: Option<ruled_lists::Outcome>,
    pub hostile: Option<hostile::Outcome>,
    pub idle: Option<idle::Outcome>,
    pub history: Option<history::Outcome>,
    pub pipelines: Option<pipelines::Outcome>,
}

/// All results of a run.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub rounds: usize,
    pub slice_seconds: f64,
    pub rows: Vec<Row>,
    pub ratios: Vec<Ratio>,
    /// The time of an echo between two Rust processes over a socketpair in microseconds, by its size in bytes.
    pub floor_us: BTreeMap<u32, f64>,
    /// The systems that could not be measured, and why.
    pub missing: Vec<(System, String)>,
    /// The results of edits under load, if they were requested.
    pub edits: Option<Outcome>,
    /// The results of a long list, of one that rules decide, of a hostile upstream and of idle streams, if they were requested.
    pub lists: Option<lists::Outcome>,
    pub ruled_lists: Option<ruled_lists::Outcome>,
    pub hostile: Option<hostile::Outcome>,
    pub idle: Option<idle::Outcome>,
    /// The results of pages of a long history, if they were requested.
    pub history: Option<history::Outcome>,
    /// The results of pipelines, if they were requested.
    pub pipelines: Option<pipelines::Outcome>,
    /// The results of the plugin runtime, if they were requested.
    pub plugins: Option<runtime::Outcome>,
    /// The number of failed calls. Includes, if edits were measured, stale calls and edits that no call showed.
    pub errors: usize,
}

/// The machine that was measured on.
#[derive(Serialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
}

/// The medians over the rounds, for one system under one load.
#[derive(Serialize)]
pub struct Row {
    pub era: Era,
    #[serde(flatten)]
    pub load: Load,
    pub system: System,
    pub p50_us: Option<f64>,
    /// How much longer than a direct call in the same round.
    pub added_p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub calls_per_second: f64,
    pub cpu_us_per_call: Option<f64>,
    /// The number of calls in all rounds.
    pub calls: usize,
    pub errors: usize,
}

impl Report {
    /// Computes the report from the measurements.
    pub fn new(measured: Measurements, plugins: Option<runtime::Outcome>) -> Self {
        let Measurements { results, edits, lists, ruled_lists, hostile, idle, history, pipelines } = measured;
        let cells = Cells(&results.cells);
        let rows: Vec<Row> = results.cells.keys().map(|cell| Row::of(&cells, *cell)).collect();
        let floor_us: BTreeMap<u32, f64> =
            results.floor.iter().filter_map(|(size, rounds)| Some((*size, median(rounds.clone())?))).collect();
        let pool = |size: u32| plugins.as_ref().and_then(|plugins| plugins.module_p50_us(size));
        let ratios = floor_us
            .iter()
            .flat_map(|(size, floor)| aims::ratios(&cells, *size, &Yardsticks { floor: *floor, pool: pool(*size) }));
        Self {
            machine: Machine::read(),
            rounds: results.cells.values().map(Vec::len).max().unwrap_or_default(),
            slice_seconds: results.slice_seconds,
            ratios: ratios.collect(),
            errors: rows.iter().map(|row| row.errors).sum::<usize>()
                + edits.as_ref().map_or(0, Outcome::errors)
                + lists.as_ref().map_or(0, lists::Outcome::errors)
                + ruled_lists.as_ref().map_or(0, ruled_lists::Outcome::errors)
                + hostile.as_ref().map_or(0, hostile::Outcome::errors)
                + idle.as_ref().map_or(0, idle::Outcome::errors)
                + pipelines.as_ref().map_or(0, pipelines::Outcome::errors),
            edits,
            lists,
            ruled_lists,
            hostile,
            idle,
            history,
            pipelines,
            plugins,
            rows,
            floor_us,
            missing: results.missing,
        }
    }
}

impl Row {
    fn of(cells: &Cells<'_>, cell: Cell) -> Self {
        let rounds = cells.rounds(cell);
        Self {
            era: cell.era,
            load: cell.load,
            system: cell.system,
            p50_us: median(rounds.iter().filter_map(|m| m.p50_us)),
            added_p50_us: cells.added(cell, System::Direct).filter(|_| cell.system != System::Direct),
            p99_us: median(rounds.iter().filter_map(|m| m.p99_us)),
            calls_per_second: cells.rate(cell).unwrap_or_default(),
            cpu_us_per_call: cells.cpu(cell),
            calls: rounds.iter().map(|m| m.calls).sum(),
            errors: rounds.iter().flat_map(|m| m.errors.values()).sum(),
        }
    }
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
