//! Reads the plugin to run, as a gateway would, and makes a plan with only this plugin and one tool.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use serde_json::value::RawValue;

use super::args;
use super::code::{NAME, manifest, wrapper_command};
use super::test_input::TestInput;
use crate::cli::known::hint;
use crate::config::compile::merge_config;
use crate::domain::code_file::is_code;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::json::{Pointer, doubled_key};
use crate::domain::method::Method;
use crate::domain::plan::{
    ArgumentValidation, ChainPlan, EntryPlan, EraSetting, HealthPlan, Plan, PluginPlan, RetryPlan, TransportPlan,
    UpstreamPlan, UpstreamScope,
};
use crate::domain::plugin::{FailurePolicy, Mode, Phase, PluginKind, Role, View};
use crate::domain::problem::Problem;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::node::{Inspector, Launcher};
use crate::source::{Directory, DirectorySettings, FileSecrets, Folders, Located};

/// The plugin named on the command line.
pub struct Subject {
    directory: Directory<Inspector>,
    /// The value of `--plugin`; `None` means the only Plugin in the manifests.
    wanted: Option<String>,
    config: Option<Box<RawValue>>,
    timeout_ms: Option<u32>,
    is_code: bool,
    /// The number of warm workers to keep; set only if the plugin is measured.
    measured: Option<u32>,
}

/// A plugin that was read and accepted.
pub struct ReadSubject {
    /// The plan of all manifests.
    pub plan: Plan,
    /// The values of the secrets that the plan names.
    pub secrets: FileSecrets,
    pub plugin: PluginPlan,
    /// Problems that do not prevent the plugin from running.
    pub warnings: Vec<Located>,
}

pub struct SubjectReading {
    /// The plugin, or why it is not accepted.
    pub read: Result<Box<ReadSubject>, Vec<Located>>,
    /// The folders to watch, because changes in them can affect the plugin.
    pub folders: Folders,
}

