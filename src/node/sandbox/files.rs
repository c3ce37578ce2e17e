//! Landlock rules: which files this process may read and run.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use crate::domain::sandbox::{SandboxLack, SandboxProperty};

/// The newest Landlock version whose rights this code knows. Older kernels support fewer of them; the filter of system
/// calls covers what those kernels leave open.
const NEWEST: ABI = ABI::V9;

/// System files that Node.js must be able to read if they exist. If `openssl.cnf` exists but cannot be read, Node.js
/// does not start; if the time zone files cannot be read, Node.js uses UTC. Debian installs part of Node.js in
/// `/usr/share/nodejs`.
const SYSTEM: [&str; 12] = [
    "/etc/ld.so.cache",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies",
    "/usr/share/crypto-policies",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/local/ssl/openssl.cnf",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/usr/share/nodejs",
    "/dev/null",
    "/dev/urandom",
];

/// Restricts this process: it can run only `programs`, and read only `programs`, `readable` and the system files that
/// Node.js needs. Paths that do not exist are skipped. If `programs` is empty, the system files cannot be read either.
///
/// # Errors
/// If the kernel does not enforce the restriction.
pub fn restrict(programs: &[PathBuf], readable: &[PathBuf]) -> Result<(), SandboxLack> {
    let lack = |cause: String| SandboxLack { property: SandboxProperty::Files, cause };
    let system: &[&str] = if programs.is_empty() { &[] } else { &SYSTEM };
    match restrict_with(programs, readable, system) {
        Ok(LandlockStatus::Available { .. }) => Ok(()),
        Ok(LandlockStatus::NotEnabled) => Err(lack("Landlock is not among the kernel's security modules".into())),
        Ok(_) => Err(lack("the kernel has no Landlock; Linux 5.13 has".into())),
        Err(error) => Err(lack(format!("Landlock fails: {error}"))),
    }
}

fn restrict_with(programs: &[PathBuf], readable: &[PathBuf], system: &[&str]) -> Result<LandlockStatus, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(programs, read | AccessFs::Execute))?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(system, read))?;
    Ok(rules.restrict_self()?.landlock)
}
