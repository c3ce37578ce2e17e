//! The options that say which manifests are read, and how.

use std::path::PathBuf;

/// Where manifests come from.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// A manifest or a folder of them (*.yaml, *.yml, *.json); may be repeated
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub options: OptionArgs,
}

/// How manifests are read.
#[derive(Debug, clap::Args)]
pub struct OptionArgs {
    /// Which MCPGateway to run, where there are several: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub gateway: Option<String>,
    /// A folder of secret values: files NAME/KEY or NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// The Node.js program for plugins. Default: what the gateway's manifest says, else `node`
    #[arg(long, value_name = "PATH")]
    pub node: Option<PathBuf>,
}
