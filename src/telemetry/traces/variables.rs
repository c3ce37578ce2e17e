//! Checks the standard environment variables of traces, which the library reads and where it cannot, ignores.

use http::{HeaderName, HeaderValue};

use crate::domain::quoted::Quoted;

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// Returns a warning for each variable that has another effect than what it says. The warnings contain no values of
/// headers or attributes. `value` returns the value of a variable, or `None` if it is empty or not set.
pub(super) fn warnings(value: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut one_of = |variable: &str, words: &[&str], instead: &str| {
        if let Some(other) = value(variable).filter(|value| !words.contains(&&**value)) {
            found.push(format!("{variable} is {}, not one of {}: {instead}", Quoted(&other, 64), words.join(", ")));
        }
    };
    one_of("OTEL_SDK_DISABLED", &["true", "false"], "it counts as false");
    for variable in ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] {
        one_of(variable, &["grpc", "http/protobuf"], "traces are sent as http/protobuf");
    }
    one_of("OTEL_TRACES_SAMPLER", &SAMPLERS, "every call without a parent is traced");
    let is_share = |text: &str| text.parse::<f64>().is_ok_and(|share| (0.0..=1.0).contains(&share));
    if value("OTEL_TRACES_SAMPLER").is_some_and(|sampler| sampler.ends_with("traceidratio"))
        && value("OTEL_TRACES_SAMPLER_ARG").is_none_or(|share| !is_share(&share))
    {
        found.push("OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1, such as 0.1".to_owned());
    }
    for variable in ["OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_QUEUE_SIZE"] {
        if value(variable).is_some_and(|value| value.parse::<usize>().map_or(true, |number| number == 0)) {
            found.push(format!("{variable} is not a number above 0: the default counts"));
        }
    }
    for variable in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
        found.extend(wrong_entries(variable, value(variable), is_header));
    }
    found.extend(wrong_entries("OTEL_RESOURCE_ATTRIBUTES", value("OTEL_RESOURCE_ATTRIBUTES"), |name, _| {
        !name.is_empty()
    }));
    found
}

fn is_header(name: &str, value: &str) -> bool {
    // What is percent-encoded is decoded by the library.
    let is_encoded = value.split('%').skip(1).all(|rest| {
        let code = rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        code.is_some_and(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f)
    });
    HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok() && is_encoded
}

/// Returns a warning for each entry of the list `text` that is not `name=value`, with its number and not its text.
fn wrong_entries(
    variable: &str,
    text: Option<String>,
    is_valid: impl Fn(&str, &str) -> bool,
) -> impl Iterator<Item = String> {
    let text = text.unwrap_or_default();
    let entries = text.split(',').enumerate().filter(|(_, entry)| !entry.trim().is_empty());
    let is_wrong = |entry: &str| match entry.split_once('=') {
        Some((name, value)) => !is_valid(name.trim(), value.trim()),
        None => true,
    };
    let wrong: Vec<_> = entries.filter(|(_, entry)| is_wrong(entry)).map(|(index, _)| index + 1).collect();
    let variable = variable.to_owned();
    wrong.into_iter().map(move |number| format!("{variable}: entry {number} is not NAME=VALUE and may be left out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<String> {
        let value = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, v)| (*v).to_owned());
        warnings(value)
    }

    #[test]
    fn what_means_nothing_is_told() {
        for (variable, value, words) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "sent as http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "carrier-pigeon", "carrier-pigeon"),
            ("OTEL_TRACES_SAMPLER", "sometimes", "every call without a parent"),
            ("OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG is not a number"),
            ("OTEL_BSP_SCHEDULE_DELAY", "abc", "the default counts"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "the default counts"),
            ("OTEL_SDK_DISABLED", "maybe", "counts as false"),
        ] {
            let said = of(&[(variable, value)]);
            assert!(said.len() == 1 && said[0].contains(words), "{variable}={value}: {said:?}");
        }
        let ratio = [("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "7")];
        assert_eq!(of(&ratio), ["OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1, such as 0.1"]);
    }

    #[test]
    fn entries_that_are_left_out_are_told_by_number_alone() {
        let headers = "bad key=hunter2,nov,e=%0d%0ainject:1,b=%zz,ok=a b,Authorization=Bearer%20hunter2";
        let said = of(&[("OTEL_EXPORTER_OTLP_HEADERS", headers), ("OTEL_RESOURCE_ATTRIBUTES", "===,,%%%,a=b")]);
        let entry =
            |variable: &str, number| format!("{variable}: entry {number} is not NAME=VALUE and may be left out");
        let mut expected: Vec<_> = (1..=4).map(|number| entry("OTEL_EXPORTER_OTLP_HEADERS", number)).collect();
        expected.extend([1, 3].map(|number| entry("OTEL_RESOURCE_ATTRIBUTES", number)));
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_as_documented_is_not_told() {
        let said = of(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a, x=%C3%A4"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.1"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("OTEL_SDK_DISABLED", "false"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b"),
        ]);
        assert_eq!(said, Vec::<String>::new());
    }
}
