//! Where traces of a gateway are sent.

use serde::{Deserialize, Serialize};

/// Where traces are sent, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracingPlan {
    /// URL of an OTLP receiver.
    pub endpoint: String,
    /// Transport of OTLP.
    pub protocol: OtlpProtocol,
    /// Percentage of calls that are traced, of those without a parent; from 0 to 100.
    pub sample_percent: u32,
}

/// Transport of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtlpProtocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP, encoded as protobuf.
    Http,
}
