//! The system calls that this process may make, as two seccomp filters.
//!
//! The filter that is installed last allows every call that is in [`SyscallRules`]. It answers any other number with
//! ENOSYS, as a kernel does for a call that it does not have, so that programs use their fallback for older kernels.
//! This covers calls that future kernels add, and the second set of numbers that x86-64 has for x32. The other filter
//! answers EPERM to the calls that [`SyscallRules`] refuses. A call that is made for another architecture kills the
//! process.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::{ENOSYS, EPERM};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::syscalls::{ArgCondition, RefusedSyscall, SyscallRules};
use crate::domain::sandbox::{SandboxLack, SandboxProperty};

/// Both filters, compiled.
pub struct SeccompFilters {
    refusing: BpfProgram,
    knowing: BpfProgram,
}

/// Returns the filters for this process, which is about to become Node.js under the same process id.
///
/// # Errors
/// If there are no filters for this processor architecture.
pub fn of_worker() -> Result<SeccompFilters, SandboxLack> {
    SeccompFilters::of(&SyscallRules::of_worker())
}

/// Returns the filters for a process that parses plugin code.
///
/// # Errors
/// See [`of_worker`].
pub fn of_parser() -> Result<SeccompFilters, SandboxLack> {
    SeccompFilters::of(&SyscallRules::of_parser())
}

impl SeccompFilters {
    fn of(calls: &SyscallRules) -> Result<Self, SandboxLack> {
        Self::compile(calls).map_err(|error| lack(&error.to_string()))
    }

    fn compile(calls: &SyscallRules) -> Result<Self, BackendError> {
        let mut refusing = BTreeMap::new();
        for RefusedSyscall { call, when } in &calls.refused {
            let rules = when.iter().map(|when| rule(when)).collect::<Result<Vec<_>, _>>()?;
            refusing.insert(*call, rules);
        }
        let known = calls.free.iter().copied().chain(refusing.keys().copied());
        let knowing = known.map(|call| (call, Vec::new())).collect();
        let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
        let program = |rules, otherwise, then| SeccompFilter::new(rules, otherwise, then, ARCH.try_into()?)?.try_into();
        Ok(Self {
            refusing: program(refusing, SeccompAction::Allow, errno(EPERM))?,
            knowing: program(knowing, errno(ENOSYS), SeccompAction::Allow)?,
        })
    }

    /// Installs both filters on this process.
    ///
    /// # Errors
    /// If the kernel does not support seccomp filters.
    pub fn install(self) -> Result<(), SandboxLack> {
        // If both filters return an error, the kernel uses the error of the filter that was installed last. So the
        // calls that the first filter refuses must be among those that the second filter allows.
        let installed = apply_filter(&self.refusing).and_then(|()| apply_filter(&self.knowing));
        installed.map_err(|error| lack(&error.to_string()))
    }
}

