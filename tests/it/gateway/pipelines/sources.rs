//! The table `sources`, on both databases.

use serde_json::json;

use super::super::history::{Postgres, sqlite};
use super::*;

/// Finds a source of each kind, one of them with what databases cannot hold. Credentials in a URL are refused.
const FIND: &str = "export const execute = async (state, { sources }) => {
  const reason = await sources.add({ url: 'https://ann:hunter22hunter22@example.com/a' }).catch((error) => error.reason);
  await sources.add({ url: 'https://example.com/a', title: 'A' });
  await sources.add({ title: 'nul\\u0000', sourceType: 'vector_search', sourceMetadata: { relevanceScore: 0.5 } });
  await sources.add({ title: 'C', sourceType: 'custom', sourceMetadata: { nul: '\\u0000' } });
  return { output: { reason } };
};";

async fn stored(store: &str, mut sql: impl FnMut(&str) -> String) {
    for payloads in ["None", "Redacted"] {
        let gateway = format!("authentication: {{anonymous: {{}}}}, history: {{payloads: {payloads}}}");
        let folder = Folder::with(&(pipeline("find", FIND, "") + &object("MCPGateway", "main", &gateway)));
        let gateway = Gateway::start_with(&folder, &["--store", store]);
        until("the tool is listed", async || tools(&gateway).await.contains(&"find".to_owned())).await;
        let answer = call(&gateway, "find", &json!({"prompt": ""})).await;
        assert_eq!(answer["structuredContent"]["reason"], "InvalidSource", "{answer}");
        assert_eq!(answer["_meta"]["hawsepipe.dev/sources"].as_array().map(Vec::len), Some(3), "{answer}");
        assert!(gateway.end().1);
        let expected = if payloads == "None" { "0" } else { "3" };
        assert_eq!(sql("SELECT count(*) FROM sources"), expected, "{payloads}");
    }
    let kinds = "SELECT number, source_type, coalesce(CAST(relevance_score AS TEXT), ''), coalesce(domain, '') FROM sources ORDER BY number";
    assert_eq!(sql(kinds), "1|web||example.com,2|vector_search|0.5|,3|custom||");
    assert_eq!(sql("SELECT url FROM sources WHERE number = 1"), "https://example.com/a");
    let run = "SELECT count(*) FROM sources JOIN calls ON calls.id = run_id AND calls.id = sources.request_id";
    assert_eq!(sql(run), "3");
}

#[tokio::test]
async fn sources_of_a_run_are_rows_in_sqlite() {
    let folder = Folder::new();
    let store = folder.path().join("history.db");
    let store = store.to_str().unwrap();
    stored(store, |statement| sqlite(store, &[statement])).await;
}

#[tokio::test]
async fn sources_of_a_run_are_rows_in_postgres() {
    let mut postgres = Postgres::start();
    let url = postgres.url.clone();
    stored(&url, |statement| postgres.does(statement)).await;
}
