//! Every fault, at every place of a chain, under every policy: the call ends as the table says, by its deadline; the
//! next one goes well; and the gateway holds what it held before.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::RwLock;

use super::cases::{Case, LANES, next, nexts, plugins, rounds};
use super::table::FAULTS;
use super::vitals::{Vitals, memory};
use crate::gateway::harness::{Folder, Gateway, HEAVY, SOON};
use crate::gateway::http::Http;
use crate::gateway::manifests::{gateway, raw_server, yaml};
use crate::gateway::outcomes::seen::list;
use crate::gateway::parts::until;

/// Rounds of a short run: the first one fills caches, the second one is compared with it.
const ROUNDS: usize = 2;
/// Faults of a long run.
const SOAK: usize = 10_000;
/// How often a case is tried whose outcome is late: on a machine that others keep busy some are, by chance. What the
/// gateway keeps waiting is late each time.
const TRIES: usize = 5;
/// What the gateway may have gained in KiB after all of it: rings of records that fill, freed memory that is kept.
const MAY_GAIN: u64 = 24 << 10;

/// A gateway with a tool and a chain for each case.
struct Matrix {
    gateway: Gateway,
    /// Cases share it; a bomb has it alone.
    machine: RwLock<()>,
    /// Workers that have served, by process id.
    served: Mutex<BTreeSet<u32>>,
    /// Workers that live when nothing is called: one for each plugin, but that of the script which ends at once.
    workers: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_is_contained() {
    contained(ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: make test-long"]
async fn ten_thousand_faults_are_contained() {
    contained(SOAK.div_ceil(FAULTS.len())).await;
}

/// Runs this many rounds, each with every fault.
async fn contained(count: usize) {
    let _alone = HEAVY.lock().await;
    let folder = Folder::new();
    let matrix = Matrix::start(&folder, &rounds());
    let (mut wrong, mut before) = (Vec::new(), None);
    for (number, round) in rounds().iter().cycle().take(count).enumerate() {
        let began = Instant::now();
        let found = matrix.run(round).await;
        found.iter().for_each(|what| println!("{what}"));
        wrong.extend(found);
        let after = matrix.settled().await;
        let gained = memory(&matrix.gateway);
        println!("round {number}: {} faults, {:?}, {gained} KiB, {after:?}", round.len(), began.elapsed());
        // The first round fills what is filled once.
        let (held, at_first) = before.get_or_insert((after.clone(), gained));
        if after != *held {
            wrong.push(format!("after round {number} it holds {after:?}, not {held:?}"));
        }
        if gained > *at_first + MAY_GAIN {
            wrong.push(format!("after round {number} it has {gained} KiB, at first {at_first}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

impl Matrix {
    fn start(folder: &Folder, rounds: &[Vec<Case>]) -> Self {
        let cases: Vec<_> = rounds.iter().flatten().collect();
        let nexts = nexts();
        let names = cases.iter().map(|case| case.name()).chain(nexts.iter().map(|(tool, _)| tool.clone()));
        folder.write("tools.txt", &json!(names.collect::<Vec<_>>()).to_string());
        let tools = folder.path().join("tools.txt");
        // The deadlines of a busy machine are not what is tried here.
        let patient =
            json!({"plugins": {"queueTimeoutMs": 60_000, "poolSizePerPlugin": 1}, "history": {"perPlugin": 50}});
        let plugins = plugins();
        let mut objects = vec![gateway(&patient), raw_server("up", &["--also", tools.to_str().unwrap()])];
        objects.extend(plugins.iter().cloned());
        objects.extend(cases.iter().map(|case| case.chain()));
        objects.extend(nexts.into_iter().map(|(_, chain)| chain));
        folder.write("manifests.yaml", &yaml(&objects));
        let (gateway, workers) = (Gateway::start(folder), plugins.len() - 1);
        Self { gateway, machine: RwLock::default(), served: Mutex::default(), workers }
    }

    /// Runs one case after another in each lane, and says which went wrong.
    async fn run(&self, cases: &[Case]) -> Vec<String> {
        let lanes = (0..LANES).map(|lane| async move {
            let (http, mut wrong) = (Http::new(), Vec::new());
            for case in cases.iter().filter(|case| case.lane == lane) {
                wrong.extend(self.fault(&http, case).await.err().map(|what| format!("{}: {what}", case.name())));
            }
            wrong
        });
        join_all(lanes).await.concat()
    }

    async fn fault(&self, http: &Http, case: &Case) -> Result<(), String> {
        let (_shared, _alone) = match case.fault.bomb {
            true => (None, Some(self.machine.write().await)),
            false => (Some(self.machine.read().await), None),
        };
        for _ in 1..TRIES {
            let (answer, row) = self.once(http, case).await?;
            if case.in_time(&row) {
                return case.judge(&answer, &row);
            }
        }
        let (answer, row) = self.once(http, case).await?;
        case.judge(&answer, &row)
    }

    /// One call with the fault, whose answer and execution it gives, and the call after it, which has to go well.
    async fn once(&self, http: &Http, case: &Case) -> Result<(Value, Value), String> {
        let answer = self.call(http, &case.name()).await;
        let row = self.row(http, case).await;
        let pid = row["workerPid"].as_u64().map(|pid| u32::try_from(pid).unwrap());
        let pid = pid.ok_or_else(|| format!("no worker had it: {row}, {answer:.600}"))?;
        self.served.lock().unwrap().insert(pid);
        if case.fault.ends {
            until("a worker that ended is gone", async || !self.living().await.contains(&pid)).await;
        }
        let next = self.call(http, &next(case.fault, case.lane)).await;
        match next["result"]["content"][0]["text"] == json!(r#"{"m":"a+x"}"#) {
            true => Ok((answer, row)),
            false => Err(format!("the next call gets {next:.600}, after {answer:.600}")),
        }
    }

    async fn call(&self, http: &Http, tool: &str) -> Value {
        let (tool, arguments) = (format!("up__{tool}"), json!({"m": "a"}));
        let (url, meta) = (self.gateway.url(), json!({"hawsepipe.dev/trace": true}));
        let call = http.call(&url, &tool, &arguments, &meta);
        tokio::time::timeout(2 * SOON, call).await.unwrap_or_else(|_| json!("no answer"))
    }

    /// The newest execution of the case's plugin for its tool.
    async fn row(&self, http: &Http, case: &Case) -> Value {
        let (plugin, tool) = (case.plugin(), case.name());
        let url = format!("http://{}/api/v1/executions?limit=1&plugin={plugin}&tool={tool}", self.gateway.admin());
        http.get(&url).await.json()["items"][0].clone()
    }

    async fn living(&self) -> BTreeSet<u32> {
        let workers = list(&self.gateway, "workers").await;
        workers.iter().map(|worker| u32::try_from(worker["pid"].as_u64().unwrap()).unwrap()).collect()
    }

    /// What it holds once each plugin has its one worker again, and what is over has gone.
    async fn settled(&self) -> Vitals {
        until("every plugin has its worker", async || {
            let workers = list(&self.gateway, "workers").await;
            workers.len() == self.workers && workers.iter().all(|worker| worker["state"] == "Available")
        })
        .await;
        let living = self.living().await;
        let gone: BTreeSet<_> = self.served.lock().unwrap().difference(&living).copied().collect();
        let (mut last, mut alike, deadline) = (None, 0, Instant::now() + SOON);
        // Connections end in their own time.
        while alike < 25 && Instant::now() < deadline {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let now = Some(Vitals::of(&self.gateway, &gone));
            alike = if now == last { alike + 1 } else { 0 };
            last = now;
        }
        last.unwrap()
    }
}
