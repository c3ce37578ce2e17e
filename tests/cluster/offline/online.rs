//! What an API server says of an object, asked without creating it.

use std::collections::BTreeSet;

use hawsepipe::api::canonical;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::response::StatusCause;
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use super::faults::{Kind, Verdict};

/// That it stopped, which the faults say that made it stop.
const NOT_ASKED: &str = "some validation rules were not checked";
/// A number that does not fit into its format is told of a second time, of the object as a whole.
const OTHER_FORMAT: &str = "Checked value must be of type ";

/// An API server, and a namespace to ask in.
pub struct Server {
    client: Client,
    namespace: String,
    rules: BTreeSet<String>,
}

impl Server {
    pub async fn new(client: Client, namespace: String) -> Self {
        let rules = rules(&client).await;
        Self { client, namespace, rules }
    }

    /// The messages of all rules.
    pub fn rules(&self) -> &BTreeSet<String> {
        &self.rules
    }

    /// What it would say to a new object.
    pub async fn create(&self, object: &Value) -> Verdict {
        let asked = self.ask(http::Request::post(self.path(object, "?dryRun=All&")), object).await;
        self.verdict(asked)
    }

    /// What it would say to `after`, where `before` is.
    pub async fn update(&self, before: &Value, after: &Value) -> Verdict {
        let created = self.ask(http::Request::post(self.path(before, "?")), before).await;
        let name = before["metadata"]["name"].as_str().unwrap();
        let mut after = after.clone();
        after["metadata"]["resourceVersion"] = created.unwrap()["metadata"]["resourceVersion"].clone();
        let asked = self.ask(http::Request::put(self.path(&after, &format!("/{name}?dryRun=All&"))), &after).await;
        self.ask(http::Request::delete(self.path(before, &format!("/{name}?"))), &json!({})).await.unwrap();
        self.verdict(asked)
    }

    fn path(&self, object: &Value, rest: &str) -> String {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        format!("/apis/hawsepipe.dev/v1alpha1/namespaces/{}/{kind}s{rest}fieldValidation=Strict", self.namespace)
    }

    async fn ask(&self, request: http::request::Builder, object: &Value) -> kube::Result<Value> {
        // As kubectl sends it.
        let mut object = canonical(object);
        // It stands in the namespace that is asked in.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        let request = request.header("content-type", "application/json").body(object.to_string().into_bytes());
        self.client.request(request.unwrap()).await
    }

    fn add(&self, cause: &StatusCause, verdict: &mut Verdict) {
        let StatusCause { field, message, reason } = cause;
        // What has a path with a dot before it is said of `scale`, and of the field itself too.
        if message.contains(NOT_ASKED) || field.starts_with('.') {
            return;
        }
        if let Some(rule) = self.rules.iter().find(|rule| message.ends_with(*rule)) {
            verdict.broken.insert(rule.clone());
        } else if let Some((_, field)) = message.split_once(OTHER_FORMAT).and_then(|(_, rest)| rest.split_once(" in "))
        {
            verdict.faults.insert((field.to_owned(), Kind::Value));
        } else if let Some(kind) = kind(reason) {
            verdict.faults.insert((field.clone(), kind));
        } else {
            verdict.other.push(format!("{reason} {field}: {message}"));
        }
    }

    fn verdict(&self, answer: kube::Result<Value>) -> Verdict {
        let mut verdict = Verdict::default();
        let status = match answer {
            Ok(_) => return verdict,
            Err(Error::Api(status)) => status,
            Err(error) => panic!("{error}"),
        };
        if let Some((_, fields)) = status.message.split_once("strict decoding error: ") {
            verdict.stopped = true;
            verdict.faults = fields.split(", ").map(|field| (unknown(field), Kind::Unknown)).collect();
            return verdict;
        }
        for cause in status.details.iter().flat_map(|details| &details.causes) {
            self.add(cause, &mut verdict);
        }
        if verdict.is_accepted() {
            verdict.other.push(status.message.clone());
        }
        verdict
    }
}

/// The field of `unknown field "spec.a"`.
fn unknown(text: &str) -> String {
    let field = text.strip_prefix("unknown field ").unwrap_or_else(|| panic!("{text}"));
    field.trim_matches('"').to_owned()
}

fn kind(reason: &str) -> Option<Kind> {
    Some(match reason {
        "FieldValueRequired" => Kind::Required,
        "FieldValueTypeInvalid" => Kind::Type,
        "FieldValueNotSupported" => Kind::Word,
        "FieldValueTooLong" | "FieldValueTooMany" => Kind::TooMany,
        "FieldValueInvalid" => Kind::Value,
        "FieldValueDuplicate" => Kind::Duplicate,
        _ => return None,
    })
}

/// The messages of the definitions' rules; of one that an expression makes, its end, which is constant.
async fn rules(client: &Client) -> BTreeSet<String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = definitions.list(&ListParams::default()).await.unwrap();
    let mut found = BTreeSet::new();
    messages(&serde_json::to_value(definitions.items).unwrap(), &mut found);
    found
}

fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            let own = members.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            let end = |rule: &Value| {
                Some(rule["messageExpression"].as_str()?.strip_suffix('\'')?.rsplit_once('\'')?.1.to_owned())
            };
            found.extend(own.filter_map(|rule| rule["message"].as_str().map(str::to_owned).or_else(|| end(rule))));
            members.values().for_each(|member| messages(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        _ => {}
    }
}