fn rule(when: &[ArgCondition]) -> Result<SeccompRule, BackendError> {
    let conditions = when.iter().map(|when| {
        let (argument, length, operator, value) = match *when {
            ArgCondition::IsNot(argument, value) => (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value),
            ArgCondition::Has(argument, mask, bits) => {
                (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), bits)
            }
            ArgCondition::Given(argument) => (argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0),
        };
        SeccompCondition::new(argument, length, operator, value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn lack(cause: &str) -> SandboxLack {
    SandboxLack { property: SandboxProperty::SystemCalls, cause: format!("seccomp fails: {cause}") }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use seccompiler::sock_filter;

    use super::*;

    const OWN: u32 = 0xc000_003e;
    const I386: u32 = 0x4000_0003;
    const X32: i64 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const ERRNO: u32 = 0x0005_0000;

    /// Runs a filter as the kernel does, and returns its answer to a call.
    fn answer(program: &[sock_filter], architecture: u32, call: i64, arguments: [u64; 6]) -> u32 {
        let mut data = [u32::try_from(call).unwrap().to_ne_bytes(), architecture.to_ne_bytes()].concat();
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
        let (mut at, mut word) = (0, 0);
        loop {
            let step = &program[at];
            let k = step.k as usize;
            let jump = |met| usize::from(if met { step.jt } else { step.jf });
            at += 1 + match step.code {
                0x06 => return step.k,
                0x20 => {
                    word = u32::from_ne_bytes(data[k..k + 4].try_into().unwrap());
                    0
                }
                0x54 => {
                    word &= step.k;
                    0
                }
                0x05 => k,
                0x15 => jump(word == step.k),
                0x25 => jump(word > step.k),
                0x35 => jump(word >= step.k),
                other => panic!("an instruction {other:#x}"),
            };
        }
    }

    /// Returns the combined answer of both filters. If both refuse, the one that was installed last decides.
    fn judged(architecture: u32, call: i64, arguments: [u64; 6]) -> u32 {
        let filter = of_worker().unwrap();
        let refusing = answer(&filter.refusing, architecture, call, arguments);
        let knowing = answer(&filter.knowing, architecture, call, arguments);
        if knowing == ALLOW { refusing } else { knowing }
    }

    #[test]
    fn calls_by_other_numbers_lead_nowhere() {
        let (eperm, enosys) = (ERRNO | EPERM.unsigned_abs(), ERRNO | ENOSYS.unsigned_abs());
        for call in [libc::SYS_read, libc::SYS_socket, libc::SYS_openat, libc::SYS_ptrace] {
            assert_eq!(judged(OWN, call | X32, [0; 6]), enosys, "{call} of x32");
            assert_eq!(judged(I386, call, [0; 6]), KILL, "{call} of i386");
        }
        assert_eq!(judged(OWN, libc::SYS_read, [0; 6]), ALLOW);
        assert_eq!(judged(OWN, libc::SYS_socket, [0; 6]), eperm);
        assert_eq!(judged(OWN, 999, [0; 6]), enosys, "a call of some later kernel");
    }

    #[test]
    fn arguments_decide_where_they_must() {
        let eperm = ERRNO | EPERM.unsigned_abs();
        let own = u64::from(std::process::id());
        let upper = 1 << 40;
        for (call, arguments, wanted) in [
            (libc::SYS_kill, [own, 9, 0, 0, 0, 0], ALLOW),
            (libc::SYS_kill, [own + 1, 9, 0, 0, 0, 0], eperm),
            (libc::SYS_kill, [0; 6], eperm),
            (libc::SYS_clone, [0x0005_0f00 | 0x0001_0000, 0, 0, 0, 0, 0], ALLOW),
            (libc::SYS_clone, [17, 0, 0, 0, 0, 0], eperm),
            (libc::SYS_openat, [0, 0, 0x0008_0000, 0, 0, 0], ALLOW),
            (libc::SYS_openat, [0, 0, 1, 0, 0, 0], eperm),
            (libc::SYS_openat, [0, 0, 2, 0, 0, 0], eperm),
            (libc::SYS_openat, [0, 0, 0o100, 0, 0, 0], eperm),
            (libc::SYS_openat, [0, 0, 0o1000, 0, 0, 0], eperm),
            (libc::SYS_openat, [0, 0, upper | 0o100, 0, 0, 0], eperm),
            (libc::SYS_open, [0, 1, 0, 0, 0, 0], eperm),
            (libc::SYS_sendto, [3, 0, 0, 0, 0, 0], ALLOW),
            (libc::SYS_sendto, [3, 0, 0, 0, upper, 0], eperm),
            (libc::SYS_prlimit64, [0, 7, 0, 0, 0, 0], ALLOW),
            (libc::SYS_prlimit64, [own + 1, 7, 0, 0, 0, 0], eperm),
            (libc::SYS_ioctl, [0, 0x5421, 0, 0, 0, 0], ALLOW),
            (libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], eperm),
        ] {
            assert_eq!(judged(OWN, call, arguments), wanted, "{call} {arguments:?}");
        }
    }
}
