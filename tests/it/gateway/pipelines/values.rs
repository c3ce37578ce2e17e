//! The values that steps store: whose they are, their versions, and that they last (`ctx.store`).

use std::collections::HashMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::history::{Postgres, out, sqlite};
use super::super::http::Http;
use super::super::identity::issuer::{KeyServer, SigningKey};
use super::super::manifests::{gateway, object, plugin, yaml};
use super::super::parts::until;

/// A step that does with its store what its arguments say.
const KEEPER: &str = "export async function execute({ arguments: { op, key, value, ifVersion, ttlSeconds, times } }, { store, context, conversation }) {
  const shown = (found) => (found?.value instanceof Uint8Array ? { ...found, value: [...found.value], bytes: true } : found);
  const count = async () => {
    for (let done = 0; done < times;) {
      const found = await store.get(key);
      try {
        await store.set(key, (found?.value ?? 0) + 1, { ifVersion: found?.version ?? 0 });
        done += 1;
      } catch (error) {
        if (error.reason !== 'StoreConflict') throw error;
      }
    }
    return times;
  };
  const does = {
    get: async () => shown(await store.get(key)),
    set: () => store.set(key, value, { ifVersion, ttlSeconds }),
    bytes: () => store.set(key, new Uint8Array(value)),
    fill: () => store.set(key, 'x'.repeat(value)),
    delete: () => store.delete(key),
    list: () => store.list(key, { limit: value }),
    count,
  };
  const more = { durable: store.durable, chat: context.chatId, conversation: conversation.id };
  try {
    return { output: { result: (await does[op]()) ?? null, ...more } };
  } catch (error) {
    return { output: { reason: error.reason, message: error.message, ...more } };
  }
}";

/// A pipeline with this scope, under the name of its tool.
fn keeper(tool: &str, store: &Value) -> Value {
    let agents = json!([{"name": "main", "type": "custom", "plugin": {"name": "keeper"}}]);
    let schema = json!({"type": "object"});
    let spec = json!({
        "tool": {"name": tool, "description": "A test.", "inputSchema": schema},
        "declared": {"startAgent": "main", "agents": agents},
        "store": store,
    });
    object("ToolPipeline", tool, &spec)
}

/// The three scopes, with the names of their tools.
fn keepers(writers: &str) -> Vec<Value> {
    vec![
        plugin("keeper", KEEPER, &json!({"type": "phase", "limits": {"storeSize": "1Mi"}})),
        keeper("conversation", &json!({"scope": "Conversation"})),
        keeper("principal", &json!({"scope": "Principal"})),
        keeper("shared", &json!({"scope": "Shared", "writers": writers})),
    ]
}

/// Two issuers, who both have an Ann.
struct Issuers {
    servers: [KeyServer; 2],
    keys: [SigningKey; 2],
}

const NAMES: [&str; 2] = ["https://one.test", "https://two.test"];

impl Issuers {
    fn start() -> Self {
        let keys = [SigningKey::new("one"), SigningKey::new("two")];
        Self { servers: [KeyServer::start(&[&keys[0]]), KeyServer::start(&[&keys[1]])], keys }
    }

    fn gateway(&self, history: &Value) -> Value {
        let jwt: Vec<_> = (0..2)
            .map(|it| json!({"issuer": NAMES[it], "audiences": [super::super::identity::AUDIENCE], "jwks": {"uri": self.servers[it].url}}))
            .collect();
        let authentication = json!({"jwt": jwt, "resourceMetadata": {"resource": super::super::identity::AUDIENCE}});
        let spec = json!({"authentication": authentication, "history": history});
        object("MCPGateway", "main", &spec)
    }

    fn caller(&self, issuer: usize, subject: &str) -> Http {
        Http::bearing(&self.keys[issuer].token(&json!({"iss": NAMES[issuer], "sub": subject})))
    }
}

/// Calls a keeper in either era, in a conversation if there is one. Returns the output, and the conversation.
async fn call(
    url: &str,
    http: &Http,
    (tool, is_legacy): (&str, bool),
    arguments: &Value,
    conversation: Option<&str>,
) -> Value {
    let meta = conversation.map_or(json!({}), |id| json!({"hawsepipe.dev/run": {"conversation": id}}));
    let answer = if is_legacy {
        let session = http.initialize(url).await;
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        session
            .send(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}).to_string())
            .await
            .json()
    } else {
        http.call(url, tool, arguments, &meta).await
    };
    let result = &answer["result"];
    let run = &result["_meta"]["hawsepipe.dev/run"];
    let mut output = result["structuredContent"].clone();
    assert!(output.is_object(), "{tool} {arguments}: {answer}");
    assert_eq!((&output["conversation"], &output["chat"]), (&run["conversation"], &run["conversation"]), "{answer}");
    assert_eq!(run["revision"].as_str().unwrap().len(), 12, "{answer}");
    output["error"] = run["error"].clone();
    output
}

