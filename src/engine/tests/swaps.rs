//! Replacing plans while calls run, and the health of upstreams.

use super::*;
use crate::domain::health::{ConnectionState, ShortConnections};
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::plan::{NamedValue, Plan, TransportPlan, ValueSource};
use crate::domain::reason::Reason;
use crate::domain::report::SecretState;
use crate::domain::upstream::Probed;

#[tokio::test]
async fn a_call_ends_on_the_plan_that_it_began_with() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Transform, "put old")]);
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| sent(&engine).len() == 1).await;
    inputs.plugins[0].source = SourceInput::Inline("put new".into());
    know(&mut inputs, "put new", "index.js", &["default"]);
    apply(&engine, &inputs).await;
    engine.server.go.notify_one();
    assert_eq!(running.await.unwrap()["result"]["content"][0]["text"], "old");
    *engine.server.holds.lock().unwrap() = false;
    assert_eq!(call(&engine, "{}").await["result"]["content"][0]["text"], "new");
}

#[tokio::test]
async fn an_upstream_is_kept_until_no_call_runs_on_it() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Transform, "wait")]);
    let engine = start(&inputs).await;
    let open = || engine.server.open.lock().unwrap().iter().map(|t| t.plan.idle_timeout_ms).collect::<Vec<_>>();
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| engine.plugins.ran.lock().unwrap().len() == 1).await;
    let before = open();
    inputs.upstreams[0].plan.idle_timeout_ms = 7;
    apply(&engine, &inputs).await;
    assert_eq!(open(), [&before[..], &[7]].concat(), "the call is still on its way to the old one");
    engine.plugins.go.notify_one();
    let answer = running.await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    until(|| open() == [7]).await;
}

#[tokio::test]
async fn a_noisy_server_is_asked_once_a_second_and_clients_hear_of_no_more_than_it_says() {
    let engine = start(&bare()).await;
    *engine.server.tools.lock().unwrap() = r#"[{"name":"read"},{"name":"write"}]"#.into();
    let mut lists = engine.in_force.lists();
    let mut heard = 0;
    while engine.server.probed.lock().unwrap().len() < 4 {
        *engine.server.event.lock().unwrap() = Some(UpstreamEvent::ListChanged(up(), ItemKind::Tool));
        engine.server.told.notify_one();
        tokio::time::sleep(Duration::from_millis(2)).await;
        if lists.has_changed().unwrap() {
            lists.mark_unchanged();
            heard += 1;
            // The same tools in another order are no change, but the server says that there was one.
            *engine.server.tools.lock().unwrap() = r#"[{"name":"write"},{"name":"read"}]"#.into();
        }
    }
    assert!((1..=4).contains(&heard), "{heard}");
    let probed = engine.server.probed.lock().unwrap().clone();
    for pair in probed.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(990), "{:?}", pair[1] - pair[0]);
    }
}

#[tokio::test]
async fn tools_that_are_left_out_are_problems_of_their_upstream() {
    let engine = start(&bare()).await;
    let mut listed = crate::domain::item::Listed::default();
    listed.leave_out(ItemKind::Tool, "\"t\"", "its inputSchema is missing");
    let reservation = engine.budget().reservation(crate::domain::budget::Category::List);
    engine.catalogues.set_list(&up(), ItemKind::Tool, listed, reservation).unwrap();
    engine.in_force.relist();
    let said: Vec<_> = engine.in_force.snapshot().problems().iter().map(ToString::to_string).collect();
    let expected = r#"MCPUpstream default/up: tool "t" is left out: its inputSchema is missing (InvalidTool)"#;
    assert_eq!(said, [expected]);
    let is_error = engine.in_force.snapshot().problems().iter().any(crate::domain::problem::Problem::is_error);
    assert!(!is_error, "nothing that is written is wrong, so that `hawsepipe wait` exits with 0");
}

#[tokio::test]
async fn a_tool_of_an_upstream_that_is_down_is_no_unknown_tool() {
    let (inputs, server) = probing(0, &[], false);
    *server.probes.lock().unwrap() = [Err(UpstreamError::Start("nocmd: not found".into()))].into();
    let engine = start_with(&inputs, server).await;
    let answer = call(&engine, "{}").await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let message = "upstream up is down, so that its tools are not known: cannot be started: nocmd: not found";
    assert_eq!(answer["error"]["message"], message);
    assert_eq!(last_call(&engine).reason.as_deref(), Some("UpstreamDown"));
}

#[tokio::test]
async fn a_call_that_takes_too_long_names_the_field_that_says_so() {
    let engine = start(&bare()).await;
    *engine.server.answers.lock().unwrap() = Err(UpstreamError::Timeout(Duration::from_secs(30)));
    let answer = call(&engine, "{}").await;
    let message =
        "upstream up: no answer within 30s; spec.timeouts.callMs of MCPUpstream default/up sets how long it may take";
    assert_eq!(answer["error"]["message"], message);
}

