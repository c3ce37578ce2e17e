//! `hawsepipe audit unfinished`: the calls of the audit trail that began and have no end.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::formats::ListFormat;
use super::output::{column, print_list, text, time, wide};
use crate::store::{AuditReader, StoreTarget, StoredAuditRow};

/// Prints the calls, those of a chain in the order in which they began.
pub async fn unfinished(store: StoreTarget, output: ListFormat) -> anyhow::Result<ExitCode> {
    let (mut reader, mut calls) = (AuditReader::new(store)?, Unfinished::default());
    loop {
        let rows = reader.next().await?;
        if rows.is_empty() {
            break;
        }
        rows.iter().for_each(|row| calls.take(row));
    }
    let items: Vec<Value> = calls.0.into_values().collect();
    let columns = [
        column("BEGAN", |call| time(&call["at"])),
        column("REQUEST", |call| text(&call["requestId"])),
        column("PRINCIPAL", |call| text(&call["principal"])),
        column("METHOD", |call| text(&call["method"])),
        column("TOOL", |call| format!("{}/{}", text(&call["upstream"]), text(&call["tool"]))),
        column("GATEWAY", |call| text(&call["chain"])),
        wide("IDENTITY", |call| {
            [&call["user"]["method"], &call["user"]["issuer"]].map(text).join(" ").trim().to_owned()
        }),
        wide("ROW", |call| text(&call["sequence"])),
    ];
    print_list(output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

/// The calls whose end was not read yet, by the chain and the number of the row of their beginning.
#[derive(Default)]
struct Unfinished(BTreeMap<(String, u64), Value>, BTreeMap<(String, String), u64>);

impl Unfinished {
    /// Takes the next row of a chain. Both rows of a call are in the chain of its gateway process.
    fn take(&mut self, row: &StoredAuditRow) {
        let mut document: Value = serde_json::from_str(&row.document).unwrap_or_default();
        let Some(id) = document["requestId"].as_str() else { return };
        let call = (row.chain.clone(), id.to_owned());
        if document["kind"] == "begin" {
            document["chain"] = json!(row.chain);
            document["sequence"] = json!(row.sequence);
            self.1.insert(call, row.sequence);
            self.0.insert((row.chain.clone(), row.sequence), document);
        } else if document["kind"] == "end"
            && let Some(began) = self.1.remove(&call)
        {
            self.0.remove(&(row.chain.clone(), began));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_listed_until_its_chain_has_its_end() {
        let mut calls = Unfinished::default();
        let rows = [
            ("a", "begin", "1"),
            ("a", "begin", "2"),
            ("a", "end", "1"),
            ("a", "end", "denied"),
            ("a", "admin", "2"),
            ("b", "begin", "1"),
            ("b", "end", "2"),
        ];
        for (number, (chain, kind, id)) in rows.into_iter().enumerate() {
            let document = json!({"kind": kind, "requestId": id}).to_string();
            let row = StoredAuditRow {
                chain: chain.to_owned(),
                sequence: number as u64 + 1,
                previous: String::new(),
                hash: String::new(),
                document,
                stored_at: 0,
            };
            calls.take(&row);
        }
        let left: Vec<_> = calls.0.into_values().map(|call| json!([call["chain"], call["requestId"]])).collect();
        assert_eq!(left, [json!(["a", "2"]), json!(["b", "1"])]);
    }
}
