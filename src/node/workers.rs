//! Runs plugins: the pools of all plugins, under common limits.

use async_trait::async_trait;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::discovery::{NodeRuntime, find_node};
use super::execution_limits::{ExecutionLimits, LimitReservation};
use super::execution_queue::ExecutionClient;
use super::launcher::Launcher;
use super::maintenance::maintain;
use super::metrics::WorkerMetrics;
use super::pool::WorkerPool;
use super::pools::Pools;
use super::protocol::PluginCall;
use super::seat_lease::SeatLease;
use super::starter::{Lifetimes, StartError, Starter};
use super::yielding::Yielding;
use crate::domain::descriptor::Descriptor;
use crate::domain::plan::Runtime;
use crate::domain::plugin::{Failure, Input, Ran};
use crate::domain::ports::{Host, LinkedPlugin, Loading, PluginLoad, RunPlugin, WorkerInfo};
use crate::domain::reason::Reason;
use crate::domain::sandbox::{SandboxMode, SandboxState};

/// The workers of all plugins in this process.
#[derive(Debug)]
pub struct Workers {
    starter: Arc<Starter>,
    admission: Arc<ExecutionLimits>,
    pools: Arc<RwLock<Pools>>,
}

impl Workers {
    /// Creates an instance that uses the current Tokio runtime. No worker is started before [`RunPlugin::prepare`] is
    /// called.
    ///
    /// # Errors
    /// If the private folder for code cannot be created.
    pub fn new(launcher: Launcher, lifetimes: Lifetimes, metrics: WorkerMetrics) -> io::Result<Self> {
        let starter = Arc::new(Starter::new(launcher, lifetimes, metrics)?);
        let admission = Arc::new(ExecutionLimits::new(starter.tasks.clone()));
        let pools = Arc::new(RwLock::default());
        starter.tasks.spawn(maintain(Arc::downgrade(&starter), Arc::downgrade(&pools)));
        Ok(Self { starter, admission, pools })
    }

    /// The Node.js that plugins run on.
    ///
    /// # Errors
    /// `NotLoaded` if no working Node.js was found.
    pub fn node(&self) -> Result<NodeRuntime, Failure> {
        self.starter.node().map_err(|error| StartError::Node(error).into())
    }

    async fn apply(&self, runtime: &Runtime) {
        self.admission.apply(runtime);
        let refusing = self.apply_sandbox(runtime.sandbox).await.map(|why| Failure::new(Reason::NotLoaded, why));
        let found = self.read(|pools| pools.last_program.as_ref() == Some(&runtime.node_executable));
        if !found || self.starter.node().is_err() {
            self.starter.set_node(find_node(&runtime.node_executable).await);
        }
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        pools.last_program = Some(runtime.node_executable.clone());
        pools.refusing = refusing;
    }

    /// Applies the sandbox mode and, if the state of the sandbox has changed, logs it. Returns the reason if no plugin
    /// may run.
    async fn apply_sandbox(&self, mode: Option<SandboxMode>) -> Option<String> {
        let before = self.read(|pools| pools.last_program.is_some()).then(|| self.starter.sandbox());
        let state = self.starter.set_sandbox(mode).await;
        let refusal = state.refusal();
        if before.as_ref() != Some(&state) {
            match &refusal {
                Some(refusal) => tracing::error!("no plugin runs: {refusal}"),
                None if state.lacks.is_empty() => tracing::info!("plugins run in the sandbox"),
                None => tracing::warn!(
                    "plugins run in a part of the sandbox; the kernel does not enforce {}",
                    state.lacking()
                ),
            }
        }
        refusal
    }

    fn new_pools(&self, wanted: &[Arc<LinkedPlugin>]) -> Vec<Arc<WorkerPool>> {
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = Vec::new();
        for plugin in wanted {
            if pools.by_identity.contains_key(&plugin.identity) {
                continue;
            }
            let pool = WorkerPool::new(Arc::clone(plugin), Arc::clone(&self.starter), Arc::clone(&self.admission));
            // The plugin's previous revision may be under load, so the new pool starts as many workers.
            if let Some(before) = pools.by_identity.values().find(|before| before.plugin().key == plugin.plan.key) {
                pool.follow(before);
            }
            pools.by_identity.insert(plugin.identity.clone(), Arc::clone(&pool));
            new.push(pool);
        }
        new
    }

