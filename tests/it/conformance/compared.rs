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
    pub async fn held_against(&self, era: &str, through: &str) {
        let Self { revision, checks: direct } = self;
        let first = Checks::of(revision, through).await.lost_since(direct);
        let (scored, unscored): (Vec<_>, Vec<_>) = first.iter().partition(|check| direct.is_scored(check));
        let title = format!("{revision} at a server of the era {era}");
        eprintln!("{title}: {} checks are lost through the gateway: {scored:?}", scored.len());
        eprintln!("{title}: of those that are not scored, these are lost: {unscored:?}");
        eprintln!("{title}: not scored, and failing at the server itself: {:?}", direct.failing_unscored());
        let baseline = Baseline::read(&format!("{revision}-on-{}", era.to_lowercase()));
        if baseline.fits(&first) {
            return;
        }
        // Time plays a part in some checks: what both runs say counts.
        let second = Checks::of(revision, through).await.lost_since(direct);
        baseline.assert(&first, &second);
    }
}

/// The calls that a gateway counted, by its metrics.
pub fn calls(metrics: &str) -> u64 {
    let counts = metrics.lines().filter(|line| line.starts_with("hawsepipe_calls_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
