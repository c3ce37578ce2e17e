//! Tests of how items get their names.

use super::*;

fn tool(name: &str) -> Item {
    item(ItemKind::Tool, name)
}

fn item(kind: ItemKind, name: &str) -> Item {
    let definition = format!(r#"{{"{}":"{name}"}}"#, kind.name_member());
    Item::parse(kind, &RawValue::from_string(definition).unwrap()).unwrap()
}

#[test]
fn kinds_do_not_share_names_and_uris_have_no_prefix() {
    let [tool, prompt, resource, template] = ItemKind::ALL.map(|kind| item(kind, "x"));
    let seen: BTreeSet<String> = ["x".to_owned(), "prompt/x".to_owned()].into();
    let offer = |upstream| Offer {
        keeps_names: false,
        upstream,
        items: vec![&tool, &prompt, &resource, &template],
        overrides: &[],
        filtered: HashMap::new(),
        ever_seen: &seen,
    };
    let names = |prefix| {
        let routes = Routes::build(prefix, &[], &[offer("a"), offer("b")]);
        let own = ItemKind::ALL.iter().filter(|kind| routes.own(1, **kind, "x").is_some()).count();
        let names: Vec<_> = routes.all().iter().map(|route| route.public.clone().unwrap_or_default()).collect();
        (names.join(" "), routes.unnamed.values().map(|unnamed| unnamed.count).sum::<usize>(), own)
    };
    assert_eq!(names(PrefixMode::Always), ("a__x a__x x x b__x b__x  ".to_owned(), 2, 4));
    assert_eq!(names(PrefixMode::OnConflict), ("x x x x b__x b__x  ".to_owned(), 2, 4));
    assert_eq!(names(PrefixMode::Never), ("x x x x    ".to_owned(), 4, 4));
}

/// Returns the public names of upstreams `a` (tools `read` and `list`) and `b` (tool `read`). With `outage`, `a`
/// lists no tools.
fn names(prefix: PrefixMode, outage: bool) -> Vec<String> {
    let (read, list) = (tool("read"), tool("list"));
    let seen: BTreeSet<String> = ["read".to_owned(), "list".to_owned()].into();
    let a = if outage { vec![] } else { vec![&read, &list] };
    let offers = [
        Offer {
            keeps_names: false,
            upstream: "a",
            items: a,
            overrides: &[],
            filtered: HashMap::new(),
            ever_seen: &seen,
        },
        Offer {
            keeps_names: false,
            upstream: "b",
            items: vec![&read],
            overrides: &[],
            filtered: HashMap::new(),
            ever_seen: &seen,
        },
    ];
    Routes::build(prefix, &[], &offers).all().iter().filter_map(|r| r.public.clone()).collect()
}

#[test]
fn prefixes() {
    assert_eq!(names(PrefixMode::Always, false), ["a__read", "a__list", "b__read"]);
    assert_eq!(names(PrefixMode::OnConflict, false), ["read", "list", "b__read"]);
    assert_eq!(names(PrefixMode::Never, false), ["read", "list"]);
}

#[test]
fn a_reserved_name_is_that_of_no_tool() {
    let (own, prompt, read) = (tool("call_tool"), item(ItemKind::Prompt, "call_tool"), tool("read"));
    let renamed = ToolOverride { name: "read".into(), rename: Some("search_tools".into()), ..Default::default() };
    let seen: BTreeSet<String> = ["call_tool", "prompt/call_tool", "read"].map(str::to_owned).into();
    let (items, filtered) = (vec![&own, &prompt, &read], HashMap::new());
    let offer = Offer { keeps_names: false, upstream: "a", items, overrides: &[renamed], filtered, ever_seen: &seen };
    let names = |prefix| {
        let routes = Routes::build(prefix, &["search_tools", "call_tool"], std::slice::from_ref(&offer));
        let names: Vec<_> = routes.all().iter().map(|route| route.public.clone().unwrap_or_default()).collect();
        let said: Vec<_> = routes.unnamed.into_values().flat_map(|unnamed| unnamed.said).collect();
        (names.join(" "), said.join("\n"))
    };
    assert_eq!(names(PrefixMode::Always).0, "a__call_tool a__call_tool a__search_tools");
    assert_eq!(names(PrefixMode::OnConflict).0, "a__call_tool call_tool a__search_tools");
    let (names, said) = names(PrefixMode::Never);
    assert_eq!(names, " call_tool ");
    assert!(said.contains("tool call_tool: call_tool is the name of a tool of the gateway"), "{said}");
    assert!(said.contains("tool read: search_tools is"), "{said}");
}

#[test]
fn an_outage_frees_no_name() {
    assert_eq!(names(PrefixMode::OnConflict, true), ["b__read"]);
}

/// Returns the public names in mode `OnConflict` of upstreams with these tools, all of which were seen.
fn on_conflict(upstreams: &[(&str, &[&str])], overrides: &[ToolOverride]) -> Vec<String> {
    let tools: Vec<Vec<Item>> = upstreams.iter().map(|(_, names)| names.iter().map(|n| tool(n)).collect()).collect();
    let seen: Vec<BTreeSet<String>> =
        tools.iter().map(|tools| tools.iter().map(|t| t.name.clone()).collect()).collect();
    let names = upstreams.iter().map(|(upstream, _)| *upstream);
    let mut offers = Vec::new();
    for ((upstream, tools), ever_seen) in names.zip(&tools).zip(&seen) {
        let (items, filtered) = (tools.iter().collect(), HashMap::new());
        offers.push(Offer { keeps_names: false, upstream, items, overrides, filtered, ever_seen });
    }
    Routes::build(PrefixMode::OnConflict, &[], &offers).all().iter().filter_map(|r| r.public.clone()).collect()
}

#[test]
fn no_tool_takes_a_name_with_the_prefix_of_another_upstream() {
    let names = on_conflict(&[("a", &["read", "b__read"]), ("b", &["read", "a__list", "b__own", "b_x"])], &[]);
    assert_eq!(names, ["read", "a__b__read", "b__read", "b__a__list", "b__own", "b_x"]);
}

#[test]
fn a_name_that_an_override_gave_belongs_to_its_upstream() {
    let renamed = ToolOverride { name: "old".into(), rename: Some("read".into()), ..ToolOverride::default() };
    assert_eq!(on_conflict(&[("a", &["old"]), ("b", &["read"])], &[renamed]), ["read", "b__read"]);
}

#[test]
fn a_tool_seen_when_there_was_no_room_for_its_name_is_always_prefixed() {
    let (read, list) = (tool("read"), tool("list"));
    let seen: BTreeSet<String> = ["list".to_owned()].into();
    let (items, filtered) = (vec![&read, &list], HashMap::new());
    let offers = [Offer { keeps_names: false, upstream: "a", items, overrides: &[], filtered, ever_seen: &seen }];
    let routes = Routes::build(PrefixMode::OnConflict, &[], &offers);
    let names: Vec<_> = routes.all().iter().filter_map(|r| r.public.as_deref()).collect();
    assert_eq!(names, ["a__read", "list"]);
}

#[test]
fn a_name_too_long_is_left_out_and_said() {
    let long = tool(&"x".repeat(126));
    let seen = BTreeSet::new();
    let (items, filtered) = (vec![&long], HashMap::new());
    let offers = [Offer { keeps_names: false, upstream: "up", items, overrides: &[], filtered, ever_seen: &seen }];
    let routes = Routes::build(PrefixMode::Always, &[], &offers);
    assert_eq!(routes.unnamed.len(), 1);
    assert!(routes.own(0, ItemKind::Tool, &long.name).is_some());
}

#[test]
fn a_long_name_gets_a_short_form_that_depends_on_nothing_else() {
    let (long, other) = (tool(&"reads_all_rows_of_the_table".repeat(2)), tool("read"));
    let seen = BTreeSet::new();
    let named = |max_length, items: Vec<&Item>| {
        let naming = Naming { prefix: PrefixMode::Always, max_length };
        let offers = [Offer {
            keeps_names: false,
            upstream: "up",
            items,
            overrides: &[],
            filtered: HashMap::new(),
            ever_seen: &seen,
        }];
        let routes = Routes::build(naming, &[], &offers);
        let names: Vec<_> = routes.all().iter().map(|r| r.public.clone().unwrap_or_default()).collect();
        (names, routes.unnamed.into_values().flat_map(|unnamed| unnamed.said).collect::<Vec<_>>())
    };
    let (names, _) = named(Some(48), vec![&long, &other]);
    assert_eq!(names, ["up__reads_all_rows_of_the_tablereads_al_5509fa13", "up__read"]);
    assert_eq!(named(Some(48), vec![&long]).0[0], names[0]);
    assert_eq!(named(None, vec![&long]).0[0].len(), 58);
    let taken = tool(names[0].strip_prefix("up__").unwrap());
    let (names, said) = named(Some(48), vec![&taken, &long]);
    assert!(!names[0].is_empty() && names[1].is_empty());
    assert!(said[0].contains("is already the name of a tool"), "{said:?}");
}
