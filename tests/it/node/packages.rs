//! Packages of npm in the sandbox, and the limit of files that a worker can have open.

use hawsepipe::domain::reason::Reason;

use super::{Code, Rig, module};
use crate::fixtures::checkout;

#[tokio::test]
async fn packages_of_many_files_load() {
    let code = "import { upperFirst } from 'lodash-es';
        import { addDays, formatISO } from 'date-fns';
        import * as R from 'ramda';
        export default ({ rawContent }) => {
            const day = formatISO(addDays(new Date(2024, 1, 28), 2), { representation: 'date' });
            return { text: `${upperFirst(rawContent)} ${day} ${R.sum([1, 2])}`, continue: true };
        };";
    // The nearest node_modules is that of the fixtures.
    let plugin = Code { folder: Some(checkout().join("tests/fixtures/servers")), ..module(code) }.link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.answer(&plugin, "content").await.text, "Content 2024-03-01 3");
}

#[tokio::test]
async fn too_many_open_files_are_an_error_that_names_the_limit() {
    let opens = "import { openSync } from 'node:fs';";
    let plugin = module(&format!("{opens} export default () => {{ for (;;) openSync('/dev/null'); }};")).link();
    let rig = Rig::with(&[&plugin]).await;
    let failure = rig.failure(&plugin, "").await;
    assert_eq!(failure.reason, Reason::PluginError, "{failure}");
    assert!(failure.message.contains("EMFILE") && failure.message.contains("can have 4096 files"), "{failure}");
    let plugin = module(&format!("{opens} for (;;) openSync('/dev/null'); export default () => {{}};")).link();
    let failure = Rig::with(&[&plugin]).await.failure(&plugin, "").await;
    assert_eq!(failure.reason, Reason::NotLoaded, "{failure}");
    assert!(failure.message.contains("EMFILE") && failure.message.contains("can have 4096 files"), "{failure}");
}