async fn until_loaded(gateway: &Gateway, http: &Http) {
    let loaded = async || {
        let answer = http.call(&gateway.url(), "shared", &json!({"op": "get", "key": "x"}), &json!({})).await;
        answer["result"]["structuredContent"]["durable"].is_boolean()
    };
    until("the step is loaded", loaded).await;
}

/// Of the shared values, only the callers that `writers` names change any, and all read them.
async fn shares_by_writers(url: &str, callers: &[Http]) {
    let set = json!({"op": "set", "key": "all", "value": {"for": "all"}});
    for (index, http) in callers.iter().enumerate() {
        let written = call(url, http, ("shared", false), &set, None).await;
        match index {
            0 => assert_eq!(written["result"], 1, "{written}"),
            _ => assert_eq!(written["reason"], "StoreReadOnly", "{index}: {written}"),
        }
        for tool in ["conversation", "principal", "shared"] {
            let found = call(url, http, (tool, true), &json!({"op": "get", "key": "all"}), None).await;
            assert_eq!(found["result"]["value"], json!({"for": "all"}), "{tool} {index}: {found}");
        }
        let gone = call(url, http, ("shared", false), &json!({"op": "delete", "key": "all"}), None).await;
        assert_eq!(gone["reason"].as_str(), (index > 0).then_some("StoreReadOnly"), "{gone}");
        if index == 0 {
            call(url, http, ("shared", false), &set, None).await;
        }
    }
}

/// No caller finds what another one has stored, whoever it is, in either era, whatever conversation it names.
async fn keeps_callers_apart(issuers: &Issuers, gateway: &Gateway) {
    let callers = [(0, "ann"), (0, "bob"), (1, "ann")].map(|(issuer, subject)| issuers.caller(issuer, subject));
    until_loaded(gateway, &callers[0]).await;
    let url = gateway.url();
    for tool in ["conversation", "principal"] {
        let mut own: HashMap<(usize, bool), String> = HashMap::new();
        for (index, http) in callers.iter().enumerate() {
            for is_legacy in [false, true] {
                let value = format!("canary of {index}");
                let set = json!({"op": "set", "key": format!("k{is_legacy}"), "value": value});
                let stored = call(&url, http, (tool, is_legacy), &set, None).await;
                assert_eq!(stored["result"], 1, "{tool} {index} {is_legacy}: {stored}");
                own.insert((index, is_legacy), stored["conversation"].as_str().unwrap().to_owned());
            }
        }
        for (index, http) in callers.iter().enumerate() {
            for ((of, is_legacy), conversation) in &own {
                for op in ["get", "list"] {
                    let key = if op == "get" { format!("k{is_legacy}") } else { String::new() };
                    let asked = json!({"op": op, "key": key});
                    let found = call(&url, http, (tool, *is_legacy), &asked, Some(conversation)).await;
                    let text = found["result"].to_string();
                    for other in (0..callers.len()).filter(|other| *other != index) {
                        assert!(!text.contains(&format!("canary of {other}")), "{tool} {op} {index} of {of}: {found}");
                    }
                    // Its own values are there: in this conversation, or in all.
                    let finds = *of == index || (tool == "principal");
                    let is_empty = found["result"].is_null() || found["result"] == json!([]);
                    assert_eq!(is_empty, !finds, "{tool} {op} {index} of {of}: {found}");
                }
            }
        }
        let elsewhere = call(&url, &callers[0], (tool, false), &json!({"op": "get", "key": "kfalse"}), None).await;
        assert_eq!(elsewhere["result"].is_null(), tool == "conversation", "{tool}: {elsewhere}");
    }
    shares_by_writers(&url, &callers).await;
}

