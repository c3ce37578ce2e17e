//! The routes of the admin API, and its OpenAPI document. Each route adds itself to both, and its parameters, bodies and answers
//! are those of its handler's type, so the document cannot differ from the code.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{Path, Request};
use axum::handler::Handler;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::admin_query::{AdminError, AdminJson, AdminQuery, AdminState, ErrorBody};
use super::audited_change::{Target, audited};
use crate::domain::digest::sha256_hex;
use crate::domain::quoted::Quoted;
use crate::engine::Engine;

/// Routes of the admin API, and their description.
pub(super) struct Api {
    router: Router<Arc<Engine>>,
    paths: Map<String, Value>,
    schemas: Schemas,
}

/// Generates the schemas of what the gateway sends and accepts.
pub(super) struct Schemas {
    answers: SchemaGenerator,
    requests: SchemaGenerator,
}

impl Api {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let inline = settings.clone().with(|settings| settings.inline_subschemas = true);
        let schemas = Schemas { answers: settings.for_serialize().into(), requests: inline.into() };
        Self { router: Router::new(), paths: Map::new(), schemas }
    }

    /// Adds a route that reads.
    pub(super) fn get<H, A, T>(self, path: &str, summary: &str, handler: H) -> Self
    where
        H: Handler<T, Arc<Engine>> + Documented<A>,
        T: 'static,
    {
        self.add::<H, A>(path, "get", summary, get(handler), |route| route)
    }

    /// Adds a route that changes something. The audit trail has a row of this action for each request.
    pub(super) fn post<H, A, T>(self, path: &str, action: &'static str, summary: &str, handler: H) -> Self
    where
        H: Handler<T, Arc<Engine>> + Documented<A>,
        T: 'static,
    {
        let audit = from_fn(move |request: Request, next: Next| audited(action, request, next));
        self.add::<H, A>(path, "post", summary, post(handler), |route| route.layer(audit))
    }

    fn add<H: Documented<A>, A>(
        mut self,
        path: &str,
        method: &str,
        summary: &str,
        route: MethodRouter<Arc<Engine>>,
        around: impl FnOnce(MethodRouter<Arc<Engine>>) -> MethodRouter<Arc<Engine>>,
    ) -> Self {
        let mut operation = json!({"summary": summary, "parameters": [], "responses": {}});
        H::describe(&mut operation, &mut self.schemas);
        // Probes and scrapers add parameters of their own to the other paths.
        let is_checked = path.starts_with("/api/");
        let names: Arc<[String]> = query_names(&operation).collect();
        let route = route.layer(from_fn(move |request: Request, next: Next| {
            let refused = is_checked.then(|| unknown_parameter(request.uri().query(), &names)).flatten();
            async move {
                match refused {
                    Some(refused) => refused.into_response(),
                    None => next.run(request).await,
                }
            }
        }));
        self.paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
        self.router = self.router.route(path, around(route));
        self
    }

    pub(super) fn into_router(self) -> Router<Arc<Engine>> {
        self.router
    }

    /// Returns the OpenAPI document.
    pub(super) fn document(mut self) -> Value {
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Admin API of a Hawsepipe gateway",
                "description": "It is served on the admin port, to programs on the same machine or in the same pod.",
                "version": "v1",
            },
            "paths": self.paths,
            "components": {"schemas": self.schemas.answers.take_definitions(true)},
        });
        describe_json(&mut document);
        document
    }
}

/// Returns the names of the parameters that the query of an operation can have.
fn query_names(operation: &Value) -> impl Iterator<Item = String> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let of_query = parameters.filter(|parameter| parameter["in"] == "query");
    of_query.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned))
}