fn probing(failures: usize, backoff: &[u32], auto_recover: bool) -> (Inputs, Server) {
    let mut inputs = bare();
    inputs.upstreams[0].plan.health.retry_backoff_ms = backoff.to_vec();
    inputs.upstreams[0].plan.health.auto_recover = auto_recover;
    let server = Server::default();
    let refused = || UpstreamError::Connect("refused".into());
    *server.probes.lock().unwrap() = (0..failures).map(|_| Err(refused())).collect();
    (inputs, server)
}

fn up() -> ObjectKey {
    ObjectKey::new("default", "up")
}

#[tokio::test]
async fn retries_wait_as_long_as_they_should() {
    let (inputs, server) = probing(3, &[20, 40, 60], false);
    let engine = start_with(&inputs, server).await;
    // Calls that fail meanwhile do not shorten the wait.
    (0..10).for_each(|_| engine.probes.kick(&up()));
    until(|| engine.server.probed.lock().unwrap().len() >= 4).await;
    let probed = engine.server.probed.lock().unwrap().clone();
    for (pair, wait) in probed.windows(2).zip([20, 40, 60]) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(wait), "{:?}", pair[1] - pair[0]);
    }
    until(|| engine.catalogues.upstream(&up()).health.failures == 0).await;
    assert!(engine.catalogues.in_routing(&up()));
}

#[tokio::test]
async fn one_that_left_routing_is_refused_until_its_spec_changes() {
    let (mut inputs, server) = probing(2, &[1], false);
    let engine = start_with(&inputs, server).await;
    until(|| !engine.catalogues.in_routing(&up())).await;
    engine.probes.kick(&up());
    assert_eq!(engine.server.probed.lock().unwrap().len(), 2);
    inputs.upstreams[0].plan.health.timeout_ms = 2;
    apply(&engine, &inputs).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
    assert!(call(&engine, "{}").await["result"].is_object());
}

#[tokio::test]
async fn a_new_word_brings_back_one_that_left_routing() {
    let (mut inputs, server) = probing(4, &[1], false);
    let engine = start_with(&inputs, server).await;
    until(|| !engine.catalogues.in_routing(&up())).await;
    assert_eq!(engine.catalogues.upstream(&up()).auto_disabled_at, Some(1_700_000_000_000));
    // The count of failures starts again at zero, so the upstream leaves routing only after all retries have failed.
    let enable = async |word: &str, inputs: &mut Inputs| {
        inputs.upstreams[0].plan.enable = Some(word.into());
        apply(&engine, inputs).await;
    };
    enable("one", &mut inputs).await;
    until(|| engine.server.probed.lock().unwrap().len() == 4).await;
    until(|| engine.catalogues.upstream(&up()).health.failures == 2).await;
    assert!(!engine.catalogues.in_routing(&up()));
    assert_eq!(engine.views.report().upstreams[0].enable.as_deref(), Some("one"));
    // Applying the same value again has no effect.
    apply(&engine, &inputs).await;
    assert_eq!(engine.server.probed.lock().unwrap().len(), 4);
    enable("two", &mut inputs).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
    assert!(call(&engine, "{}").await["result"].is_object());
    let report = &engine.views.report().upstreams[0];
    assert_eq!((report.failures, report.auto_disabled, report.auto_disabled_at.as_ref()), (0, false, None));
}

#[tokio::test]
async fn one_that_recovers_is_called_again() {
    let (inputs, server) = probing(3, &[5], true);
    let engine = start_with(&inputs, server).await;
    until(|| engine.catalogues.upstream(&up()).last_ping_at.is_some()).await;
    until(|| engine.in_force.snapshot().routes.all().len() == 1).await;
    assert!(call(&engine, "{}").await["result"].is_object());
}

fn told(engine: &Gateway, event: UpstreamEvent) {
    *engine.server.event.lock().unwrap() = Some(event);
    engine.server.told.notify_one();
}

#[tokio::test]
async fn a_server_that_is_busy_is_neither_failing_nor_asked_for_its_list() {
    let engine = start(&bare()).await;
    *engine.server.probes.lock().unwrap() = [Ok(Probed::Busy), Ok(Probed::Busy)].into();
    *engine.server.tools.lock().unwrap() = r#"[{"name":"write"}]"#.into();
    for _ in 0..2 {
        told(&engine, UpstreamEvent::ListChanged(up(), ItemKind::Tool));
        let before = engine.server.probed.lock().unwrap().len();
        until(|| engine.server.probed.lock().unwrap().len() > before).await;
        until(|| engine.catalogues.upstream(&up()).health.state == ConnectionState::Connected).await;
        assert_eq!(engine.catalogues.upstream(&up()).health.failures, 0);
        assert_eq!(engine.in_force.snapshot().routes.all()[0].public.as_deref(), Some("up__read"));
    }
    engine.probes.kick(&up());
    until(|| engine.in_force.snapshot().routes.all()[0].public.as_deref() == Some("up__write")).await;
}

