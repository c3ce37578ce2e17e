//! Decides what an entry's answer does to its call.

use super::item::ItemKind;
use super::method::Method;
use super::plugin::{Failure, FailurePolicy, Mode, Output, Phase, Role};
use super::reason::Reason;
use super::record::Skip;

/// The properties of an entry that decide what its answer does.
#[derive(Clone, Copy, Debug)]
pub struct EntryRules {
    /// The phase of the entry's chain.
    pub phase: Phase,
    /// The plugin's role; `Guard` for an entry that cannot run.
    pub role: Role,
    /// `Shadow` if the entry runs without affecting calls.
    pub mode: Mode,
    /// What a failure of the entry does to the call.
    pub policy: FailurePolicy,
}

/// The next step of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call continues with `text` as its content. If `stop` is set, the later entries of the chain are skipped,
    /// except Guards.
    Go {
        /// The new content of the call.
        text: String,
        /// Whether the plugin returned `continue: false`.
        stop: bool,
    },
    /// The call is not sent to the upstream, and the client gets `text`. A question is not asked, and the item of a
    /// definition is not offered.
    Deny {
        /// The plugin's message for the client.
        text: String,
        /// The plugin's message for the record.
        error: String,
    },
    /// The entry failed, and its policy lets the content continue unchanged.
    Pass(Failure),
    /// The entry failed, and the call fails with it.
    Fail(Failure),
}

impl EntryRules {
    /// Whether the call waits for this entry and can be changed by it.
    pub fn on_path(&self) -> bool {
        self.mode == Mode::Enforce && self.role != Role::Observe
    }

    /// Judges an answer to content of this method. The caller must already have replaced an answer whose content is not valid
    /// by the failure `InvalidOutput`.
    pub fn judge(&self, method: Method, answer: Result<Output, Failure>) -> Verdict {
        match answer {
            Ok(Output { text, proceed, error: None, .. }) => Verdict::Go { text, stop: !proceed },
            Ok(Output { text, error: Some(error), .. }) if self.may_deny(method) => Verdict::Deny { text, error },
            Ok(Output { error: Some(error), .. }) => {
                self.failed(Failure::quoting(Reason::PluginError, format!("reported error: {error}")))
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn may_deny(&self, method: Method) -> bool {
        let is_early = self.phase == Phase::Request || ItemKind::listed_with(method).is_some();
        is_early && self.role != Role::Observe
    }

    fn failed(&self, failure: Failure) -> Verdict {
        match self.policy {
            FailurePolicy::Fail => Verdict::Fail(failure),
            FailurePolicy::LastGood | FailurePolicy::Ignore => Verdict::Pass(failure),
        }
    }
}

/// Returns why an entry is skipped, without regard to its `when`; `None` if it is not. Guards run even if an earlier
/// entry stopped the chain.
pub fn skip(enabled: bool, admitted_by_filter: bool, stopped: bool, role: Role) -> Option<Skip> {
    if !enabled {
        Some(Skip::Disabled)
    } else if !admitted_by_filter {
        Some(Skip::Filter)
    } else if stopped && role != Role::Guard {
        Some(Skip::Stopped)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(phase: Phase, role: Role) -> EntryRules {
        EntryRules { phase, role, mode: Mode::Enforce, policy: role.default_policy() }
    }

    fn output(proceed: bool, error: Option<&str>) -> Result<Output, Failure> {
        Ok(Output { text: "t".into(), proceed, metadata: None, error: error.map(Into::into) })
    }

    #[test]
    fn content_goes_on_and_may_stop_the_chain() {
        for phase in [Phase::Request, Phase::Response] {
            let rules = rules(phase, Role::Transform);
            assert_eq!(
                rules.judge(Method::CallTool, output(true, None)),
                Verdict::Go { text: "t".into(), stop: false }
            );
            assert_eq!(
                rules.judge(Method::CallTool, output(false, None)),
                Verdict::Go { text: "t".into(), stop: true }
            );
        }
    }

    #[test]
    fn an_error_denies_in_the_request_phase_only() {
        for role in [Role::Guard, Role::Transform] {
            let verdict = rules(Phase::Request, role).judge(Method::CallTool, output(false, Some("no")));
            assert_eq!(verdict, Verdict::Deny { text: "t".into(), error: "no".into() });
        }
        let verdict = rules(Phase::Response, Role::Guard).judge(Method::ListTools, output(false, Some("no")));
        assert_eq!(verdict, Verdict::Deny { text: "t".into(), error: "no".into() }, "a definition is denied");
        let failure = Failure::quoting(Reason::PluginError, "reported error: no");
        let judge = |role| rules(Phase::Response, role).judge(Method::Elicit, output(false, Some("no")));
        assert_eq!(judge(Role::Guard), Verdict::Fail(failure.clone()));
        assert_eq!(judge(Role::Transform), Verdict::Pass(failure.clone()));
        let observed = rules(Phase::Request, Role::Observe).judge(Method::CallTool, output(false, Some("no")));
        assert_eq!(observed, Verdict::Pass(failure));
    }

    #[test]
    fn a_failure_does_what_the_policy_says() {
        let failure = Failure::new(Reason::Timeout, "late");
        for (policy, verdict) in [
            (FailurePolicy::Fail, Verdict::Fail(failure.clone())),
            (FailurePolicy::LastGood, Verdict::Pass(failure.clone())),
            (FailurePolicy::Ignore, Verdict::Pass(failure.clone())),
        ] {
            let rules = EntryRules { policy, ..rules(Phase::Response, Role::Transform) };
            assert_eq!(rules.judge(Method::CallTool, Err(failure.clone())), verdict);
        }
    }

    #[test]
    fn guards_run_in_spite_of_a_stop() {
        assert_eq!(skip(true, true, true, Role::Guard), None);
        assert_eq!(skip(true, true, true, Role::Transform), Some(Skip::Stopped));
        assert_eq!(skip(true, true, true, Role::Observe), Some(Skip::Stopped));
        assert_eq!(skip(false, true, true, Role::Guard), Some(Skip::Disabled));
        assert_eq!(skip(true, false, false, Role::Guard), Some(Skip::Filter));
    }
}
