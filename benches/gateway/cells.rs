//! Medians of the measurements over the rounds.

use std::collections::BTreeMap;

use crate::client::Era;
use crate::load::{Load, Measured, Payload};
use crate::matrix::Cell;
use crate::system::System;

/// The measurements of each cell, one for each round.
pub struct Cells<'a>(pub &'a BTreeMap<Cell, Vec<Measured>>);

impl Cells<'_> {
    /// Returns the cell of a load with the payload that was measured.
    pub fn cell(&self, era: Era, size: u32, connections: u16, system: System) -> Cell {
        Cell { era, load: Load { size, connections, payload: self.payload() }, system }
    }

    /// The payload that was measured.
    pub fn payload(&self) -> Payload {
        self.0.keys().next().map_or(Payload::Json, |cell| cell.load.payload)
    }

    /// Returns the measurements of a cell, one for each round.
    pub fn rounds(&self, cell: Cell) -> &[Measured] {
        self.0.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// Returns how much longer the median call takes than on the system `to`: the median of the differences in each
    /// round.
    pub fn added(&self, cell: Cell, to: System) -> Option<f64> {
        let (these, those) = (self.rounds(cell), self.rounds(Cell { system: to, ..cell }));
        median(these.iter().zip(those).filter_map(|(this, that)| Some(this.p50_us? - that.p50_us?)))
    }

    /// Returns the CPU time of a call, in microseconds.
    pub fn cpu(&self, cell: Cell) -> Option<f64> {
        median(self.rounds(cell).iter().filter_map(|m| m.cpu_us_per_call))
    }

    /// Returns the calls a second.
    pub fn rate(&self, cell: Cell) -> Option<f64> {
        median(self.rounds(cell).iter().map(|m| m.calls_per_second))
    }
}

/// Returns the median: the middle figure, or the mean of the two middle ones.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}
