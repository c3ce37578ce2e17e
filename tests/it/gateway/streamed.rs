//! Modules that get large responses in pieces.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, plugin, raw_server, yaml};
use super::parts::tools_of;

/// Says in which way it got the text, and how. Nothing in the text may get by it.
const CODE: &str = "
export const onResponse = ({ rawContent }) => ({ text: `whole: ${rawContent.length}`, continue: true });
export async function* onResponseStream(chunks, ctx) {
  const { mode } = ctx.config;
  let pieces = 0, units = 0, longest = 0;
  if (mode === 'nothing') return;
  if (mode === 'number') yield 1;
  for await (const chunk of chunks) {
    pieces += 1;
    units += chunk.length;
    longest = Math.max(longest, chunk.length);
    if (mode === 'whole') yield chunk.toUpperCase();
    if (mode === 'throws' && pieces === 3) throw new TypeError('not this');
  }
  if (mode !== 'whole') yield [ctx.input.toolName, ctx.input.rawContent, pieces, units, longest].join();
  if (mode === 'denies') return { continue: false, error: 'too odd' };
}";
const MIB: usize = 1 << 20;

/// The result of the tool `huge`, and its text.
async fn huge(gateway: &Gateway, size: usize) -> (Value, String) {
    let result =
        Http::new().call(&gateway.url(), "up__huge", &json!({"size": size}), &json!({})).await["result"].take();
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (result, text)
}

async fn started(mode: &str) -> (Folder, Gateway) {
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("pieces", CODE, &json!({"role": "Guard", "timeoutMs": 20000, "config": {"mode": mode}})),
        chain("answers", "Response", "huge", &[json!({"name": "pieces"})]),
    ]));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    (folder, gateway)
}

#[tokio::test]
async fn on_response_stream_gets_what_is_over_1_mib() {
    let (_folder, gateway) = started("count").await;
    assert_eq!(huge(&gateway, MIB).await.1, format!("whole: {MIB}"));
    assert_eq!(huge(&gateway, MIB + 1).await.1, format!("up/huge,,17,{},65536", MIB + 1));
}

#[tokio::test]
async fn its_pieces_are_the_whole_text() {
    let (_folder, gateway) = started("whole").await;
    let (_, text) = huge(&gateway, 3 * MIB + 5).await;
    assert!(text.len() == 3 * MIB + 5 && text.bytes().all(|byte| byte == b'X'), "{}", text.len());
}

#[tokio::test]
async fn a_stream_that_fails_lets_nothing_out() {
    for mode in ["throws", "number", "denies"] {
        let (_folder, gateway) = started(mode).await;
        let (result, text) = huge(&gateway, 2 * MIB).await;
        assert_eq!(result["isError"], true, "{mode}: {text}");
        assert_eq!(result["_meta"]["hawsepipe.dev/failed"]["reason"], "PluginError", "{mode}: {text}");
        assert!(!result.to_string().to_lowercase().contains("xxx"), "{mode}");
    }
    let (_folder, gateway) = started("nothing").await;
    assert_eq!(huge(&gateway, 2 * MIB).await.1, "");
}
