//! The matrix as a table of marks.

use std::fmt::Write as _;

use super::cells::{Cell, Outcome};
use super::clients::CLIENTS;
use super::{FEATURES, GATEWAY, OWN, UPSTREAMS};

/// What came of all rows.
#[derive(Default)]
pub struct Report {
    cells: Vec<Cell>,
}

impl Report {
    pub fn add(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    /// Fails with the table if anything is not as the rows say.
    pub fn assert(&self) {
        let wrong = self.cells.iter().filter_map(|cell| match &cell.outcome {
            Outcome::Wrong(what) => Some(format!("{}, {}, {}: {what}", cell.client, cell.upstream, cell.feature)),
            _ => None,
        });
        let wrong: Vec<_> = wrong.collect();
        assert!(wrong.is_empty(), "{}\n{}\n{}", self.table(), self.reasons(), wrong.join("\n"));
    }

    fn table(&self) -> String {
        let clients: Vec<_> = CLIENTS.iter().map(ToString::to_string).collect();
        let mut table = format!(
            "+ works, o does not and the table says why, - nothing to try, X wrong; each column of \
                                 marks: {}\n{:32}",
            clients.join(", "),
            ""
        );
        let upstreams = || UPSTREAMS.iter().chain([&GATEWAY]);
        for upstream in upstreams() {
            let _ = write!(table, "{upstream:13}");
        }
        for feature in FEATURES.iter().chain(&OWN) {
            let _ = write!(table, "\n{feature:32}");
            for upstream in upstreams() {
                let _ = write!(table, "{:13}", self.marks(upstream, feature));
            }
        }
        table
    }

    /// A mark for each client.
    fn marks(&self, upstream: &str, feature: &str) -> String {
        let outcome = |client| {
            let is_it = |cell: &&Cell| (cell.client, cell.upstream, cell.feature) == (client, upstream, feature);
            self.cells.iter().find(is_it).map(|cell| &cell.outcome)
        };
        let marks = CLIENTS.iter().map(|client| match outcome(*client) {
            Some(Outcome::Works) => '+',
            Some(Outcome::Differs(_)) => 'o',
            Some(Outcome::Lacks(_)) => '-',
            Some(Outcome::Wrong(_)) => 'X',
            None => ' ',
        });
        marks.collect()
    }

    /// Why what does not work does not.
    fn reasons(&self) -> String {
        let mut reasons = Vec::new();
        for cell in &self.cells {
            let (Outcome::Differs(why) | Outcome::Lacks(why)) = cell.outcome else { continue };
            let reason = format!("{}, {}: {why}", cell.upstream, cell.feature);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons.join("\n")
    }
}
