//! The history of a gateway process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::domain::audit::AuditMode;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{GatewayPlan, HistoryPlan, Plan, StorePlan};
use crate::domain::ports::Secrets;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::store::{HistoryLimits, Store, StoreTarget};

/// The file of an embedded store, in the state folder.
const FILE: &str = "history.db";
const DAY: Duration = Duration::from_hours(24);
/// The pause between two attempts to reach a store.
const PAUSE: Duration = Duration::from_secs(1);
/// Of how many failed attempts one is logged.
const LOG: u32 = 60;

/// The store of a gateway, and where it can be.
pub struct GatewayHistory {
    store: Arc<Store>,
    /// The store that the command line names. It takes precedence over the manifest's.
    fixed: Option<StoreTarget>,
    /// The folder of an embedded store.
    folder: Option<PathBuf>,
    /// A store that the audit trail is to be written to, and that was not reached yet.
    awaited: Mutex<Option<AwaitedStore>>,
    reached: Arc<Notify>,
    /// Settings that wait until their plan is in force, and their store.
    later: Mutex<LaterStore>,
}

/// The settings of a gateway and its store, if that can be known.
type LaterStore = Option<(GatewayPlan, Result<Option<StoreTarget>, String>)>;

/// A store with the task that tries to reach it, which ends on drop.
struct AwaitedStore {
    target: StoreTarget,
    is_reached: Arc<AtomicBool>,
    _task: JoinSet<()>,
}

impl GatewayHistory {
    /// Creates the history of a gateway whose state is in `folder`.
    ///
    /// # Errors
    /// If the command line names a store that cannot be used.
    pub async fn new(fixed: Option<StoreTarget>, folder: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(target) = &fixed {
            Store::check(target).await.context("--store")?;
        }
        let (awaited, reached, later) = (Mutex::default(), Arc::default(), Mutex::default());
        Ok(Self { store: Arc::new(Store::new(1000)), fixed, folder, awaited, reached, later })
    }

    /// The store, to which the engine writes.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Applies the settings of a plan. If its database cannot be used, the history stays where it is.
    ///
    /// If the plan requires an audit trail whose store is not there yet, the audit trail of the `running` plan goes on, in its mode
    /// and in its store: no call is to be refused meanwhile, and a trail that is required stays so. The returned Problem says
    /// that. The first plan has none to go on with. If the plan does not require a trail any more, its store is in use after
    /// [`Self::applied`].
    pub fn follow(&self, gateway: &mut GatewayPlan, running: &Plan, secrets: &impl Secrets) -> Option<Problem> {
        let target = self.target(gateway, secrets);
        let is_awaited = gateway.audit == AuditMode::Required && !running.revision.is_empty();
        let why = match &target {
            _ if !is_awaited => None,
            Err(why) => Some(why.clone()),
            Ok(Some(target)) if !self.has_reached(target) => {
                self.reach(target);
                Some(format!("the store {target} was not reached yet"))
            }
            Ok(_) => None,
        };
        let Some(why) = why else {
            *self.awaited() = None;
            if running.gateway.audit == AuditMode::Required && gateway.audit != AuditMode::Required {
                // Until the plan is in force, each call needs the store that it has.
                *self.later() = Some((gateway.clone(), target));
            } else {
                self.set(gateway, target);
            }
            return None;
        };
        let message = if running.gateway.audit == AuditMode::Required {
            format!("{why}; until then, the audit trail is written to its former store")
        } else {
            gateway.awaited_audit = Some(gateway.audit);
            gateway.audit = running.gateway.audit;
            format!("{why}; until then, audit.mode is {:?} as before", gateway.audit)
        };
        let object = ObjectId::new(Kind::MCPGateway, gateway.key.clone());
        Some(Problem::error(Reason::StoreUnavailable, object, "spec.audit.mode", message))
    }

    /// Applies what waits until the plan of the last [`Self::follow`] is in force.
    pub fn applied(&self) {
        if let Some((gateway, target)) = self.later().take() {
            self.set(&gateway, target);
        }
    }

    fn later(&self) -> MutexGuard<'_, LaterStore> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a store that the audit trail waits for was reached.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    fn awaited(&self) -> MutexGuard<'_, Option<AwaitedStore>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_reached(&self, target: &StoreTarget) -> bool {
        let is_reached = |it: &AwaitedStore| it.target == *target && it.is_reached.load(Ordering::Acquire);
        self.fixed.is_some() || self.store.has_reached(target) || self.awaited().as_ref().is_some_and(is_reached)
    }

