//! The descriptor that a worker is spoken with is the plugin's too. What it writes there concerns its own calls only.

use hawsepipe::domain::reason::Reason;

use crate::node::{Rig, module};

/// A plugin that writes a frame of its own before it answers: a JSON text of kind, header length, body length and header.
const FORGER: &str = "import { writeSync } from 'node:fs';
export default ({ rawContent }) => {
    if (rawContent) {
        const [kind, headerLength, bodyLength, header] = JSON.parse(rawContent);
        const json = Buffer.from(JSON.stringify(header));
        const head = Buffer.alloc(8);
        head.writeUInt32LE(((kind << 24) | (headerLength ?? json.length)) >>> 0, 0);
        head.writeUInt32LE(bodyLength, 4);
        writeSync(3, Buffer.concat([head, json]));
    }
    return { text: 'own', continue: true };
};";

const RESULT: u32 = 2;
const READY: u32 = 4;
const FAILURE: u32 = 7;

async fn forging(frame: &str) -> Result<String, Reason> {
    let plugin = module(FORGER).link();
    let rig = Rig::with(&[&plugin]).await;
    let answer = rig.run(&plugin, frame).await.output.map(|output| output.text).map_err(|failure| failure.reason);
    assert_eq!(rig.answer(&plugin, "").await.text, "own", "the next call after {frame}");
    answer
}

#[tokio::test]
async fn a_frame_whose_call_is_guessed_is_nobodys_answer() {
    for id in [0, 1, 2, 1_000_000] {
        let forged = format!(r#"[{RESULT}, null, 0, {{"id": {id}, "text": "forged", "continue": true}}]"#);
        assert_eq!(forging(&forged).await, Ok("own".into()), "{id}");
        let forged = format!(r#"[{FAILURE}, null, 0, {{"id": {id}, "reason": "PluginError", "message": "m"}}]"#);
        assert_eq!(forging(&forged).await, Ok("own".into()), "{id}");
    }
    assert_eq!(forging(&format!(r#"[{READY}, null, 0, {{"version": 9}}]"#)).await, Ok("own".into()));
}

#[tokio::test]
async fn a_frame_that_claims_to_be_huge_is_not_waited_for() {
    assert_eq!(forging(&format!(r#"[{RESULT}, null, 4294967295, {{"id": 1}}]"#)).await, Err(Reason::TooLarge));
    assert_eq!(forging(&format!(r#"[{RESULT}, 16777215, 0, {{"id": 1}}]"#)).await, Err(Reason::TooLarge));
}

#[tokio::test]
async fn what_is_no_frame_ends_the_worker() {
    assert_eq!(forging("[63, null, 0, {}]").await, Err(Reason::InvalidOutput));
}
