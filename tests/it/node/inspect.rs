//! Code is looked at in a child, so that what overflows a parser's stack harms nobody else.

use hawsepipe::domain::ports::{CodeFacts, Inspect};
use hawsepipe::node::{Inspector, Launcher};

use crate::fixtures::program;

async fn inspect(code: &str) -> CodeFacts {
    Inspector::new(Launcher::at(program())).inspect(code, "plugin.js").await.unwrap()
}

#[tokio::test]
async fn facts_come_from_the_child() {
    let facts = inspect("export const onRequest = () => process.env.KEY; // é\u{2028}").await;
    assert_eq!((facts.error, facts.is_module), (None, true));
    assert_eq!((facts.exports, facts.reads_env), (vec!["onRequest".to_owned()], vec!["KEY".to_owned()]));
    let error = inspect("export default (\n1 +").await.error.unwrap();
    assert_eq!(error.line, 2);
}

#[tokio::test]
async fn nesting_that_overflows_the_parser_ends_only_the_child() {
    for code in ["(".repeat(10_240), format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000)), "[".repeat(500_000)] {
        let error = inspect(&code).await.error.unwrap();
        assert_eq!(error.message, "cannot be parsed within bounds: nesting too deep");
    }
}

#[tokio::test]
async fn a_parser_that_cannot_be_started_says_nothing_about_the_code() {
    let inspector = Inspector::new(Launcher::at(program().with_file_name("not-there")));
    assert!(inspector.inspect("export default 1", "plugin.js").await.is_err());
    // Ended without an answer, and not by its stack.
    let inspector = Inspector::new(Launcher::at(std::path::Path::new("/bin/false")));
    assert!(inspector.inspect("export default 1", "plugin.js").await.is_err());
}

#[tokio::test]
async fn what_is_too_large_is_not_looked_at() {
    let error = inspect(&" ".repeat((1 << 20) + 1)).await.error.unwrap();
    assert_eq!(error.message, "cannot be parsed within bounds: it is larger than 1048576 bytes");
    assert_eq!(inspect(&format!("0{}", " ".repeat((1 << 20) - 1))).await, CodeFacts::default());
}