    /// Tries to reach a store, in the background.
    fn reach(&self, target: &StoreTarget) {
        let mut awaited = self.awaited();
        if awaited.as_ref().is_some_and(|awaited| awaited.target == *target) {
            return;
        }
        let (is_reached, reached) = (Arc::new(AtomicBool::default()), Arc::clone(&self.reached));
        let (flag, wanted) = (Arc::clone(&is_reached), target.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut attempts = 0_u32;
            while let Err(why) = Store::check(&wanted).await {
                if attempts.is_multiple_of(LOG) {
                    tracing::warn!("the audit trail waits for its store: {why}");
                }
                attempts = attempts.wrapping_add(1);
                tokio::time::sleep(PAUSE).await;
            }
            flag.store(true, Ordering::Release);
            reached.notify_one();
        });
        *awaited = Some(AwaitedStore { target: target.clone(), is_reached, _task: task });
    }

    fn set(&self, gateway: &GatewayPlan, target: Result<Option<StoreTarget>, String>) {
        let max_bytes = match gateway.history.store {
            Some(StorePlan::Embedded { max_size }) => max_size,
            _ => HistoryPlan::MAX_SIZE,
        };
        let limits = HistoryLimits {
            per_plugin: gateway.history_per_plugin as usize,
            retention: DAY * gateway.history.retention_days,
            max_bytes,
        };
        let followed = match target {
            Ok(target) => self.store.follow(&limits, target).map_err(|why| why.to_string()),
            Err(why) => Err(why),
        };
        if let Err(why) = &followed {
            tracing::error!("MCPGateway {}: spec.history.store is not in use: {why}", gateway.key);
        }
        self.store.set_not_open(followed.err());
    }

    /// Writes the last rows.
    pub async fn close(&self) {
        self.store.close().await;
    }

    fn target(&self, gateway: &GatewayPlan, secrets: &impl Secrets) -> Result<Option<StoreTarget>, String> {
        match &gateway.history.store {
            _ if self.fixed.is_some() => Ok(self.fixed.clone()),
            None => Ok(None),
            Some(StorePlan::Embedded { .. }) => {
                let folder = self.folder.as_ref().ok_or("it needs a state folder: set --state-dir")?;
                let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
                made.map_err(|why| format!("the state folder {} cannot be created: {why}", folder.display()))?;
                Ok(Some(StoreTarget::Sqlite(folder.join(FILE))))
            }
            Some(StorePlan::Postgres { secret, key }) => {
                let named = format!("postgres.urlSecretRef: Secret {secret}, key {key}");
                let url = secrets.secret(secret, key).map_err(|why| format!("{named}: {}", why.reason()))?;
                match url.expose().trim().parse() {
                    Ok(target @ StoreTarget::Postgres(_)) => Ok(Some(target)),
                    Ok(StoreTarget::Sqlite(_)) => Err(format!("{named}: the value is not a URL postgres://...")),
                    Err(why) => Err(format!("{named}: {why}")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile::compile;
    use crate::config::input::Inputs;
    use crate::domain::ids::ObjectKey;
    use crate::domain::secret::{NoSecret, SecretText};

    /// The URL of the database; `None` if its Secret is not there.
    struct Url(Option<&'static str>);

    impl Secrets for Url {
        fn secret(&self, _: &ObjectKey, _: &str) -> Result<SecretText, NoSecret> {
            self.0.map(SecretText::new).ok_or(NoSecret::NotFound)
        }

        fn environment(&self, _: &str) -> Option<SecretText> {
            None
        }
    }

    fn plan(audit: AuditMode, store: Option<StorePlan>) -> Plan {
        let (mut plan, _) = compile(&Inputs::default(), None);
        (plan.gateway.audit, plan.gateway.history.store) = (audit, store);
        plan
    }

    #[tokio::test]
    async fn a_required_audit_trail_begins_when_its_store_is_there_and_never_ends_before() {
        use AuditMode::{BestEffort, Required};
        let folder = std::env::temp_dir().join(format!("hawsepipe-history-{}", uuid::Uuid::new_v4().simple()));
        let history = GatewayHistory::new(None, Some(folder.clone())).await.unwrap();
        let postgres = StorePlan::Postgres { secret: ObjectKey::new("mcp", "db"), key: "url".into() };
        let embedded = StorePlan::Embedded { max_size: 1 << 20 };
        let nowhere = Url(Some("postgres://127.0.0.1:1/history"));
        // Returns the mode in which the plan comes into force, and what is told.
        let follow = |running: &Plan, audit, store: &StorePlan, url: &Url| {
            let mut newest = plan(audit, Some(store.clone()));
            let told = history.follow(&mut newest.gateway, running, url);
            assert_eq!(newest.gateway.awaited_audit, (newest.gateway.audit != audit).then_some(audit));
            (newest.gateway.audit, told.map(|problem| problem.message).unwrap_or_default())
        };
        let (mut none, before) = (plan(BestEffort, None), plan(BestEffort, None));
        none.revision.clear();
        assert_eq!(follow(&none, Required, &postgres, &Url(None)), (Required, String::new()), "the first plan");
        for (url, why) in [(Url(None), "SecretNotFound"), (nowhere, "was not reached yet")] {
            let (mode, told) = follow(&before, Required, &postgres, &url);
            assert!(mode == BestEffort && told.contains(why) && told.contains("BestEffort as before"), "{told}");
        }
        let (mode, told) = follow(&before, Required, &embedded, &Url(None));
        assert!(mode == BestEffort && told.contains("was not reached yet"), "{told}");
        tokio::time::timeout(Duration::from_secs(5), history.reached()).await.unwrap();
        assert_eq!(follow(&before, Required, &embedded, &Url(None)), (Required, String::new()));
        let file = StoreTarget::Sqlite(folder.join(FILE));
        let in_use = async || {
            while !history.store.has_reached(&file) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), in_use()).await.unwrap();
        // The next store is not there: the former one goes on.
        let required = plan(Required, Some(embedded.clone()));
        let (mode, told) = follow(&required, Required, &postgres, &Url(None));
        assert!(mode == Required && told.contains("its former store") && history.store.has_reached(&file), "{told}");
        // Less is in force at once.
        assert_eq!(follow(&required, BestEffort, &postgres, &Url(None)).0, BestEffort);
        // The store is needed until then.
        assert!(history.later().is_some() && history.store.has_reached(&file));
        history.applied();
        assert!(history.later().is_none());
        history.close().await;
        std::fs::remove_dir_all(folder).unwrap();
    }
}
