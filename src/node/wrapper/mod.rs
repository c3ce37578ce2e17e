//! Plugins that are programs of any language: the file that runs, and what it can read.

mod program;
mod python;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use self::program::Program;
use super::discovery::resolve;
use super::installed_code::InstalledCode;
use super::launcher::Launcher;
use crate::domain::plan::{ENTRY, InterpreterPlan, PluginPlan, WrapperPlan};

/// The interpreters that have been found.
#[derive(Debug, Default)]
pub struct Interpreters(Mutex<HashMap<PathBuf, Program>>);

impl Interpreters {
    /// Returns the program that a worker of a wrapper becomes.
    ///
    /// # Errors
    /// If the interpreter does not exist or does not work. The text has advice.
    pub async fn program(
        &self,
        launcher: &Launcher,
        wrapper: &WrapperPlan,
        code: &InstalledCode,
    ) -> Result<Program, String> {
        let Some(interpreter) = &wrapper.interpreter else { return Ok(Program::own(code)) };
        let mut found = self.find(launcher, interpreter).await?;
        found.readable.extend(interpreter.read_paths.iter().cloned());
        Ok(found)
    }

    async fn find(&self, launcher: &Launcher, interpreter: &InterpreterPlan) -> Result<Program, String> {
        let known = |known: &HashMap<PathBuf, Program>| known.get(&interpreter.path).cloned();
        if let Some(found) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(found);
        }
        let InterpreterPlan { name, path, .. } = interpreter;
        let Some(program) = resolve(path) else {
            return Err(format!(
                "{name} was not found: {} is not a program; name one in spec.plugins.interpreters of the gateway",
                path.display()
            ));
        };
        let found = match python::is_python(&program) {
            true => python::find(launcher, &program)
                .await
                .map_err(|why| format!("{name} ({}) is not a working Python: {why}", program.display()))?,
            false => Program::new(program, Vec::new()),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), found.clone());
        Ok(found)
    }
}

/// Returns the arguments of a plugin's program. The path of the code replaces [`ENTRY`]. Without one, it is the last argument of an
/// interpreter, unless the code is a file that the arguments name.
pub fn arguments(plugin: &PluginPlan, wrapper: &WrapperPlan, entry: &Path) -> Vec<OsString> {
    let shown = entry.to_string_lossy();
    let mut arguments: Vec<OsString> = wrapper.args.iter().map(|arg| arg.replace(ENTRY, &shown).into()).collect();
    let has_entry = wrapper.args.iter().any(|arg| arg.contains(ENTRY));
    let is_file = plugin.folder.is_some();
    if wrapper.interpreter.is_some() && !has_entry && (!is_file || arguments.is_empty()) {
        arguments.push(entry.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fixture::plugin;

    #[test]
    fn the_path_of_the_code_is_an_argument_of_an_interpreter() {
        let python = InterpreterPlan { name: "python3".into(), path: "python3".into(), read_paths: Vec::new() };
        for (interpreter, folder, args, expected) in [
            (true, None, &[][..], &["/c/plugin"][..]),
            (true, None, &["-O"], &["-O", "/c/plugin"]),
            (true, None, &["-m", "{entry}", "x"], &["-m", "/c/plugin", "x"]),
            (true, Some("/p"), &[], &["/c/plugin"]),
            (true, Some("/p"), &["guard.py", "--strict"], &["guard.py", "--strict"]),
            (false, Some("/p"), &[], &[]),
            (false, Some("/p"), &["--config={entry}.json"], &["--config=/c/plugin.json"]),
        ] {
            let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let wrapper = WrapperPlan { interpreter: interpreter.then(|| python.clone()), args };
            let plan = PluginPlan { folder: folder.map(PathBuf::from), ..plugin().plan.clone() };
            assert_eq!(arguments(&plan, &wrapper, Path::new("/c/plugin")), expected, "{wrapper:?}");
        }
    }
}
