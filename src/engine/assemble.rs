//! Puts the parts of an engine together, from the ground up.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::access::gate::Gate;
use super::apply::Applier;
use super::audit_trail::AuditTrail;
use super::calls::Calls;
use super::catalogue::Catalogues;
use super::catalogue::probes::Probes;
use super::chains::Chains;
use super::chains::ends::CallEnds;
use super::chains::ready::PluginLoads;
use super::invocations::Invocations;
use super::lists::Lists;
use super::notices::Subscribers;
use super::pipelines::Pipelines;
use super::plan::in_force::InForce;
use super::request::InnerCalls;
use super::servers::Servers;
use super::views::Views;
use super::{Engine, Ports};
use crate::domain::budget::ByteBudget;
use crate::domain::ports::{Authenticate, Clock, Records, RunPlugin};
use crate::domain::values::KeepValues;
use crate::telemetry::metrics::Metrics;

/// The parts that others are made of.
struct Base {
    plugins: Arc<dyn RunPlugin>,
    servers: Arc<Servers>,
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    budget: Arc<ByteBudget>,
    probes: Arc<Probes>,
    subscribers: Arc<Subscribers>,
    catalogues: Arc<Catalogues>,
    in_force: Arc<InForce>,
    gate: Arc<Gate>,
    audit: Arc<AuditTrail>,
    ends: CallEnds,
    loads: PluginLoads,
}

impl Base {
    fn new(ports: &Ports, metrics: Metrics, budget: Arc<ByteBudget>) -> Self {
        let Ports { plugins, upstreams, records, audit, clock, .. } = ports;
        let (metrics, probes, catalogues) = (Arc::new(metrics), Arc::<Probes>::default(), Arc::<Catalogues>::default());
        let in_force = Arc::new(InForce::new(Arc::clone(&catalogues)));
        Self {
            plugins: Arc::clone(plugins),
            servers: Arc::new(Servers::new(Arc::clone(upstreams))),
            records: Arc::clone(records),
            clock: Arc::clone(clock),
            budget,
            subscribers: Arc::default(),
            gate: Arc::new(Gate::new(&in_force, &metrics, clock)),
            audit: Arc::new(AuditTrail {
                port: audit.clone(),
                in_force: Arc::clone(&in_force),
                clock: Arc::clone(clock),
            }),
            ends: CallEnds {
                metrics: Arc::clone(&metrics),
                clock: Arc::clone(clock),
                catalogues: Arc::clone(&catalogues),
                probes: Arc::clone(&probes),
            },
            loads: PluginLoads {
                plugins: Arc::clone(plugins),
                in_force: Arc::clone(&in_force),
                metrics: Arc::clone(&metrics),
            },
            metrics,
            probes,
            catalogues,
            in_force,
        }
    }

    fn chains(&self, inner: Weak<dyn InnerCalls>) -> Arc<Chains> {
        Arc::new(Chains {
            plugins: Arc::clone(&self.plugins),
            records: Arc::clone(&self.records),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
            budget: Arc::clone(&self.budget),
            in_force: Arc::clone(&self.in_force),
            gate: Arc::clone(&self.gate),
            ends: self.ends.clone(),
            loads: self.loads.clone(),
            inner,
        })
    }

    fn pipelines(&self, ports: &Ports, chains: &Arc<Chains>) -> Arc<Pipelines> {
        Arc::new(Pipelines {
            models: Arc::clone(&ports.models),
            values: Arc::clone(&ports.values),
            chains: Arc::clone(chains),
            gate: Arc::clone(&self.gate),
            in_force: Arc::clone(&self.in_force),
            catalogues: Arc::clone(&self.catalogues),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
        })
    }

    fn lists(&self, chains: &Arc<Chains>, pipelines: &Arc<Pipelines>) -> Arc<Lists> {
        Arc::new(Lists {
            servers: Arc::clone(&self.servers),
            plugins: Arc::clone(&self.plugins),
            chains: Arc::clone(chains),
            pipelines: Arc::clone(pipelines),
            gate: Arc::clone(&self.gate),
            in_force: Arc::clone(&self.in_force),
            catalogues: Arc::clone(&self.catalogues),
            probes: Arc::clone(&self.probes),
            subscribers: Arc::clone(&self.subscribers),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
            budget: Arc::clone(&self.budget),
        })
    }