/// Versions, ends, bytes, limits and lists, of values of one caller.
async fn keeps_versions(gateway: &Gateway, http: &Http) {
    let url = gateway.url();
    let does = async |arguments: Value| call(&url, http, ("principal", false), &arguments, None).await;
    for (arguments, result, reason) in [
        (json!({"op": "set", "key": "v", "value": 1, "ifVersion": 0}), json!(1), None),
        (json!({"op": "set", "key": "v", "value": 2, "ifVersion": 0}), json!(null), Some("StoreConflict")),
        (json!({"op": "set", "key": "v", "value": 2, "ifVersion": 1}), json!(2), None),
        (json!({"op": "get", "key": "v"}), json!({"value": 2, "version": 2}), None),
        (json!({"op": "bytes", "key": "b", "value": [0, 255]}), json!(1), None),
        (json!({"op": "get", "key": "b"}), json!({"value": [0, 255], "version": 1, "bytes": true}), None),
        (json!({"op": "set", "key": "p/1", "value": null}), json!(1), None),
        (json!({"op": "set", "key": "p/2", "value": "é"}), json!(1), None),
        (json!({"op": "list", "key": "p/", "value": 1}), json!([{"key": "p/1", "version": 1, "size": 4}]), None),
        (json!({"op": "delete", "key": "p/1"}), json!(true), None),
        (json!({"op": "delete", "key": "p/1"}), json!(false), None),
        (json!({"op": "get", "key": "p/1"}), json!(null), None),
        (json!({"op": "fill", "key": "f", "value": 1_048_570}), json!(null), Some("StoreFull")),
        (json!({"op": "fill", "key": "f", "value": 1_040_000}), json!(1), None),
        (json!({"op": "fill", "key": "f", "value": 2_000_000}), json!(null), Some("TooLarge")),
        (json!({"op": "set", "key": "g", "value": "y".repeat(20_000)}), json!(null), Some("StoreFull")),
        (json!({"op": "fill", "key": "f", "value": 10}), json!(2), None),
        (json!({"op": "set", "key": "t", "value": 1, "ttlSeconds": 1}), json!(1), None),
    ] {
        let done = does(arguments.clone()).await;
        let (found, why) = (done["result"].clone(), done["reason"].as_str());
        assert_eq!((found, why), (result, reason), "{arguments}: {done}");
    }
    until("the value has ended", async || does(json!({"op": "get", "key": "t"})).await["result"].is_null()).await;
    assert_eq!(does(json!({"op": "set", "key": "t", "value": 1, "ifVersion": 0})).await["result"], 1, "it is new");
}

/// A folder with the keepers and their gateway, and the arguments of the gateway.
fn folder_of(issuers: &Issuers, history: &Value) -> Folder {
    let folder = Folder::new();
    let mut objects = keepers("identity.subject == 'ann' && identity.issuer == 'https://one.test'");
    objects.push(issuers.gateway(history));
    folder.write("all.yaml", &yaml(&objects));
    folder
}

#[tokio::test]
async fn spec_store_scope_and_writers_in_memory() {
    let issuers = Issuers::start();
    let folder = folder_of(&issuers, &json!({}));
    let gateway = Gateway::start(&folder);
    keeps_callers_apart(&issuers, &gateway).await;
    let ann = issuers.caller(0, "ann");
    keeps_versions(&gateway, &ann).await;
    let found = call(&gateway.url(), &ann, ("principal", false), &json!({"op": "get", "key": "v"}), None).await;
    assert_eq!(found["durable"], false);
    let shown = out(&run(&["plugins", "store", "keeper", "--principal", "ann", "--admin", &gateway.admin()]));
    assert!(shown.contains("Principal") && shown.contains("Conversation") && !shown.contains("bob"), "{shown}");
    let erased =
        out(&run(&["plugins", "store", "keeper", "--principal", "ann", "--delete", "--admin", &gateway.admin()]));
    assert!(erased.starts_with("erased: "), "{erased}");
    let found = call(&gateway.url(), &ann, ("principal", false), &json!({"op": "get", "key": "v"}), None).await;
    assert_eq!(found["result"], Value::Null);
}

/// Stored values and versions are there after the gateway was killed.
async fn survives_a_kill(issuers: &Issuers, folder: &Folder, more: &[&str]) {
    let gateway = Gateway::start_with(folder, more);
    keeps_callers_apart(issuers, &gateway).await;
    let ann = issuers.caller(0, "ann");
    keeps_versions(&gateway, &ann).await;
    gateway.signal(Signal::KILL);
    drop(gateway);
    let gateway = Gateway::start_with(folder, more);
    until_loaded(&gateway, &ann).await;
    let found = call(&gateway.url(), &ann, ("principal", false), &json!({"op": "get", "key": "v"}), None).await;
    assert_eq!((&found["result"], &found["durable"]), (&json!({"value": 2, "version": 2}), &json!(true)));
    let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    call(&gateway.url(), &ann, ("principal", false), &json!({"op": "set", "key": "v", "value": 3}), None).await;
    let metrics = metrics + &Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    assert!(metrics.contains("hawsepipe_plugin_store_bytes{plugin=\"default/keeper\"} "), "{metrics}");
}

