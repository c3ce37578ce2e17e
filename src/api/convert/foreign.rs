//! The servers of MCP clients that write them in a form of their own, which is not read here.

use serde_json::{Map, Value};

/// Members at the top that have the servers of a client, by name.
const OF_CLIENTS: [(&str, &str); 2] = [("context_servers", "Zed"), ("mcp_servers", "Codex")];

/// Returns the member of a document that has servers in another form, and what to do; `None` if there is none.
pub(super) fn servers(top: &Map<String, Value>) -> Option<(String, String)> {
    let named = OF_CLIENTS.into_iter().find(|(member, _)| top.get(*member).is_some_and(Value::is_object));
    let found = named.map(|(member, client)| (member.to_owned(), format!("the servers of {client}")));
    let found = found.or_else(|| {
        let nested = top.get("mcp").and_then(Value::as_object);
        let lists = [("servers", top.get("servers")), ("mcp.servers", nested.and_then(|it| it.get("servers")))];
        let list = lists.into_iter().chain([("mcpServers", top.get("mcpServers"))]);
        let list = list.into_iter().find(|(_, list)| list.and_then(Value::as_array).is_some_and(|it| are_servers(it)));
        list.map(|(field, _)| (field.to_owned(), "a list of servers".to_owned())).or_else(|| {
            let is_by_name = nested.is_some_and(|it| !it.contains_key("servers") && it.values().any(is_server));
            is_by_name.then(|| ("mcp".to_owned(), "the servers of opencode".to_owned()))
        })
    });
    found.map(|(field, what)| {
        let form =
            r#""mcpServers": {"NAME": {"command": "...", "args": [...]}} or {"url": "..."} in the place of them"#;
        (field, format!("{what}, which are not read in this form: write {form}"))
    })
}

fn are_servers(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(is_server)
}

/// Whether a value is a server of an MCP client.
fn is_server(value: &Value) -> bool {
    ["command", "url"].into_iter().any(|member| value.get(member).is_some())
        && ["dockerConfig", "sseConfig"].into_iter().all(|member| value.get(member).is_none())
}