    fn calls(&self, ports: &Ports) -> Arc<Calls> {
        Arc::new_cyclic(|calls: &Weak<Calls>| {
            let chains = self.chains(calls.clone());
            let pipelines = self.pipelines(ports, &chains);
            Calls {
                servers: Arc::clone(&self.servers),
                ends: self.ends.clone(),
                lists: self.lists(&chains, &pipelines),
                chains,
                pipelines,
                gate: Arc::clone(&self.gate),
                audit: Arc::clone(&self.audit),
                in_force: Arc::clone(&self.in_force),
                catalogues: Arc::clone(&self.catalogues),
                records: Arc::clone(&self.records),
                subscribers: Arc::clone(&self.subscribers),
                clock: Arc::clone(&self.clock),
                metrics: Arc::clone(&self.metrics),
                budget: Arc::clone(&self.budget),
            }
        })
    }

    fn invocations(&self, calls: &Arc<Calls>) -> Arc<Invocations> {
        Arc::new(Invocations {
            calls: Arc::clone(calls),
            lists: Arc::clone(&calls.lists),
            gate: Arc::clone(&self.gate),
            in_force: Arc::clone(&self.in_force),
            clock: Arc::clone(&self.clock),
            budget: Arc::clone(&self.budget),
        })
    }

    fn applier(&self, lists: &Arc<Lists>) -> Arc<Applier> {
        Arc::new(Applier {
            plugins: Arc::clone(&self.plugins),
            servers: Arc::clone(&self.servers),
            lists: Arc::clone(lists),
            audit: Arc::clone(&self.audit),
            gate: Arc::clone(&self.gate),
            in_force: Arc::clone(&self.in_force),
            catalogues: Arc::clone(&self.catalogues),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
            checks: Arc::default(),
            applying: tokio::sync::Mutex::default(),
            held: Default::default(),
            forms: Default::default(),
            forms_changed: watch::Sender::new(0),
            following: Default::default(),
        })
    }

    fn views(
        &self,
        credentials: &Arc<dyn Authenticate>,
        values: Arc<dyn KeepValues>,
        lists: &Arc<Lists>,
    ) -> Arc<Views> {
        Arc::new(Views {
            servers: Arc::clone(&self.servers),
            plugins: Arc::clone(&self.plugins),
            records: Arc::clone(&self.records),
            credentials: Arc::clone(credentials),
            values,
            audit: Arc::clone(&self.audit),
            loads: self.loads.clone(),
            lists: Arc::clone(lists),
            gate: Arc::clone(&self.gate),
            in_force: Arc::clone(&self.in_force),
            catalogues: Arc::clone(&self.catalogues),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
            budget: Arc::clone(&self.budget),
            endpoints: Default::default(),
            readings: Default::default(),
            pending: Default::default(),
            was_ready: Default::default(),
        })
    }
}

impl Engine {
    /// Creates an engine without a plan. Every call is refused until the first plan is applied.
    pub fn new(ports: Ports, metrics: Metrics, budget: Arc<ByteBudget>) -> Arc<Self> {
        let base = Base::new(&ports, metrics, budget);
        let calls = base.calls(&ports);
        let Ports { values, history, credentials, .. } = ports;
        Arc::new(Self {
            history,
            invocations: base.invocations(&calls),
            applier: base.applier(&calls.lists),
            views: base.views(&credentials, values, &calls.lists),
            credentials,
            plugins: base.plugins,
            servers: base.servers,
            clock: base.clock,
            metrics: base.metrics,
            budget: base.budget,
            probes: base.probes,
            catalogues: base.catalogues,
            in_force: base.in_force,
            gate: base.gate,
            audit: base.audit,
            loads: base.loads,
            chains: Arc::clone(&calls.chains),
            pipelines: Arc::clone(&calls.pipelines),
            lists: Arc::clone(&calls.lists),
            calls,
        })
    }
}
