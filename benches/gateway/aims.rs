//! The key figures, each compared with a yardstick from the same run.

use serde::Serialize;

use crate::cells::Cells;
use crate::client::Era;
use crate::load::Payload;
use crate::system::System;

/// A figure and its aim, which is an upper bound, or a lower one if `at_least` is set.
#[derive(Serialize)]
pub struct Aim {
    pub what: String,
    pub found: f64,
    pub aim: f64,
    pub at_least: bool,
}

impl Aim {
    /// Whether the aim is met.
    pub fn is_met(&self) -> bool {
        if self.at_least { self.found >= self.aim } else { self.found <= self.aim }
    }
}

/// A figure compared with a yardstick from the same run.
#[derive(Serialize)]
pub struct Ratio {
    pub what: &'static str,
    pub size: u32,
    /// Microseconds, or calls a second for a rate.
    pub found: f64,
    pub yardstick: f64,
    pub ratio: f64,
    /// The aim for `ratio`: an upper bound, or a lower one if `at_least` is set.
    pub aim: f64,
    pub at_least: bool,
    /// The ratio of the measurement in docs/benchmarks.md, with JSON in the text.
    pub recorded: Option<f64>,
    /// The figure of the best known gateway, in microseconds. It was measured on another machine, where the hop added
    /// 33 and 68 us (p50) and took 26 and 79 us (CPU).
    pub best_elsewhere_us: Option<f64>,
}

impl Ratio {
    /// Whether the aim is met.
    pub fn is_met(&self) -> bool {
        if self.at_least { self.ratio >= self.aim } else { self.ratio <= self.aim }
    }

    /// Whether the ratio is more than a tenth worse than the recorded one.
    pub fn is_worse(&self) -> bool {
        self.recorded.is_some_and(|recorded| self.ratio > recorded * TOLERATED)
    }
}

/// The aims over the hop, for content of up to 1 KB and for larger content.
const OVER_HOP: [f64; 2] = [1.3, 1.4];
const MODULE_OVER_HOP: [f64; 2] = [0.8, 1.5];
/// The ratios in docs/benchmarks.md, at 1 KB and at 50 KB.
const RECORDED: [(&str, [f64; 2]); 4] =
    [(P50_AT_1, [1.32, 0.63]), (CPU_AT_1, [1.26, 0.65]), (CPU_AT_16, [1.36, 0.64]), (MODULE, [1.51, 1.02])];
/// The most that parts of the gateway may add to a call, in microseconds.
const ADDED: [(&str, System, f64); 4] = [
    ("p50 that the line of a call in the log adds, over 3 us", System::Logged, 3.0),
    ("p50 that a store adds, over 5 us", System::Stored, 5.0),
    ("p50 that audit.mode Required adds with SQLite, over 300 us", System::Audited, 300.0),
    ("p50 that a token and ten rules add, over 15 us", System::Authorized, 15.0),
];
/// How much worse than the recorded one a ratio may be.
const TOLERATED: f64 = 1.1;
const P50_AT_1: &str = "added p50 at 1 connection, over the hop's";
const CPU_AT_1: &str = "CPU a call at 1 connection, over the hop's";
const CPU_AT_16: &str = "CPU a call at 16 connections, over the hop's";
const MODULE: &str = "p50 that one Module adds, over what the hop adds";
const OVER_HOP_IN_MODERN: f64 = 2.0;
const OVER_POOL: f64 = 1.5;
const OF_RATE: f64 = 0.6;
const OVER_FLOOR: f64 = 6.0;

/// The yardsticks of one content size that are not in a cell, in microseconds.
pub struct Yardsticks {
    /// The time of an echo between two processes.
    pub floor: f64,
    /// The time of a Module in the pool, without a gateway, if that was measured.
    pub pool: Option<f64>,
}

