//! What passes at the server itself, held against what passes through a gateway.

use super::baseline::Baseline;
use super::checks::Checks;

/// What the suite of a revision found at the server itself.
pub struct Direct<'a> {
    revision: &'a str,
    checks: Checks,
}

impl<'a> Direct<'a> {
    /// Runs what a revision requires at the server, where no scored check may fail.
    pub async fn of(revision: &'a str, url: &str) -> Self {
        let checks = Checks::of(revision, url).await;
        assert!(checks.failing_scored().is_empty(), "the server itself: {:?}", checks.failing_scored());
        Self { revision, checks }
    }

    /// Runs the same at a gateway that speaks with the server in `era`, and fails if more is lost than the baseline says.
    /// With `what` there may be more in it.
    pub async fn held_against(&self, era: &str, what: &str, through: &str) {
        let Self { revision, checks: direct } = self;
        let found = Checks::of(revision, through).await;
        let first = found.lost_since(direct);
        let (scored, unscored): (Vec<_>, Vec<_>) = first.iter().partition(|check| direct.is_scored(check));
        let title = format!("{revision} at a server of the era {era} {what}");
        eprintln!("{title}: {} checks are lost through the gateway: {scored:?}", scored.len());
        eprintln!("{title}: of those that are not scored, these are lost: {unscored:?}");
        eprintln!("{title}: not scored, and failing at the server itself: {:?}", direct.failing_unscored());
        let baseline = Baseline::read(&format!("{revision}-on-{}", era.to_lowercase()), what);
        let misfits = baseline.misfits(&first);
        if misfits.is_empty() {
            return;
        }
        // Time plays a part in some checks, and in some what the scenario before has changed at the server: another process
        // of a gateway hears of it a little later. What both runs say counts.
        eprintln!("{title}: tried again: {misfits:?}");
        let second = found.again(revision, through, &misfits).await.lost_since(direct);
        baseline.assert(&first, &second);
    }
}

/// The calls that a gateway counted, by its metrics.
pub fn calls(metrics: &str) -> u64 {
    let counts = metrics.lines().filter(|line| line.starts_with("hawsepipe_calls_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
