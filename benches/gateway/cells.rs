//! What was measured, as medians over the rounds.

use std::collections::BTreeMap;

use crate::load::Measured;
use crate::matrix::Cell;
use crate::systems::System;

/// The rounds of each cell.
pub struct Cells<'a>(pub &'a BTreeMap<Cell, Vec<Measured>>);

impl Cells<'_> {
    /// What was measured of a cell, round by round.
    pub fn rounds(&self, cell: Cell) -> &[Measured] {
        self.0.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// How much longer the median call takes than on another system: the median of the rounds' differences.
    pub fn added(&self, cell: Cell, to: System) -> Option<f64> {
        let (these, those) = (self.rounds(cell), self.rounds(Cell { system: to, ..cell }));
        median(these.iter().zip(those).filter_map(|(this, that)| Some(this.p50_us? - that.p50_us?)))
    }

    /// CPU time of a call, in microseconds.
    pub fn cpu(&self, cell: Cell) -> Option<f64> {
        median(self.rounds(cell).iter().filter_map(|m| m.cpu_us_per_call))
    }

    /// Calls a second.
    pub fn rate(&self, cell: Cell) -> Option<f64> {
        median(self.rounds(cell).iter().map(|m| m.calls_per_second))
    }
}

/// The middle one; of an even number of figures the mean of the middle two.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}
