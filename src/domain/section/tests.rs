//! Tests of places.

use serde_json::json;

use super::*;

fn read(section: &Value) -> Result<Option<Place>, String> {
    let meta = json!({SECTION: section}).to_string();
    Place::of_meta(Some(serde_json::from_str(&meta).unwrap()))
}

#[test]
fn a_place_has_its_members_and_a_wrong_one_is_named() {
    let whole = json!({"document": "runbooks/a.md", "headings": [{"text": "Deploy", "level": 2}], "block": "db-checks", "line": 17});
    let place = read(&whole).unwrap().unwrap();
    let headings = vec![PlaceHeading { text: "Deploy".to_owned(), level: 2 }];
    let expected =
        Place { document: "runbooks/a.md".into(), headings, block: Some("db-checks".into()), line: Some(17) };
    assert_eq!(place, expected);
    assert_eq!(read(&Value::Null), Ok(None));
    assert_eq!(Place::of_meta(None), Ok(None));
    let with = |name: &str, value: Value| {
        let mut section = json!({"document": "a.md"});
        section[name] = value;
        read(&section).map_err(|why| why.strip_prefix(r#"_meta["hawsepipe.dev/section"]"#).unwrap().to_owned())
    };
    for (name, value, expected) in [
        ("document", json!(5), ".document must be a string"),
        ("document", Value::Null, ".document is missing"),
        ("headings", json!("Deploy"), ".headings must be a list"),
        ("headings", json!(["Deploy"]), ".headings[0] must be an object"),
        ("headings", json!([{"text": "A", "level": 1}, {"text": "B"}]), ".headings[1].level is missing"),
        ("headings", json!([{"text": "A", "level": "1"}]), ".headings[0].level must be a whole number from 1 to 6"),
        ("headings", json!([{"text": "## A", "level": 2}]), ".headings[0].text must be the text without its #s"),
        ("block", json!("^a"), ".block must be the id without its ^"),
        ("block", json!(""), ".block must be a string of 1 to 256"),
        ("line", json!(0), ".line must be a whole number from 1"),
        ("line", json!(1.5), ".line must be a whole number from 1"),
        ("heading", json!([]), " has no member \"heading\": its members are document, headings, block, line"),
    ] {
        let why = with(name, value).unwrap_err();
        assert!(why.starts_with(expected), "{why}");
    }
    assert_eq!(with("block", Value::Null).unwrap().unwrap().block, None);
    assert!(read(&json!("a.md")).unwrap_err().ends_with(" must be an object"));
}

#[test]
fn an_argument_is_a_place_and_is_written_as_it_is_read() {
    for text in ["a.md", "a.md:3", "run/a.md# One## Two^block:17", "a.md^b", "a.md### Three"] {
        assert_eq!(Place::of_argument(text).unwrap().to_string(), text);
    }
    assert_eq!(Place::of_argument("a.md ##Two").unwrap().to_string(), "a.md## Two");
    let json = r#"{"document":"a#b.md","line":2}"#;
    assert_eq!(Place::of_argument(json).unwrap().document, "a#b.md");
    for (text, expected) in
        [("", "section.document"), ("a.md####### Seven", "section.headings[0].level"), ("{", "section is not JSON")]
    {
        let why = Place::of_argument(text).unwrap_err();
        assert!(why.starts_with(expected), "{why}");
    }
}

#[test]
fn a_part_is_written_in_a_short_form() {
    let heading = |level| SectionPart::Heading(SectionHeading { text: "Deploy".into(), level });
    let parts = [
        heading(Some(2)),
        heading(None),
        SectionPart::Block { id: "a".into() },
        SectionPart::Range { start: 1, end: 4 },
    ];
    assert_eq!(parts.map(|part| part.to_string()), ["## Deploy", "Deploy", "^a", "1-4"]);
}
