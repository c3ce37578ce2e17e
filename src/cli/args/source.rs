//! The options for the manifests to read.

use std::path::PathBuf;

/// The manifests to read, and the options for reading them.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// A manifest, or a folder of manifests (*.yaml, *.yml, *.json); can be repeated
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub options: OptionArgs,
}

/// Options for reading manifests.
#[derive(Debug, clap::Args)]
pub struct OptionArgs {
    /// The MCPGateway to run, if there are several: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub gateway: Option<String>,
    /// A folder with values of Secrets, as files NAME/KEY or NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// The Node.js program for plugins. Default: the one that the MCPGateway names, or else `node`
    #[arg(long, value_name = "PATH")]
    pub node: Option<PathBuf>,
}