/// Returns all ratios whose figures were measured.
pub fn ratios(cells: &Cells<'_>, size: u32, yardsticks: &Yardsticks) -> Vec<Ratio> {
    let of = |era, connections| move |system| cells.cell(era, size, connections, system);
    let of_size = |aims: [f64; 2]| aims[usize::from(size > 1024)];
    let (alone, many, modern) = (of(Era::Legacy, 1), of(Era::Legacy, 16), of(Era::Modern, 1));
    let over_direct = |cell| cells.added(cell, System::Direct);
    let added = |modules: f64, system| cells.added(alone(system), System::Gateway).map(|us| us / modules);
    let [best_p50, best_cpu] = match size {
        1024 => [98.0, 91.0].map(Some),
        51200 => [340.0, 263.0].map(Some),
        _ => [None; 2],
    };
    let mut held = Held { size, payload: cells.payload(), ratios: Vec::new() };
    held.most(
        P50_AT_1,
        over_direct(alone(System::Gateway)),
        over_direct(alone(System::Hop)),
        of_size(OVER_HOP),
        best_p50,
    );
    let what = "added p50 at 16 connections, over the hop's";
    held.most(what, over_direct(many(System::Gateway)), over_direct(many(System::Hop)), of_size(OVER_HOP), None);
    held.most(CPU_AT_1, cells.cpu(alone(System::Gateway)), cells.cpu(alone(System::Hop)), of_size(OVER_HOP), None);
    held.most(CPU_AT_16, cells.cpu(many(System::Gateway)), cells.cpu(many(System::Hop)), of_size(OVER_HOP), best_cpu);
    let hop = over_direct(alone(System::Hop));
    held.most(MODULE, added(1.0, System::OneModule), hop, of_size(MODULE_OVER_HOP), None);
    let what = "added p50 at 1 connection in the modern era, over the hop's";
    let (here, hop) = (over_direct(modern(System::Gateway)), over_direct(modern(System::Hop)));
    held.most(what, here, hop, OVER_HOP_IN_MODERN, None);
    let what = "p50 that one Module adds, over its p50 in the pool alone";
    held.most(what, added(1.0, System::OneModule), yardsticks.pool, OVER_POOL, None);
    let what = "calls/s with one Module at 16 connections, over those without";
    held.least(what, cells.rate(many(System::OneModule)), cells.rate(many(System::Gateway)), OF_RATE);
    let what = "p50 that one Module adds, over the floor";
    held.most(what, added(1.0, System::OneModule), Some(yardsticks.floor), OVER_FLOOR, None);
    let what = "p50 that each of three Modules adds, over the floor";
    held.most(what, added(3.0, System::ThreeModules), Some(yardsticks.floor), OVER_FLOOR, None);
    for (what, system, most_us) in ADDED {
        held.most(what, added(1.0, system), Some(most_us), 1.0, None);
    }
    held.ratios
}

struct Held {
    size: u32,
    payload: Payload,
    ratios: Vec<Ratio>,
}

impl Held {
    fn most(&mut self, what: &'static str, found: Option<f64>, yardstick: Option<f64>, aim: f64, best: Option<f64>) {
        if let Some((found, yardstick)) = found.zip(yardstick) {
            let (size, ratio) = (self.size, found / yardstick);
            let known = RECORDED.iter().find(|(recorded, _)| *recorded == what && self.payload == Payload::Json);
            let place = [1024, 51200].iter().position(|recorded| *recorded == size);
            let recorded = known.zip(place).map(|((_, ratios), place)| ratios[place]);
            let best_elsewhere_us = best;
            self.ratios.push(Ratio {
                what,
                size,
                found,
                yardstick,
                ratio,
                aim,
                at_least: false,
                recorded,
                best_elsewhere_us,
            });
        }
    }

    fn least(&mut self, what: &'static str, found: Option<f64>, yardstick: Option<f64>, aim: f64) {
        self.most(what, found, yardstick, aim, None);
        if let Some(held) = self.ratios.last_mut().filter(|held| held.what == what) {
            held.at_least = true;
        }
    }
}
