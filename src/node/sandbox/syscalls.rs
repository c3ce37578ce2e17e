//! The system calls that Node.js or a parser may make. A call that is in no list fails as if the kernel did not have
//! it.
//!
//! The lists group calls by purpose, so that a reader can judge them. If a newer Node.js or C library makes another
//! call, add it to the list for that purpose.

use libc::{
    CLONE_THREAD, F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_GETPIPE_SZ, F_SETFD, F_SETFL, O_ACCMODE, O_CREAT,
    O_RDWR, O_TRUNC, O_WRONLY, PR_CAPBSET_READ, PR_GET_DUMPABLE, PR_GET_NAME, PR_GET_NO_NEW_PRIVS, PR_SET_NAME,
    PR_SET_NO_NEW_PRIVS, PR_SET_VMA,
};

/// FIOCLEX, FIONBIO, FIONCLEX, FIONREAD; TCGETS, TCGETS2 and TIOCGWINSZ, which tell whether a descriptor is a terminal.
/// They are numbers here because C libraries declare them with different types.
const IOCTLS: [u64; 7] = [0x5451, 0x5421, 0x5450, 0x541b, 0x5401, 0x802c_542a, 0x5413];

/// A condition on one argument of a call. Arguments are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgCondition {
    /// The lower 32 bits of the argument with this index (field 0) differ from this value (field 1).
    IsNot(u8, u64),
    /// The lower 32 bits of the argument with this index (field 0), under this mask (field 1), equal this value
    /// (field 2).
    Has(u8, u64, u64),
    /// The argument is not null.
    Given(u8),
}

/// A known system call that is refused: always if `when` is empty, otherwise if all conditions in one of the lists in
/// `when` hold.
#[derive(Debug)]
pub struct RefusedSyscall {
    pub(super) call: i64,
    pub(super) when: Vec<Vec<ArgCondition>>,
}

/// The system calls that a process may make.
#[derive(Debug)]
pub struct SyscallRules {
    pub(super) free: Vec<i64>,
    pub(super) refused: Vec<RefusedSyscall>,
}

/// Memory, threads, signals within the process, clocks, and reading and writing open descriptors.
const BASE: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // Threads.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_get_robust_list,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    // Signals within the process.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // Clocks, random numbers, and the identity of the process.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_times,
    // Open descriptors.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Further system calls that Node.js needs.