#[tokio::test]
async fn spec_store_lasts_in_sqlite() {
    let issuers = Issuers::start();
    let folder = folder_of(&issuers, &json!({"store": {"embedded": {}}}));
    survives_a_kill(&issuers, &folder, &[]).await;
    let files = std::fs::read_dir(folder.state()).unwrap().filter_map(|file| Some(file.ok()?.path()));
    let file = files.into_iter().find(|file| file.extension().is_some_and(|it| it == "db")).unwrap();
    let wrong = "SELECT COUNT(*) FROM plugin_partitions p WHERE bytes <> (SELECT COALESCE(SUM(size + LENGTH(key) + 64), 0) FROM plugin_store s \
                 WHERE s.plugin = p.plugin AND s.tenant = p.tenant)";
    assert_eq!(sqlite(file.to_str().unwrap(), &[wrong]), "0", "the sizes of partitions are those of their values");
}

#[tokio::test]
async fn spec_store_lasts_in_postgres_and_replicas_count_each_version() {
    let (issuers, mut postgres) = (Issuers::start(), Postgres::start());
    let history = json!({"store": {"postgres": {"urlSecretRef": {"name": "db", "key": "url"}}}});
    let folder = folder_of(&issuers, &history);
    let secrets = Folder::new();
    std::fs::create_dir(secrets.path().join("db")).unwrap();
    secrets.write("db/url", &format!("{}\n", postgres.url));
    let more = ["--secrets-dir", secrets.path().to_str().unwrap()];
    survives_a_kill(&issuers, &folder, &more).await;

    let other = folder_of(&issuers, &history);
    let gateways = [Gateway::start_with(&folder, &more), Gateway::start_with(&other, &more)];
    let ann = issuers.caller(0, "ann");
    for gateway in &gateways {
        until_loaded(gateway, &ann).await;
    }
    let count = json!({"op": "count", "key": "n", "times": 500});
    let urls = gateways.each_ref().map(Gateway::url);
    let counting = urls.each_ref().map(|url| call(url, &ann, ("principal", false), &count, None));
    for counted in futures_util::future::join_all(counting).await {
        assert_eq!(counted["result"], 500, "{counted}");
    }
    let found = call(&urls[1], &ann, ("principal", false), &json!({"op": "get", "key": "n"}), None).await;
    assert_eq!(found["result"], json!({"value": 1000, "version": 1000}));
    postgres.does("stop");
    let found = call(&urls[0], &ann, ("principal", false), &json!({"op": "get", "key": "n"}), None).await;
    assert_eq!(found["reason"], "StoreUnavailable", "{found}");
}

#[tokio::test]
async fn a_client_without_identity_has_only_conversations_that_the_gateway_began() {
    let folder = Folder::new();
    let mut objects = keepers("true");
    objects.push(gateway(&json!({})));
    folder.write("all.yaml", &yaml(&objects));
    let gateway = Gateway::start(&folder);
    let (url, http) = (gateway.url(), Http::new());
    until_loaded(&gateway, &http).await;
    let set = json!({"op": "set", "key": "k", "value": 1});
    for tool in ["conversation", "principal"] {
        let stored = call(&url, &http, (tool, false), &set, None).await;
        let id = stored["conversation"].as_str().unwrap().to_owned();
        let get = json!({"op": "get", "key": "k"});
        assert_eq!(call(&url, &http, (tool, false), &get, Some(&id)).await["result"]["value"], 1);
        assert_eq!(call(&url, &http, (tool, false), &get, None).await["result"], Value::Null, "{tool}");
        for (named, is_legacy) in [("0b0f2b57-6d16-4dd0-9a0c-3ac5b5f3c0de", false), (&id, true), ("x", false)] {
            let meta = json!({"hawsepipe.dev/run": {"conversation": named}});
            let answer = if is_legacy {
                let session = http.initialize(&url).await;
                let params = json!({"name": tool, "arguments": get, "_meta": meta});
                let message = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
                session.send(message.to_string()).await.json()
            } else {
                http.call(&url, tool, &get, &meta).await
            };
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.starts_with("InvalidArguments: _meta hawsepipe.dev/run: "), "{named}: {answer}");
        }
    }
}

#[test]
fn spec_store_needs_writers_where_all_callers_read() {
    for (store, wanted) in [
        (json!({"scope": "Shared"}), "store: scope Shared needs writers: who may change what all callers read"),
        (json!({"writers": "true"}), "store: writers is for scope Shared"),
        (json!({"scope": "Shared", "writers": "identity.nobody"}), "spec.store.writers"),
        (json!({"scope": "Shared", "writers": "'admins' in identity.groups"}), "0 errors"),
    ] {
        let folder = Folder::new();
        let step = plugin("keeper", KEEPER, &json!({"type": "phase"}));
        folder.write("all.yaml", &yaml(&[gateway(&json!({})), step, keeper("keep", &store)]));
        let output = run(&["validate", folder.path().to_str().unwrap()]);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(wanted), "{store}: {wanted}\n{said}");
    }
}
