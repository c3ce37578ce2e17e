//! Code that is parsed quickly, late or never.

use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::controller::compiled;
use crate::controller::dereference::Dereferenced;
use crate::controller::lowered::LoweredObject;
use crate::controller::status::tests::read;
use crate::domain::ids::Kind;

/// A parser whose behaviour depends on the first word of the code. `slow` is never answered, `late` always exceeds
/// the deadline, `busy` exceeds it at first and is then parsed. For `unasked` and `told`, the parser cannot be
/// reached; `told` fails only once the field `told` is notified.
#[derive(Default)]
struct Parser {
    /// The texts of all requests, in order.
    asked: Mutex<Vec<String>>,
    /// How many `slow` texts are being parsed.
    now: AtomicUsize,
    told: Notify,
}

impl Inspect for Arc<Parser> {
    async fn inspect(&self, code: &str, _: &str) -> Result<CodeFacts, Unavailable> {
        self.asked.lock().unwrap().push(code.to_owned());
        match code.split(' ').next().unwrap() {
            "slow" => {
                self.now.fetch_add(1, Ordering::Relaxed);
                std::future::pending().await
            }
            "busy" if self.asked.lock().unwrap().len() > MAX_LATE => Ok(CodeFacts::default()),
            "late" | "busy" => Err(Unavailable::Late(Duration::from_secs(2))),
            "told" => {
                self.told.notified().await;
                Err(Unavailable::Unasked("no process".into()))
            }
            "unasked" => Err(Unavailable::Unasked("no process".into())),
            _ => Ok(CodeFacts::default()),
        }
    }
}

fn plugin(namespace: &str, code: &str) -> LoweredObject {
    let mut plugin = read(Kind::Plugin, "p", &json!({"source": {"inline": code}}), &json!({}));
    plugin.id.key.namespace = namespace.into();
    let mut lowered = (*plugin.lowered).clone();
    if let Ok(crate::api::lower::Lowered::Plugin(input)) = &mut lowered {
        input.key.namespace = namespace.into();
    }
    LoweredObject { lowered: Arc::new(lowered), ..plugin }
}

/// Returns a parser, and a [`Parsing`] that uses it with short waits and pauses.
fn parsing() -> (Arc<Parser>, Parsing<Arc<Parser>>) {
    let parser = Arc::<Parser>::default();
    let mut parsing = Parsing::new(Arc::clone(&parser), Arc::default());
    parsing.patience = Duration::from_millis(20);
    parsing.pauses = Doubling::new(Duration::from_millis(1), Duration::from_secs(300));
    (parser, parsing)
}

/// Runs a round over these texts, each with its namespace. Returns an item for each text with known facts: the parse
/// error, if there is one.
async fn round(parsing: &mut Parsing<Arc<Parser>>, texts: &[(&str, &str)]) -> Vec<Option<String>> {
    let objects: Vec<_> = texts.iter().map(|(namespace, code)| plugin(namespace, code)).collect();
    let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
    parsing.inspect(&mut inputs).await;
    inputs.facts.into_values().map(|facts| facts.error.map(|error| error.message)).collect()
}

#[tokio::test]
async fn a_text_that_takes_long_delays_no_round_twice_and_no_other_namespace() {
    let (parser, mut parsing) = parsing();
    let texts = [("a", "slow 1"), ("a", "slow 2"), ("a", "slow 3"), ("b", "1")];
    assert_eq!(round(&mut parsing, &texts).await, [None], "what the other namespace has is known");
    assert_eq!(parser.now.load(Ordering::Relaxed), 1, "of one namespace one text at a time");
    let again = round(&mut parsing, &texts).now_or_never();
    assert_eq!(again, Some(vec![None]), "the next round waits for nothing");
    let other = [texts.as_slice(), &[("b", "2")]].concat();
    assert_eq!(round(&mut parsing, &other).await.len(), 2, "an edit elsewhere is parsed at once");
    assert_eq!(round(&mut parsing, &[("a", "3")]).await, [None], "what is not wanted any more holds up nothing");
}