const NODE: &[i64] = &[
    // To become Node.js. Landlock decides which programs can be run.
    libc::SYS_execve,
    // Looking at files. Landlock decides which can be read.
    libc::SYS_chdir,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fchdir,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statx,
    libc::SYS_umask,
    // The event loop, pipes and descriptors.
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    // The socket that the gateway passed to the process.
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // The identity of the process, and the system that it runs on.
    libc::SYS_capget,
    libc::SYS_getgroups,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Additions to `BASE` and `NODE` on x86-64. Most are older forms of other calls; newer architectures do not have or do
/// not need these forms.
#[cfg(target_arch = "x86_64")]
const OLD_BASE: &[i64] = &[libc::SYS_arch_prctl, libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OLD_BASE: &[i64] = &[];
#[cfg(target_arch = "x86_64")]
const OLD_NODE: &[i64] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_pipe,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NODE: &[i64] = &[];

/// Refused with EPERM, because programs try these calls and should get a clear error: calls that reach the network,
/// start something, act on another process, or change a file. Many more calls are refused because they are in no list.
const REFUSED: &[i64] = &[
    // Sockets.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_socket,
    libc::SYS_socketpair,
    // Other processes.
    libc::SYS_getpriority,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setsid,
    libc::SYS_tkill,
    // Memory and queues that processes could share.
    libc::SYS_memfd_create,
    libc::SYS_mq_open,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_shmat,
    libc::SYS_shmget,
    // The kernel itself.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_execveat,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    // Changes of identity.
    libc::SYS_capset,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    // Changes to files, including those that Landlock does not cover: modes, owners, times, attributes.
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fsetxattr,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_inotify_init1,
    libc::SYS_linkat,
    libc::SYS_lsetxattr,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_setxattr,
    libc::SYS_statfs,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
];
#[cfg(target_arch = "x86_64")]
const OLD_REFUSED: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_creat,
    libc::SYS_fork,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_symlink,
    libc::SYS_unlink,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_REFUSED: &[i64] = &[];

impl SyscallRules {
    /// Returns the rules for this process, which becomes Node.js.
    pub fn of_worker() -> Self {
        let free = [BASE, NODE, OLD_BASE, OLD_NODE].concat();
        let always = REFUSED.iter().chain(OLD_REFUSED).map(|call| RefusedSyscall { call: *call, when: Vec::new() });
        Self { free, refused: always.chain(in_threads()).chain(of_files()).collect() }
    }

    /// Returns the rules for a parser, which opens nothing.
    pub fn of_parser() -> Self {
        Self { free: [BASE, OLD_BASE].concat(), refused: in_threads() }
    }
}

/// Rules that allow starting threads but not processes, and sending signals only to the process itself.
fn in_threads() -> Vec<RefusedSyscall> {
    let own = u64::from(std::process::id());
    let another = || vec![vec![ArgCondition::IsNot(0, own)]];
    vec![
        // A filter cannot see the flags of clone3, because they are in memory. So clone3 is in no list, and C libraries
        // use clone instead.
        RefusedSyscall { call: libc::SYS_clone, when: vec![vec![ArgCondition::Has(0, bits(CLONE_THREAD), 0)]] },
        RefusedSyscall { call: libc::SYS_kill, when: another() },
        RefusedSyscall { call: libc::SYS_tgkill, when: another() },
        // Without this, the process could set the limits of other processes of the same user.
        RefusedSyscall { call: libc::SYS_prlimit64, when: vec![vec![ArgCondition::IsNot(0, 0)]] },
        RefusedSyscall {
            call: libc::SYS_prctl,
            when: none_of(
                0,
                &[
                    PR_CAPBSET_READ,
                    PR_GET_DUMPABLE,
                    PR_GET_NAME,
                    PR_GET_NO_NEW_PRIVS,
                    PR_SET_NAME,
                    PR_SET_NO_NEW_PRIVS,
                    PR_SET_VMA,
                ]
                .map(bits),
            ),
        },
    ]
}

/// Rules that allow opening files only for reading, and only those operations on open files that Node.js uses.
fn of_files() -> Vec<RefusedSyscall> {
    let opened = |flags| {
        let has = |mask: i32, value: i32| vec![ArgCondition::Has(flags, bits(mask), bits(value))];
        vec![has(O_ACCMODE, O_WRONLY), has(O_ACCMODE, O_RDWR), has(O_CREAT, O_CREAT), has(O_TRUNC, O_TRUNC)]
    };
    let files = [F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_GETPIPE_SZ, F_SETFD, F_SETFL].map(bits);
    vec![
        RefusedSyscall { call: libc::SYS_openat, when: opened(2) },
        #[cfg(target_arch = "x86_64")]
        RefusedSyscall { call: libc::SYS_open, when: opened(1) },
        RefusedSyscall { call: libc::SYS_fcntl, when: none_of(1, &files) },
        RefusedSyscall { call: libc::SYS_ioctl, when: none_of(1, &IOCTLS) },
        // Sending to an address is refused. The process does not need it, because its socket is already connected.
        RefusedSyscall { call: libc::SYS_sendto, when: vec![vec![ArgCondition::Given(4)]] },
    ]
}

/// Conditions that hold if the argument is none of `values`.
fn none_of(argument: u8, values: &[u64]) -> Vec<Vec<ArgCondition>> {
    vec![values.iter().map(|value| ArgCondition::IsNot(argument, *value)).collect()]
}

/// Converts flags to the lower 32 bits of an argument.
fn bits(flags: i32) -> u64 {
    u64::from(flags.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_in_two_lists() {
        for calls in [SyscallRules::of_worker(), SyscallRules::of_parser()] {
            let named: Vec<_> = calls.free.iter().copied().chain(calls.refused.iter().map(|r| r.call)).collect();
            assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len());
        }
    }

    #[test]
    fn a_parser_cannot_open_or_run_anything() {
        let calls = SyscallRules::of_parser();
        for call in [libc::SYS_openat, libc::SYS_execve, libc::SYS_socket, libc::SYS_sendmsg] {
            assert!(!calls.free.contains(&call) && calls.refused.iter().all(|refused| refused.call != call));
        }
    }
}
