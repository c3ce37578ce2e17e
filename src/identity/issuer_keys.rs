//! The current keys of an issuer.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch;
use super::key_set::KeySet;
use crate::domain::plan::JwtPlan;
use crate::transport::outbound::AddressGuard;

/// The shortest time between two fetches.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// How long keys are used beyond the time at which they should have been fetched again, while that fails.
const STALE: Duration = Duration::from_secs(60 * 60);

/// The keys of one issuer. They are fetched when a token needs them.
pub(super) struct IssuerKeys {
    issuer: String,
    jwks_uri: Option<String>,
    refresh: Duration,
    /// The keys that the plan has, and whether they are the only ones.
    given: (Option<String>, bool),
    fetched: ArcSwapOption<FetchedKeys>,
    /// When a fetch last began. Held during a fetch.
    asked: Mutex<Option<Instant>>,
    /// Why the last fetch failed.
    failed: ArcSwapOption<String>,
}

struct FetchedKeys {
    keys: Arc<KeySet>,
    at: Instant,
}

impl IssuerKeys {
    pub(super) fn new(plan: &JwtPlan) -> Self {
        let given = plan.jwks.as_deref().map(|json| KeySet::read(json.as_bytes()));
        if let Some(Err(why)) = &given {
            tracing::warn!(issuer = plan.issuer, "the ConfigMap with the keys of an issuer cannot be used: {why}");
        }
        let failed = given.as_ref().and_then(|given| given.as_ref().err().cloned());
        let given = given.and_then(Result::ok).inspect(|keys| keys.log_unread(&plan.issuer, None));
        let given = given.map(|keys| FetchedKeys { keys: Arc::new(keys), at: Instant::now() });
        Self {
            issuer: plan.issuer.clone(),
            jwks_uri: plan.jwks_uri.clone(),
            refresh: Duration::from_secs(u64::from(plan.refresh_seconds)),
            given: (plan.jwks.clone(), plan.jwks_ref.is_some()),
            fetched: ArcSwapOption::from_pointee(given),
            asked: Mutex::default(),
            failed: ArcSwapOption::from_pointee(failed),
        }
    }

    /// Whether these are the keys of this issuer.
    pub(super) fn are_of(&self, plan: &JwtPlan) -> bool {
        let refresh = Duration::from_secs(u64::from(plan.refresh_seconds));
        let is_given = self.given == (plan.jwks.clone(), plan.jwks_ref.is_some());
        self.issuer == plan.issuer && self.jwks_uri == plan.jwks_uri && self.refresh == refresh && is_given
    }

    /// Returns the keys. If they do not have what `is_there` looks for, they are fetched first, but not sooner than
    /// [`ASK_AGAIN`] after the last fetch: an issuer can have a new key, and tokens can name keys that it never had. If they
    /// are due, they are fetched beside the request. `guard` checks the addresses that they are fetched from.
    ///
    /// # Errors
    /// If there are none.
    pub(super) async fn current(
        self: &Arc<Self>,
        guard: &AddressGuard,
        is_there: impl Fn(&KeySet) -> bool,
    ) -> Result<Arc<KeySet>, String> {
        if let Some(keys) = self.usable().filter(|keys| is_there(keys)) {
            let is_due = |fetched: &Arc<FetchedKeys>| fetched.at.elapsed() >= self.refresh;
            if self.failed.load().is_some() || self.fetched.load().as_ref().is_some_and(is_due) {
                self.refresh_beside(guard.clone());
            }
            return Ok(keys);
        }
        let mut asked = self.asked.lock().await;
        let was_fetched = self.usable().is_some_and(|keys| is_there(&keys));
        if !was_fetched {
            self.fetch(&mut asked, guard).await;
        }
        drop(asked);
        self.usable().ok_or_else(|| format!("the keys of the issuer {} cannot be read now", self.issuer))
    }

    /// Returns the keys that are known, without a fetch.
    pub(super) fn known(&self) -> Option<Arc<KeySet>> {
        self.usable()
    }

    /// Returns why the keys could not be read when that was last tried; `None` if they could, or if it was never tried.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.load().as_deref().cloned()
    }

    fn usable(&self) -> Option<Arc<KeySet>> {
        let fetched = self.fetched.load();
        let is_usable = |fetched: &&Arc<FetchedKeys>| self.given.1 || fetched.at.elapsed() < self.refresh + STALE;
        let fetched = fetched.as_ref().filter(is_usable)?;
        Some(Arc::clone(&fetched.keys))
    }

    fn refresh_beside(self: &Arc<Self>, guard: AddressGuard) {
        if self.given.1 {
            return;
        }
        let own = Arc::clone(self);
        tokio::spawn(async move {
            if let Ok(mut asked) = own.asked.try_lock() {
                own.fetch(&mut asked, &guard).await;
            }
        });
    }

    /// Fetches the keys, unless that was tried a moment ago or the plan has them.
    async fn fetch(&self, asked: &mut Option<Instant>, guard: &AddressGuard) {
        if self.given.1 || asked.is_some_and(|asked| asked.elapsed() < ASK_AGAIN) {
            return;
        }
        match fetch::keys(&self.issuer, self.jwks_uri.as_deref(), guard).await {
            Ok(keys) => {
                keys.log_unread(&self.issuer, self.fetched.load().as_ref().map(|previous| &*previous.keys));
                self.fetched.store(Some(Arc::new(FetchedKeys { keys: Arc::new(keys), at: Instant::now() })));
                self.failed.store(None);
            }
            Err(why) => {
                tracing::warn!(issuer = self.issuer, "the keys of an issuer of tokens cannot be read: {why}");
                self.failed.store(Some(Arc::new(why)));
            }
        }
        // Requests that waited meanwhile do not try once more, one after another.
        *asked = Some(Instant::now());
    }
}