impl SubjectReading {
    /// Returns a text that changes if the plan changes or, for a plugin that is not accepted, if its Problems change.
    pub fn stamp(&self) -> String {
        match &self.read {
            Ok(read) => read.plan.revision.clone(),
            Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// Parses `--config`. A repeated key is refused, because parsers differ in which value they use.
fn config_of(text: &str) -> anyhow::Result<Value> {
    let config = serde_json::from_str(text).context("--config is not JSON")?;
    match doubled_key(text) {
        Some(steps) => bail!("--config: the key at {} stands twice in its object", Pointer(&steps)),
        None => Ok(config),
    }
}

impl Subject {
    /// Prepares to read the plugin. `config` is the configuration in `--input`; the flag `--config` takes precedence
    /// over it. `kind` is the type of a file of code.
    pub fn new(args: &args::SubjectArgs, config: Option<Value>, kind: Option<PluginKind>) -> anyhow::Result<Self> {
        let config = match &args.config {
            Some(text) => Some(config_of(text)?),
            None => config,
        };
        if config.as_ref().is_some_and(|config| !config.is_object()) {
            bail!("--config must be a JSON object such as '{{\"style\": \"short\"}}'");
        }
        let is_code = is_code(&args.file) || wrapper_command(&args.file).is_some();
        let only_code =
            !(args.protocol.is_none() && args.env.is_empty() && args.egress.is_empty() && args.sandbox.is_none());
        if only_code && !is_code {
            bail!(
                "--protocol, --env, --egress and --sandbox are for a file of code: {} says it itself",
                args.file.display()
            );
        }
        let paths = if is_code { Vec::new() } else { vec![args.file.clone()] };
        let settings =
            DirectorySettings { paths, gateway: None, secrets_dir: args.secrets_dir.clone(), node: args.node.clone() };
        let more = if is_code { vec![manifest(args, kind)?] } else { Vec::new() };
        Ok(Self {
            directory: Directory::new(settings, Inspector::new(Launcher::current()?)).with(more),
            wanted: args.plugin.clone(),
            config: config.map(|config| to_raw(&config)),
            timeout_ms: args.timeout_ms,
            is_code,
            measured: None,
        })
    }

    /// Changes the plans that later readings return, for a measurement: `pool_size` workers stay warm, and a plugin
    /// with the role Observe runs within the call instead of beside it.
    pub fn measure(&mut self, pool_size: u32) {
        self.measured = Some(pool_size);
    }

    /// Reads the current version of the plugin.
    pub async fn read(&mut self) -> anyhow::Result<SubjectReading> {
        let compiled = self.directory.read(None).await?;
        let folders = compiled.folders;
        if !compiled.unreadable.is_empty() {
            return Ok(SubjectReading { read: Err(compiled.located), folders });
        }
        let object = self.choose(&compiled.plan, &compiled.located)?;
        let concerns = |located: &Located| located.problem.object.as_ref() == Some(&object);
        let problems: Vec<_> = compiled.located.into_iter().filter(concerns).map(|l| self.placed(l)).collect();
        let Some(plugin) = compiled.plan.plugin(&object.key).cloned() else {
            return Ok(SubjectReading { read: Err(problems), folders });
        };
        if let Err(message) = self.directory.check_config(&object.key, self.config.as_deref()) {
            let problem = Problem::error(Reason::InvalidConfig, object, "--config", message);
            return Ok(SubjectReading { read: Err(vec![Located { problem, file: None, place: None }]), folders });
        }
        let read = ReadSubject { plan: compiled.plan, secrets: compiled.secrets, plugin, warnings: problems };
        Ok(SubjectReading { read: Ok(Box::new(read)), folders })
    }

    /// Makes a plan that runs only this plugin, on `input`. Returns it with the phase.
    ///
    /// # Errors
    /// If the plugin does not serve the phase, or any.
    pub fn in_chain(&self, plan: Plan, plugin: &PluginPlan, input: &TestInput) -> anyhow::Result<(Plan, Phase)> {
        let key = &plugin.key;
        if !plugin.kind.is_middleware() {
            bail!("{key} is of type {}: name the function to run, such as --method execute", plugin.kind.as_str());
        }
        let serves = |phase: &Phase| plugin.phases.contains(phase);
        let phase = input.phase.or_else(|| [Phase::Response, Phase::Request].into_iter().find(serves));
        let phase = phase.unwrap_or(Phase::Response);
        if !serves(&phase) {
            bail!("{key} does not serve the {} phase", phase.wire());
        }
        Ok((self.alone(plan, plugin, input, phase), phase))
    }

    /// Returns the plugin's configuration, with the keys of the command line.
    pub fn config(&self, plugin: &PluginPlan) -> Option<Box<RawValue>> {
        merge_config(plugin.config.as_deref(), self.config.as_deref())
    }

    /// Returns the timeout on the command line, or else that of the plugin.
    pub fn timeout(&self, plugin: &PluginPlan) -> Option<Duration> {
        self.timeout_ms.or(plugin.timeout_ms).map(|timeout| Duration::from_millis(timeout.into()))
    }

    /// Removes file and position from a Problem if the plugin is a file of code, because its manifest is generated.
    fn placed(&self, located: Located) -> Located {
        if self.is_code { Located { file: None, place: None, ..located } } else { located }
    }

    /// Returns the requested Plugin, or the only Plugin if none was requested. Returns an error if the Plugin cannot be
    /// identified.
    fn choose(&self, plan: &Plan, located: &[Located]) -> anyhow::Result<ObjectId> {
        let accepted = plan.plugins.iter().map(|plugin| &plugin.key);
        let refused = located.iter().filter_map(|l| l.problem.object.as_ref());
        let refused = refused.filter(|object| object.kind == Kind::Plugin).map(|object| &object.key);
        let keys: BTreeSet<_> = accepted.chain(refused).collect();
        let named = |key: &&&ObjectKey| self.wanted.as_ref().is_none_or(|w| key.name == *w || key.to_string() == *w);
        let found: Vec<_> = keys.iter().filter(named).collect();
        match found[..] {
            [key] => Ok(ObjectId::new(Kind::Plugin, ObjectKey::clone(key))),
            [] if keys.is_empty() => {
                bail!(
                    "there is no Plugin in the manifests, and no file of code (*.js, *.mjs, *.cjs, *.ts, *.mts, *.py, a program) was given"
                )
            }
            _ => {
                let all: Vec<_> = keys.iter().map(ToString::to_string).collect();
                match self.wanted.as_ref().filter(|_| found.is_empty()) {
                    Some(wanted) => bail!("there is no Plugin {wanted}{}", hint(wanted, &all)),
                    None => bail!("say which Plugin with --plugin NAME; there are: {}", all.join(", ")),
                }
            }
        }
    }

    /// Reduces `plan` to one chain that runs this plugin on one tool.
    fn alone(&self, mut plan: Plan, plugin: &PluginPlan, input: &TestInput, phase: Phase) -> Plan {
        let gateway = &mut plan.gateway;
        (gateway.refusing, gateway.stopped) = (None, false);
        gateway.required.clear();
        (gateway.limits.session_concurrent_calls, gateway.limits.session_total_calls) = (None, None);
        let mut role = plugin.role;
        if let Some(size) = self.measured {
            let runtime = &mut gateway.runtime;
            runtime.max_concurrent_executions = runtime.max_concurrent_executions.max(size);
            plan.plugins.iter_mut().for_each(|plugin| plugin.pool_size = Some(size));
            role = if role == Role::Observe { Role::Transform } else { role };
        }
        let key = ObjectKey::new(plugin.key.namespace.clone(), NAME);
        plan.upstreams = vec![upstream(&input.server, &key.namespace)];
        plan.chains = vec![ChainPlan {
            key,
            revision: String::new(),
            phase,
            order: 0,
            owner: true,
            methods: vec![Method::CallTool],
            default_methods: false,
            upstreams: UpstreamScope { all: true, ..UpstreamScope::default() },
            include: Vec::new(),
            exclude: Vec::new(),
            notifications_pass: true,
            entries: vec![EntryPlan { role, ..self.entry(plugin, input) }],
            refusing: None,
        }];
        plan
    }

    fn entry(&self, plugin: &PluginPlan, input: &TestInput) -> EntryPlan {
        EntryPlan {
            plugin: plugin.key.clone(),
            place: 0,
            enabled: true,
            timeout_ms: self.timeout_ms,
            max_tokens: input.max_tokens,
            order: None,
            config: self.config.clone(),
            view: if input.is_json { View::Json } else { View::Auto },
            when: None,
            written_policy: None,
            // The output must show the failure itself, not its effect on a call.
            failure_policy: FailurePolicy::LastGood,
            mode: Mode::Enforce,
            role: plugin.role,
            unavailable: None,
        }
    }
}

fn upstream(name: &str, namespace: &str) -> UpstreamPlan {
    UpstreamPlan {
        key: ObjectKey::new(namespace, name),
        labels: Default::default(),
        enabled: true,
        // The transport is External, because the gateway probes such upstreams and lists their tools. `TestUpstream`
        // never opens a connection.
        transport: TransportPlan::at("http://stage.invalid/mcp"),
        era: EraSetting::Auto,
        http_transport: Default::default(),
        connect_timeout_ms: 5000,
        call_timeout_ms: None,
        extend_on_progress: true,
        retry: RetryPlan::default(),
        pinning: None,
        idle_timeout_ms: 60_000,
        health: HealthPlan { period_seconds: 3600, timeout_ms: 5000, retry_backoff_ms: Vec::new(), auto_recover: true },
        argument_validation: ArgumentValidation::Enforce,
        concurrent_calls: None,
        max_response_size: None,
        include: Vec::new(),
        exclude: Vec::new(),
        overrides: Vec::new(),
        for_pipelines: false,
        enable: None,
        refusing: None,
    }
}
