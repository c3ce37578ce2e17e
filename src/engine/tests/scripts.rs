//! A fake runner of plugins. The code of a plugin is a script that the fake interprets: a verb and a word.

use super::*;
use async_trait::async_trait;

/// Runs plugins whose code is a script, such as `put old`.
#[derive(Default)]
pub(in crate::engine) struct Scripts {
    /// The executions so far, as `name <- content`.
    pub(in crate::engine) ran: Mutex<Vec<String>>,
    /// The methods of the requests that were run.
    pub(in crate::engine) methods: Mutex<Vec<String>>,
    /// Lets one `wait` continue.
    pub(in crate::engine) go: Notify,
    /// Whether no worker can be started.
    pub(in crate::engine) down: AtomicBool,
    pub(in crate::engine) workers: Mutex<Vec<WorkerInfo>>,
    pub(in crate::engine) sandbox: Mutex<SandboxState>,
    pub(in crate::engine) loads: watch::Sender<Loads>,
    /// The scripts that were prepared and not retired, by the identity of their plugin.
    pub(in crate::engine) kept: Mutex<BTreeMap<String, String>>,
}

/// The load states of scripts. A prepared script that is not in `of` counts as loaded.
#[derive(Default)]
pub(in crate::engine) struct Loads {
    of: BTreeMap<String, Loading>,
    ended: u64,
}

impl Scripts {
    /// Sets the load state of a script.
    pub(in crate::engine) fn is(&self, script: &str, loading: Loading) {
        self.loads.send_modify(|loads| {
            loads.of.insert(script.to_owned(), loading);
            loads.ended += 1;
        });
    }

    /// Makes a script fail to load because of its own code.
    pub(in crate::engine) fn cannot_load(&self, script: &str) {
        let failure = Failure::new(Reason::NotLoaded, "cannot be started: Error: no");
        self.is(script, Loading::Failed { failure, own: true });
    }

    #[expect(clippy::too_many_lines, reason = "a table of scripts")]
    async fn answer(&self, script: &str, content: &str, host: &dyn Host) -> Result<Output, Failure> {
        let (verb, word) = script.split_once(' ').unwrap_or((script, ""));
        let output = |text: &str, proceed: bool, error: Option<&str>| {
            Ok(Output { text: text.into(), proceed, metadata: Some(raw("{\"m\":1}")), error: error.map(Into::into) })
        };
        match verb {
            "same" | "config" => output(content, true, None),
            "put" => output(word, true, None),
            "metadata" => output(content, true, None).map(|output| {
                let metadata = raw(&format!("\"{}\"", "m".repeat(word.parse().unwrap())));
                Output { metadata: Some(metadata), ..output }
            }),
            "stop" => output(if word.is_empty() { content } else { word }, false, None),
            "deny" => output("not this", false, Some(word)),
            "fail" => Err(Failure::new(reason(word), "it failed")),
            "wait" => {
                self.go.notified().await;
                output(if word.is_empty() { content } else { word }, true, None)
            }
            "call" => {
                let arguments = raw(r#"{"n":1}"#);
                let (Answer::Result(answer) | Answer::Error(answer)) = host.call_tool(word, Some(&arguments)).await;
                output(&format!(r#"{{"said":{answer}}}"#), true, None)
            }
            // A step of a pipeline that puts what a tool says into its output.
            "step" => {
                let (Answer::Result(answer) | Answer::Error(answer)) = host.call_tool(word, None).await;
                output(&format!(r#"{{"output":{{"said":{answer}}}}}"#), true, None)
            }
            "flood" => {
                let calls: Vec<_> = (0..10).map(|_| host.call_tool("up__other", None)).collect();
                let answers = futures_util::future::join_all(calls).await;
                let refused = answers.iter().filter(|answer| matches!(answer, Answer::Error(_))).count();
                output(&format!(r#"{{"refused":{refused}}}"#), true, None)
            }
            "progress" => {
                for progress in word.split(' ') {
                    let (progress, message) = (progress.parse().unwrap(), Some("words".to_owned()));
                    host.progress(PluginProgress { progress, total: None, message });
                }
                output(content, true, None)
            }
            _ => panic!("no script: {script}"),
        }
    }
}

fn reason(word: &str) -> Reason {
    match word {
        "Timeout" => Reason::Timeout,
        "PoolExhausted" => Reason::PoolExhausted,
        "InvalidOutput" => Reason::InvalidOutput,
        _ => Reason::Crashed,
    }
}

#[async_trait]
impl RunPlugin for Scripts {
    async fn prepare(&self, wanted: &[Arc<LinkedPlugin>], _: &Runtime) {
        let wanted = wanted.iter().map(|plugin| (plugin.identity.clone(), plugin.code.to_string()));
        self.kept.lock().unwrap().extend(wanted);
    }

    fn loading(&self, plugin: &Arc<LinkedPlugin>) -> Loading {
        if !self.kept.lock().unwrap().contains_key(&plugin.identity) {
            return Loading::Unprepared;
        }
        let loads = self.loads.borrow();
        loads.of.get(&*plugin.code).cloned().unwrap_or(Loading::Loaded)
    }

    async fn loads(&self, seen: u64) -> u64 {
        self.loads.subscribe().wait_for(|loads| loads.ended > seen).await.unwrap().ended
    }

    fn retire(&self, keep: &[Arc<LinkedPlugin>]) {
        let is_kept = |identity: &String, _: &mut String| keep.iter().any(|plugin| plugin.identity == *identity);
        self.kept.lock().unwrap().retain(is_kept);
    }

    async fn run(&self, plugin: &Arc<LinkedPlugin>, input: &Input<'_>, _: Duration, host: &dyn Host) -> Ran {
        let content = input.raw_content.unwrap_or_default();
        self.ran.lock().unwrap().push(format!("{} <- {content}", plugin.plan.key.name));
        self.methods.lock().unwrap().push(input.metadata.method.to_owned());
        let config = input.metadata.config.map(|config| format!("put {}", config.get()));
        let script = config.filter(|_| plugin.code.starts_with("config"));
        let output = self.answer(script.as_deref().unwrap_or(&plugin.code), content, host).await;
        Ran { output, queued: Duration::ZERO, ran: Duration::from_millis(1), worker_pid: Some(1) }
    }

    fn availability(&self, plugin: &Arc<LinkedPlugin>) -> Result<(), Failure> {
        if let Loading::Failed { failure, .. } = self.loading(plugin) {
            return Err(failure);
        }
        match plugin.code.starts_with("absent") || self.down.load(Ordering::Relaxed) {
            true => Err(Failure::new(Reason::NotLoaded, "it does not start")),
            false => Ok(()),
        }
    }

    fn workers(&self) -> Vec<WorkerInfo> {
        self.workers.lock().unwrap().clone()
    }

    fn sandbox(&self) -> SandboxState {
        self.sandbox.lock().unwrap().clone()
    }

    fn load(&self) -> PluginLoad {
        PluginLoad { permits: 8, ..PluginLoad::default() }
    }

    async fn shutdown(&self) {}
}