#[tokio::test]
async fn deadlines_become_a_fact_that_wakes_the_loop_and_failures_of_the_parser_do_not() {
    let (parser, mut parsing) = parsing();
    let changed = Arc::clone(&parsing.known.changed);
    let texts = [("a", "late"), ("b", "unasked")];
    assert!(round(&mut parsing, &texts).await.is_empty(), "one deadline says nothing");
    assert!(!parsing.has_news());
    while !parsing.has_news() {
        changed.notified().await;
    }
    let known = round(&mut parsing, &texts).await;
    assert!(!parsing.has_news());
    let [Some(message)] = &known[..] else { panic!("{known:?}") };
    assert!(message.contains("does not get through plugin code within 2s, 3 times"), "{message}");
    let asked = |code: &str| parser.asked.lock().unwrap().iter().filter(|asked| *asked == code).count();
    while asked("unasked") < 2 * MAX_LATE {
        tokio::task::yield_now().await;
    }
    assert_eq!((asked("late"), round(&mut parsing, &texts).await.len()), (MAX_LATE, 1));
}

#[tokio::test]
async fn code_for_which_the_parser_took_too_long_is_parsed_when_it_has_the_time() {
    let (_, mut parsing) = parsing();
    parsing.pauses = Doubling::new(Duration::from_millis(1), Duration::from_millis(10));
    let changed = Arc::clone(&parsing.known.changed);
    let texts = [("a", "busy")];
    round(&mut parsing, &texts).await;
    for is_late in [true, false] {
        while !parsing.has_news() {
            changed.notified().await;
        }
        let known = round(&mut parsing, &texts).await;
        assert_eq!(known.iter().map(Option::is_some).collect::<Vec<_>>(), [is_late], "{known:?}");
    }
}

#[tokio::test]
async fn code_is_said_to_be_parsed_until_it_was_tried() {
    let (parser, mut parsing) = parsing();
    let changed = Arc::clone(&parsing.known.changed);
    let objects = [plugin("a", "slow"), plugin("b", "told")];
    let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
    parsing.inspect(&mut inputs).await;
    assert_eq!((inputs.parsing.len(), inputs.facts.len()), (2, 0));
    parser.told.notify_one();
    while !parsing.has_news() {
        changed.notified().await;
    }
    parsing.inspect(&mut inputs).await;
    assert_eq!(
        (inputs.parsing.iter().collect::<Vec<_>>(), inputs.facts.len()),
        (vec![&code_key(&sha256_hex(b"slow"), "index.js")], 0)
    );
}

#[test]
fn what_the_parser_finds_out_makes_one_round_a_second() {
    let (_, mut parsing) = parsing();
    let began = Instant::now();
    let takes = |parsing: &mut Parsing<_>, millis| {
        let now = began + Duration::from_millis(millis);
        (parsing.take_news(now), parsing.next_news(now).map(|wait| wait.as_millis()))
    };
    assert_eq!(takes(&mut parsing, 0), (false, None));
    let learn = |parsing: &Parsing<_>, key| parsing.known.learn(key, Fact::Unknown);
    learn(&parsing, "one");
    assert!(takes(&mut parsing, 100).0, "the first is not waited for");
    parsing.known.of(std::iter::empty());
    assert_eq!(takes(&mut parsing, 200), (false, None));
    learn(&parsing, "two");
    learn(&parsing, "three");
    assert_eq!(takes(&mut parsing, 300), (false, Some(800)));
    assert!(takes(&mut parsing, 1100).0);
    parsing.known.of(std::iter::empty());
    assert_eq!(takes(&mut parsing, 5000), (false, None));
}

#[tokio::test]
async fn while_no_plan_is_made_nothing_is_parsed() {
    let (_, mut parsing) = parsing();
    round(&mut parsing, &[("a", "slow")]).await;
    parsing.rest();
    assert!(parsing.under_way.is_empty());
    assert_eq!(parsing.patience, FIRST_PATIENCE);
}

#[test]
fn facts_about_code_stay_until_there_are_too_many() {
    let of = |names: &[&str]| -> BTreeMap<_, _> {
        names.iter().map(|name| ((*name).to_owned(), CodeFacts::default())).collect()
    };
    let after = |known: &[&str], wanted: &[&str]| {
        let (mut known, wanted) = (of(known), of(wanted));
        bound(&mut known, &wanted.keys().collect(), 2);
        known.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(after(&["a", "b"], &["b"]), ["a", "b"]);
    assert_eq!(after(&["a", "b", "c"], &["c"]), ["c"]);
}