#[tokio::test]
async fn an_upstream_that_is_forgotten_is_not_known_again_by_what_it_still_tells() {
    let mut inputs = bare();
    let engine = start(&inputs).await;
    inputs.upstreams.clear();
    apply(&engine, &inputs).await;
    for event in [UpstreamEvent::ListChanged(up(), ItemKind::Tool), UpstreamEvent::Disconnected(up())] {
        told(&engine, event);
        until(|| engine.server.event.lock().unwrap().is_none()).await;
    }
    let mut listed = crate::domain::item::Listed::default();
    listed
        .items
        .push(crate::domain::item::Item::parse(ItemKind::Tool, &raw(r#"{"name":"read","inputSchema":{}}"#)).unwrap());
    let reservation = engine.budget().reservation(crate::domain::budget::Category::List);
    assert_eq!(
        engine.catalogues.set_list(&up(), ItemKind::Tool, listed, reservation),
        Ok(false),
        "a probe that ends late"
    );
    let known = engine.catalogues.upstream(&up());
    assert!(!known.stale && known.catalogue.is_none() && !engine.catalogues.knows(&up()));
    assert!(engine.catalogues.seen.borrow().of(&up()).is_none());
}

#[tokio::test]
async fn an_edit_of_an_upstream_announces_no_list_where_it_changes_none() {
    let mut inputs = bare();
    let engine = start(&inputs).await;
    let mut lists = engine.in_force.lists();
    lists.mark_unchanged();
    inputs.upstreams[0].plan.health.timeout_ms = 2;
    apply(&engine, &inputs).await;
    until(|| engine.catalogues.upstream(&up()).tried).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    assert!(!lists.has_changed().unwrap());
}

#[tokio::test]
async fn calls_of_one_out_of_routing_are_told_when_to_try_again() {
    let engine = start(&bare()).await;
    engine.catalogues.update(&up(), |state| state.health.auto_disabled = Some(Duration::ZERO));
    let value = call(&engine, "{}").await;
    assert_eq!(value["error"]["data"], json!({"reason": "AutoDisabled", "retryAfterMs": 1000}));
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn a_changed_list_is_read_again_and_announced() {
    let engine = start(&bare()).await;
    let mut lists = engine.in_force.lists();
    lists.mark_unchanged();
    *engine.server.tools.lock().unwrap() = r#"[{"name":"read"},{"name":"write"}]"#.into();
    *engine.server.event.lock().unwrap() = Some(UpstreamEvent::ListChanged(up(), ItemKind::Tool));
    engine.server.told.notify_one();
    tokio::time::timeout(Duration::from_secs(5), lists.changed()).await.unwrap().unwrap();
    let page = engine.list(Endpoint::All, ItemKind::Tool, None, None).await.unwrap();
    assert!(page.items.get().contains("up__write"), "{}", page.items);
}

#[tokio::test]
async fn an_upstream_that_is_tried_is_connecting_and_one_that_is_probed_again_stays_connected() {
    let server = Server::default();
    server.starting.store(true, Ordering::Relaxed);
    let engine = engine(server);
    apply(&engine, &bare()).await;
    let state = || engine.catalogues.upstream(&up()).health.state;
    for (probes, expected) in [(1, ConnectionState::Connecting), (2, ConnectionState::Connected)] {
        until(|| engine.server.probed.lock().unwrap().len() == probes).await;
        assert_eq!(state(), expected);
        engine.server.started.notify_one();
        until(|| state() == ConnectionState::Connected).await;
        engine.probes.kick(&up());
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_connect_within_the_time_of_a_call_is_in_error() {
    let mut inputs = bare();
    inputs.upstreams[0].plan.call_timeout_ms = Some(50);
    let server = Server::default();
    server.starting.store(true, Ordering::Relaxed);
    let engine = engine(server);
    apply(&engine, &inputs).await;
    let state = || engine.views.upstreams()[0].connection_state;
    until(|| state() == ConnectionState::Connecting).await;
    until(|| state() == ConnectionState::Error).await;
    assert_eq!(engine.views.report().upstreams[0].connection_state, ConnectionState::Error);
    // It may still come up.
    engine.server.started.notify_one();
    until(|| state() == ConnectionState::Connected).await;
}

#[tokio::test]
async fn an_upstream_whose_connection_keeps_ending_is_a_problem_and_is_not_connected_at_once() {
    let engine = start(&bare()).await;
    for _ in 0..20 {
        told(&engine, UpstreamEvent::Disconnected(up()));
        until(|| engine.server.event.lock().unwrap().is_none()).await;
    }
    let is_told =
        || engine.in_force.snapshot().problems().iter().any(|problem| problem.reason == Reason::ConnectionEnds);
    until(is_told).await;
    let known = engine.catalogues.upstream(&up());
    assert!(known.short.wait() >= Duration::from_secs(60));
    assert!(known.health.in_routing(), "calls connect at once");
    assert!(call(&engine, "{}").await["result"].is_object());
    // What the server tells over the connection that a call made is looked at soon.
    *engine.server.tools.lock().unwrap() = r#"[{"name":"write"}]"#.into();
    until(|| {
        told(&engine, UpstreamEvent::ListChanged(up(), ItemKind::Tool));
        engine.in_force.snapshot().routes.all()[0].public.as_deref() == Some("up__write")
    })
    .await;
    // One that ends after it has lasted is no fault.
    let now = engine.clock.monotonic();
    engine.catalogues.update(&up(), |state| state.short.made(now));
    engine.clock.pass(ShortConnections::LASTS);
    told(&engine, UpstreamEvent::Disconnected(up()));
    until(|| !is_told()).await;
}

/// The keys of the only Secret that there are.
struct Keys(&'static [&'static str]);

impl Secrets for Keys {
    fn secret(&self, _: &ObjectKey, key: &str) -> Result<SecretText, NoSecret> {
        if self.0.contains(&key) { Ok(SecretText::new(key)) } else { Err(NoSecret::NotFound) }
    }

    fn environment(&self, _: &str) -> Option<SecretText> {
        None
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "each step follows from the one before")]
async fn an_edit_that_needs_a_secret_which_is_not_there_yet_leaves_the_connection_as_it_was() {
    let plan = |command: &str, keys: &[&str]| {
        let mut inputs = bare();
        let value = |key: &&str| NamedValue {
            name: (*key).into(),
            value: ValueSource::Secret { secret: ObjectKey::new("default", "s"), key: (*key).into(), optional: false },
        };
        let (env, command) = (keys.iter().map(value).collect(), command.to_owned());
        let (args, cwd, per_session) = (Vec::new(), "/".into(), false);
        inputs.upstreams[0].plan.idle_timeout_ms = u32::try_from(keys.len()).unwrap();
        let (mut plan, _) = compile(&inputs, None);
        plan.upstreams[0].transport = TransportPlan::Process { command, args, cwd, env, per_session };
        plan
    };
    let engine = engine(Server::default());
    // The program that is run, the values that it gets, the idle timeout, and whether calls are refused.
    let apply = async |plan: Plan, there: &'static [&'static str]| {
        engine.applier.apply(plan, Vec::new(), &Keys(there)).await;
        let snapshot = engine.in_force.snapshot();
        let up = &snapshot.linked.upstreams[0];
        let TransportPlan::Process { command, .. } = &up.target.plan.transport else { panic!() };
        let values = up.target.values.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ");
        let missing = snapshot.linked.secrets.iter().filter(|secret| secret.state != SecretState::Found).count();
        let told = snapshot.problems().iter().filter(|problem| problem.is_error()).count();
        (format!("{command} {values}"), up.target.plan.idle_timeout_ms, up.refusing.is_some(), (missing, told))
    };
    let of = |running: &str, idle, refuses, found| (running.to_owned(), idle, refuses, found);
    // Without a former form there is nothing to go on with.
    assert_eq!(apply(plan("one", &["a"]), &[]).await, of("one ", 1, true, (1, 1)));
    assert_eq!(apply(plan("one", &["a"]), &["a"]).await, of("one a", 1, false, (0, 0)));
    // What needs no Secret is in force at once.
    assert_eq!(apply(plan("two", &["a", "b"]), &["a"]).await, of("one a", 2, false, (1, 1)));
    assert_eq!(apply(plan("two", &["a", "b"]), &["a"]).await, of("one a", 2, false, (1, 1)));
    assert_eq!(apply(plan("two", &["a", "b"]), &["a", "b"]).await, of("two a b", 2, false, (0, 0)));
    // A value that is taken away is missed at once.
    assert_eq!(apply(plan("two", &["a", "b"]), &["a"]).await, of("two a", 2, true, (1, 1)));
    assert_eq!(apply(plan("two", &["a"]), &["a"]).await, of("two a", 1, false, (0, 0)));
    assert_eq!(
        apply(plan("three", &["b"]), &["c"]).await,
        of("three ", 1, true, (1, 1)),
        "the former one has no value either"
    );
    // One that is disabled or refused is so at once.
    apply(plan("two", &["a"]), &["a"]).await;
    let mut disabled = plan("three", &["b"]);
    disabled.upstreams[0].enabled = false;
    assert_eq!(apply(disabled, &["a"]).await.0, "three ");
}