/// Returns the error about the first parameter of a query that is not one of `names`.
fn unknown_parameter(query: Option<&str>, names: &[String]) -> Option<AdminError> {
    let mut asked = form_urlencoded::parse(query?.as_bytes());
    let (unknown, _) = asked.find(|(name, _)| !names.iter().any(|known| known == name))?;
    let known = if names.is_empty() { "no parameters".to_owned() } else { names.join(", ") };
    let message = format!("the query of the URL: {} is unknown here; allowed: {known}", Quoted(&unknown, 60));
    Some(AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", message))
}

/// Lets descriptions, which are comments of the code, speak of JSON.
fn describe_json(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                match member {
                    Value::String(text) if name == "description" => {
                        *text =
                            text.replace("[`", "`").replace("`]", "`").replace('\n', " ").replace("`None`", "absent");
                    }
                    member => describe_json(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(describe_json),
        _ => {}
    }
}

/// A handler whose arguments `A` and whose result are described.
pub(super) trait Documented<A> {
    fn describe(operation: &mut Value, schemas: &mut Schemas);
}

/// An argument of a handler.
pub(super) trait Argument {
    fn describe(operation: &mut Value, schemas: &mut Schemas);
}

/// The result of a handler.
pub(super) trait Answer {
    fn describe(operation: &mut Value, schemas: &mut Schemas);
}

macro_rules! documented {
    ($($argument:ident),*) => {
        impl<F, R, $($argument),*> Documented<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R,
            R: Future,
            R::Output: Answer,
            $($argument: Argument,)*
        {
            fn describe(operation: &mut Value, schemas: &mut Schemas) {
                $($argument::describe(operation, schemas);)*
                R::Output::describe(operation, schemas);
            }
        }
    };
}

documented!();
documented!(A);
documented!(A, B);
documented!(A, B, C);

impl Argument for AdminState {
    fn describe(_: &mut Value, _: &mut Schemas) {}
}

impl Argument for HeaderMap {
    fn describe(_: &mut Value, _: &mut Schemas) {}
}

/// The only parameter in a path is an id.
impl Argument for Path<String> {
    fn describe(operation: &mut Value, _: &mut Schemas) {
        let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
        push(&mut operation["parameters"], id);
    }
}

/// Other paths with two parameters need names of their own.
impl Argument for Path<(String, String)> {
    fn describe(operation: &mut Value, _: &mut Schemas) {
        for name in ["type", "id"] {
            let parameter = json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
            push(&mut operation["parameters"], parameter);
        }
    }
}

impl<T: JsonSchema> Argument for AdminQuery<T> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        let schema = schemas.requests.root_schema_for::<T>().to_value();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut property = property.as_object().cloned().unwrap_or_default();
            let description = property.remove("description");
            // A parameter is absent, never null.
            property.retain(|_, value| !value.is_null());
            if let Some(Value::Array(kinds)) = property.get_mut("type") {
                kinds.retain(|kind| kind != "null");
            }
            let parameter = json!({"name": name, "in": "query", "description": description, "schema": property});
            push(&mut operation["parameters"], parameter);
        }
    }
}

impl<T: JsonSchema> Argument for AdminJson<T> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        let mut schema = schemas.requests.root_schema_for::<T>();
        schema.remove("title");
        operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
    }
}

fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    }
}

fn answer(operation: &mut Value, status: &str, description: &str, kind: &str, schema: Value) {
    operation["responses"][status] = json!({"description": description, "content": {kind: {"schema": schema}}});
}

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        let schema = schemas.answers.subschema_for::<T>().to_value();
        answer(operation, "200", "The answer", "application/json", schema);
    }
}

impl<T: Answer> Answer for Result<T, AdminError> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        T::describe(operation, schemas);
        let schema = schemas.answers.subschema_for::<ErrorBody>().to_value();
        answer(operation, "default", "Why there is no answer", "application/json", schema);
    }
}

/// An object that the request created, and what the audit trail calls it.
pub(super) struct Created<T>(pub(super) T, pub(super) String);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Extension(Target(self.1)), Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> Answer for Created<T> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        let schema = schemas.answers.subschema_for::<T>().to_value();
        answer(operation, "201", "It is created", "application/json", schema);
    }
}

/// The answer to a request that changed an object, and what the audit trail calls it.
pub(super) struct Changed<T>(pub(super) T, pub(super) String);

impl<T: Serialize> IntoResponse for Changed<T> {
    fn into_response(self) -> Response {
        (Extension(Target(self.1)), Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> Answer for Changed<T> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        Json::<T>::describe(operation, schemas);
    }
}

/// An answer with an ETag, a digest of its body, so that frequent requests get short answers while nothing changes.
pub(super) struct Tagged<T>(Response, PhantomData<T>);

impl<T: Serialize> Tagged<T> {
    pub(super) fn new(value: &T, headers: &HeaderMap) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        let tag = format!("\"{:.32}\"", sha256_hex(&body));
        let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
        let response = if known.split(',').any(|known| known.trim() == tag) {
            (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response()
        } else {
            ([(header::ETAG, tag), (header::CONTENT_TYPE, "application/json".to_owned())], body).into_response()
        };
        Self(response, PhantomData)
    }
}

impl<T> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<T: JsonSchema> Answer for Tagged<T> {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        Json::<T>::describe(operation, schemas);
        operation["responses"]["304"] = json!({"description": "It is the answer of the ETag in If-None-Match"});
    }
}

/// Plain text.
impl Answer for &'static str {
    fn describe(operation: &mut Value, _: &mut Schemas) {
        answer(operation, "200", "The answer", "text/plain", json!({"type": "string"}));
    }
}

/// Plain text of several statuses.
impl Answer for (StatusCode, String) {
    fn describe(operation: &mut Value, _: &mut Schemas) {
        answer(operation, "default", "The answer, by its status", "text/plain", json!({"type": "string"}));
    }
}

/// Plain text with its type.
impl Answer for ([(HeaderName, &'static str); 1], String) {
    fn describe(operation: &mut Value, schemas: &mut Schemas) {
        <&'static str>::describe(operation, schemas);
    }
}
