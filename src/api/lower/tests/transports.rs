//! How servers are reached.

use super::*;

#[test]
fn the_transport_of_a_server_is_what_is_written() {
    let external = |transport: Value| json!({"external": {"url": "https://h", "transport": transport}});
    for (spec, transport) in [
        (external(json!(null)), HttpTransport::Auto),
        (external(json!("Auto")), HttpTransport::Auto),
        (external(json!("StreamableHTTP")), HttpTransport::StreamableHttp),
        (external(json!("SSE")), HttpTransport::Sse),
    ] {
        let (input, problems) = lower_upstream(spec);
        assert_eq!((problems.len(), input.plan.http_transport), (0, transport));
    }
    for (session, own) in [("Shared", false), ("PerSession", true)] {
        let (input, problems) = lower_upstream(json!({"process": {"command": "x", "session": session}}));
        let TransportPlan::Process { per_session, .. } = input.plan.transport else { panic!() };
        assert_eq!((problems.len(), per_session), (0, own), "{session}");
    }
}