    /// Returns the plugin's pool. A plugin that was not prepared gets a new pool that keeps no workers.
    fn pool(&self, plugin: &Arc<LinkedPlugin>) -> Arc<WorkerPool> {
        self.read(|pools| pools.by_identity.get(&plugin.identity).cloned()).unwrap_or_else(|| {
            WorkerPool::unkept(Arc::clone(plugin), Arc::clone(&self.starter), Arc::clone(&self.admission))
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Pools) -> T) -> T {
        look(&self.pools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Leases a seat at a worker and takes a permit. The lease comes first, so that a call that waits for a busy plugin
    /// holds no permit that another plugin could use. If the pool keeps no workers, the permit comes first, so that no
    /// worker is started in vain. A call that has to wait keeps its place in the queue until it has both.
    async fn admit(
        &self,
        plugin: &Arc<LinkedPlugin>,
        input: &Input<'_>,
        run: Duration,
        client: ExecutionClient,
    ) -> Result<AdmittedExecution, Failure> {
        let bytes = input.raw_content.map_or(0, str::len);
        let max_input = plugin.plan.limits.max_input;
        if bytes as u64 > max_input {
            return Err(Failure::new(Reason::TooLarge, format!("was given more than {max_input} bytes")));
        }
        if let Some(failure) = self.read(|pools| pools.refusing.clone()) {
            return Err(failure);
        }
        let content = self.admission.content(bytes)?;
        let until = Instant::now() + self.admission.queue_timeout();
        let end = until + run;
        let (pool, place) = (self.pool(plugin), &mut self.admission.place(client));
        if pool.is_cold() {
            let permit = self.admission.permit(until, place).await?;
            let lease = pool.lease(end, place).await?;
            return Ok(AdmittedExecution { lease, until: end, permit, content });
        }
        // A call waits as long for a plugin that is still loading as for a worker that is started for the call.
        let until = if pool.loading() == Loading::Underway { end } else { until };
        let mut lease = pool.lease(until, place).await?;
        let permit = self.admission.permit(until, place).await?;
        while lease.is_useless() {
            drop(lease);
            lease = pool.lease(until, place).await?;
        }
        Ok(AdmittedExecution { lease, until: end, permit, content })
    }
}

struct AdmittedExecution {
    lease: SeatLease,
    /// The deadline for everything: waiting, starting a worker if necessary, and running.
    until: Instant,
    permit: OwnedSemaphorePermit,
    content: LimitReservation,
}

#[async_trait]
impl RunPlugin for Workers {
    async fn prepare(&self, wanted: &[Arc<LinkedPlugin>], runtime: &Runtime) {
        self.apply(runtime).await;
        if self.read(|pools| pools.refusing.is_some()) {
            return;
        }
        self.new_pools(wanted).iter().for_each(WorkerPool::begin);
    }

    fn loading(&self, plugin: &Arc<LinkedPlugin>) -> Loading {
        self.read(|pools| match (&pools.refusing, pools.by_identity.get(&plugin.identity)) {
            (_, Some(pool)) => pool.loading(),
            (Some(failure), None) => Loading::Failed { failure: failure.clone(), own: false },
            (None, None) => Loading::Unprepared,
        })
    }

    async fn loads(&self, seen: u64) -> u64 {
        let mut loads = self.starter.loads.subscribe();
        // `self` keeps the sender alive, so waiting cannot fail.
        let ended = loads.wait_for(|ended| *ended > seen).await.map(|ended| *ended);
        ended.unwrap_or(u64::MAX)
    }

    fn retire(&self, keep: &[Arc<LinkedPlugin>]) {
        let mut pools = self.pools.write().unwrap_or_else(PoisonError::into_inner);
        pools.by_identity.retain(|identity, pool| {
            let kept = keep.iter().any(|plugin| plugin.identity == *identity);
            if !kept {
                pool.retire();
            }
            kept
        });
    }

    async fn run(&self, plugin: &Arc<LinkedPlugin>, input: &Input<'_>, timeout: Duration, host: &dyn Host) -> Ran {
        let asked = Instant::now();
        let AdmittedExecution { lease, until, permit, content } =
            match self.admit(plugin, input, timeout, ExecutionClient(host.account())).await {
                Ok(admitted) => admitted,
                Err(failure) => {
                    let queued = asked.elapsed();
                    return Ran { output: Err(failure), queued, ran: Duration::ZERO, worker_pid: None };
                }
            };
        let began = Instant::now();
        let worker_pid = lease.pid();
        let deadline = until.min(began + timeout);
        let max_output = usize::try_from(plugin.plan.limits.max_output).unwrap_or(usize::MAX);
        let host = &self.starter.metrics.counted(host, &plugin.plan.key);
        let host = &Yielding::new(host, &self.admission, (permit, content, lease.place()));
        let output = lease.run(&PluginCall { input, deadline, max_output, host }, timeout).await;
        Ran { output, queued: began - asked, ran: began.elapsed(), worker_pid }
    }

    fn availability(&self, plugin: &Arc<LinkedPlugin>) -> Result<(), Failure> {
        self.read(|pools| match (&pools.refusing, pools.by_identity.get(&plugin.identity)) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(pool)) if !pool.is_cold() => pool.availability(),
            (None, pool) => self.node().and_then(|_| pool.map_or(Ok(()), |pool| pool.availability())),
        })
    }

    fn described(&self, plugin: &Arc<LinkedPlugin>) -> Option<Descriptor> {
        self.read(|pools| pools.by_identity.get(&plugin.identity).and_then(|pool| pool.described()))
    }

    fn sandbox(&self) -> SandboxState {
        self.starter.sandbox()
    }

    fn load(&self) -> PluginLoad {
        self.admission.load()
    }

    fn workers(&self) -> Vec<WorkerInfo> {
        self.starter.workers()
    }

    async fn shutdown(&self) {
        self.retire(&[]);
        self.starter.close().await;
        self.starter.tasks.finish().await;
        self.starter.remove_code();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::super::fixture::{plugin, runtime, starter};
    use super::super::private::PrivateFolder;
    use super::*;

    /// Installs a script that gives the same answers as Node.js. Another process writes the script: if this process had
    /// the file open for writing while another test forks, the file could not be executed.
    fn install_node(program: &Path) {
        const WRITE: &str = r#"printf '%s\n' '#!/bin/sh' "case \$1 in --version) echo v22.1.0;; *) echo '$1';; esac" > "$0"
            chmod +x "$0""#;
        let parts = serde_json::json!({"program": program, "libraries": [], "kibibytes": 1}).to_string();
        assert!(Command::new("sh").args(["-c", WRITE]).arg(program).arg(parts).status().unwrap().success());
    }

    #[tokio::test]
    async fn node_is_looked_for_where_another_one_is_asked_for_and_while_there_is_none() {
        let starter = starter();
        let admission = Arc::new(ExecutionLimits::new(starter.tasks.clone()));
        let workers = Workers { starter, admission, pools: Arc::default() };
        let folder = PrivateFolder::create().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        let ask = async |program: &Path| {
            workers.apply(&Runtime { node_executable: program.to_owned(), ..runtime(1, 1, 1) }).await;
            workers.node().map(|node| node.program).ok()
        };
        assert_eq!(ask(&one).await, None);
        install_node(&one);
        assert_eq!(ask(&one).await.as_ref(), Some(&one), "it was installed since");
        install_node(&other);
        assert_eq!(ask(&other).await.as_ref(), Some(&other));
        std::fs::remove_file(&other).unwrap();
        assert_eq!(ask(&other).await.as_ref(), Some(&other), "one that works is not looked for again");
    }

    #[tokio::test]
    async fn a_plugin_that_was_let_go_is_not_being_loaded() {
        let starter = starter();
        let admission = Arc::new(ExecutionLimits::new(starter.tasks.clone()));
        let (workers, plugin) = (Workers { starter, admission, pools: Arc::default() }, plugin());
        assert_eq!(workers.loading(&plugin), Loading::Unprepared);
        workers.new_pools(&[Arc::clone(&plugin)]);
        assert_eq!(workers.loading(&plugin), Loading::Underway);
        workers.retire(&[]);
        assert_eq!(workers.loading(&plugin), Loading::Unprepared, "nobody would ever load it");
    }

    #[tokio::test]
    async fn something_is_done_with_every_pool() {
        let starter = starter();
        let admission = Arc::new(ExecutionLimits::new(starter.tasks.clone()));
        let pool =
            |name: &str| (name.to_owned(), WorkerPool::new(plugin(), Arc::clone(&starter), Arc::clone(&admission)));
        let pools = Pools { by_identity: ["a", "b"].map(pool).into(), ..Pools::default() };
        pools.each(WorkerPool::retire);
        assert!(pools.by_identity.values().all(|pool| pool.is_cold()));
    }
}
