//! `hawsepipe store`: the tables of a history store.

use std::process::ExitCode;

use super::output::print_line;
use super::store_arg::StoreArg;
use crate::store::migrate;

#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum StoreCommand {
    /// Migrate the tables to a version, and print the migrations that were applied or taken back
    Migrate(MigrateArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A gateway migrates its store to the last version when it starts. Back up the database before you take migrations back.

Examples:
  hawsepipe store migrate --store history.db
  hawsepipe store migrate --store postgres://hawsepipe@db/history --to 9")]
pub struct MigrateArgs {
    /// The store: PATH or sqlite:PATH of a SQLite file, or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "STORE", env = "HAWSEPIPE_STORE", hide_env_values = true)]
    pub store: StoreArg,
    /// The version; migrations with a higher number are taken back. Default: the last version of this program
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=9999))]
    pub to: Option<i64>,
}

pub async fn store(args: StoreArgs) -> anyhow::Result<ExitCode> {
    let StoreCommand::Migrate(args) = args.command;
    let done = migrate(&args.store.target()?, args.to).await?;
    for step in &done {
        print_line(step)?;
    }
    if done.is_empty() {
        print_line("nothing to do")?;
    }
    Ok(ExitCode::SUCCESS)
}
