//! The history of a gateway process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::domain::plan::{GatewayPlan, HistoryPlan, StorePlan};
use crate::domain::ports::Secrets;
use crate::store::{HistoryLimits, Store, StoreTarget};

/// The file of an embedded store, in the state folder.
const FILE: &str = "history.db";
const DAY: Duration = Duration::from_hours(24);

/// The store of a gateway, and where it can be.
pub struct GatewayHistory {
    store: Arc<Store>,
    /// The store that the command line names. It takes precedence over the manifest's.
    fixed: Option<StoreTarget>,
    /// The folder of an embedded store.
    folder: Option<PathBuf>,
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
        Ok(Self { store: Arc::new(Store::new(1000)), fixed, folder })
    }

    /// The store, to which the engine writes.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Applies the settings of a plan. If its database cannot be used, the history stays where it is.
    pub fn follow(&self, gateway: &GatewayPlan, secrets: &impl Secrets) {
        let max_bytes = match gateway.history.store {
            Some(StorePlan::Embedded { max_size }) => max_size,
            _ => HistoryPlan::MAX_SIZE,
        };
        let limits = HistoryLimits {
            per_plugin: gateway.history_per_plugin as usize,
            retention: DAY * gateway.history.retention_days,
            max_bytes,
        };
        let followed = match self.target(gateway, secrets) {
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
