//! A pod that is ready and does not report.

use super::harness::{Operated, gateway};

#[tokio::test]
async fn why_a_pod_does_not_report_is_told() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main")]).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    assert_eq!(message, "there is no pod with its label, hawsepipe.dev/gateway=main");
    let mut served = operated.serve("main", &[]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "True Programmed").await;
    served.gateway.kill();
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "Unknown Pending").await;
    let address = format!("does not report: http://127.0.0.1:{}/api/v1/report: ", served.gateway.admin.port());
    assert!(message.contains(&address) && message.contains("Connection refused"), "{message}");
}
