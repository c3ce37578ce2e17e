//! What the API server was asked, from its audit log.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;

use super::{Cluster, unique, until};

/// One line for each request: when it was answered, or when its watch began.
pub const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
{"level": "Metadata", "verbs": ["watch"], "omitStages": ["RequestReceived", "ResponseComplete"]},
{"level": "Metadata", "omitStages": ["RequestReceived", "ResponseStarted"]}]}
"#;

/// A place in the audit log.
#[derive(Clone, Copy)]
pub struct Mark(u64);

/// A request that was answered.
#[derive(Debug)]
pub struct Request {
    /// Who asked: `system:serviceaccount:NAMESPACE:NAME`, `admin`.
    pub user: String,
    /// The `User-Agent` header.
    pub agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// `plugins.hawsepipe.dev`, `pods/status`; or the path, where it is no resource.
    pub resource: String,
    /// Empty where there is none.
    pub namespace: String,
    /// Empty where there is none.
    pub name: String,
    /// The label selector as the URI has it; empty if there is none.
    pub selector: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// When it came, in ms since 1970.
    pub received: i64,
}

impl Cluster {
    /// The place behind every request that has been answered by now.
    pub async fn mark(&self) -> Mark {
        // One of ours, and the place behind it.
        let agent = unique("mark");
        let mut config = self.config().await;
        config.headers.push((http::header::USER_AGENT, agent.parse().unwrap()));
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        // The log of a run is long: what is in it already is not read.
        let before = std::fs::metadata(self.plane().audit_log()).unwrap().len();
        client.request_text(request).await.unwrap();
        until("a request in the audit log", async || {
            let (log, mut end) = (self.read_audit_log(Mark(before)), before);
            let mut lines = log.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
            let found = lines.any(|line| {
                end += line.len() as u64;
                String::from_utf8_lossy(line).contains(&agent)
            });
            found.then_some(Mark(end))
        })
        .await
    }

    /// The requests behind `mark` that have been answered by now.
    pub async fn requests_since(&self, mark: Mark) -> Vec<Request> {
        self.requests_with(mark, "").await
    }

    /// Those of them that were forbidden.
    pub async fn forbidden_since(&self, mark: Mark) -> Vec<Request> {
        let mut requests = self.requests_with(mark, "\"code\":403").await;
        requests.retain(|request| request.code == 403);
        requests
    }

    /// The requests whose lines have this word.
    async fn requests_with(&self, mark: Mark, word: &str) -> Vec<Request> {
        let Mark(end) = self.mark().await;
        let log = self.read_audit_log(mark);
        let length = usize::try_from(end - mark.0).unwrap();
        let log = std::str::from_utf8(&log[..length]).unwrap();
        let lines = log.lines().filter(|line| line.contains(word));
        lines.map(|line| serde_json::from_str::<Line>(line).unwrap().into()).collect()
    }

    /// The last line may be half written.
    fn read_audit_log(&self, Mark(from): Mark) -> Vec<u8> {
        let mut log = std::fs::File::open(self.plane().audit_log()).unwrap();
        log.seek(SeekFrom::Start(from)).unwrap();
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// How many there are of each, as in `patch plugins.hawsepipe.dev/status`: shows at once what differs.
pub fn counts<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for Request { verb, resource, .. } in requests {
        *counts.entry(format!("{verb} {resource}")).or_default() += 1;
    }
    counts
}

/// A line of the log, as far as we read it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    user: User,
    #[serde(default)]
    user_agent: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    #[serde(default)]
    object_ref: Option<Object>,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: MicroTime,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    code: u16,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: String,
    name: String,
}

impl From<Line> for Request {
    fn from(line: Line) -> Self {
        let object = line.object_ref.unwrap_or_default();
        let mut resource = object.resource;
        if resource.is_empty() {
            resource = line.uri.split('?').next().unwrap_or_default().to_owned();
        }
        for (before, part) in [('.', &object.api_group), ('/', &object.subresource)] {
            if !part.is_empty() {
                resource.push(before);
                resource.push_str(part);
            }
        }
        let mut parameters = line.uri.split(['?', '&']).skip(1);
        let selector = parameters.find_map(|parameter| parameter.strip_prefix("labelSelector="));
        let selector = selector.unwrap_or_default().to_owned();
        Self {
            user: line.user.username,
            agent: line.user_agent,
            verb: line.verb,
            resource,
            namespace: object.namespace,
            name: object.name,
            selector,
            code: line.response_status.code,
            received: line.request_received_timestamp.0.as_millisecond(),
        }
    }
}
