/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox.h"

#include "base/log.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECKS_MEMORY true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define CHECKS_MEMORY true
#endif
#endif
#ifndef CHECKS_MEMORY
#define CHECKS_MEMORY false
#endif

bool sandbox_is_possible(void)
{
    return !CHECKS_MEMORY;
}

bool sandbox_is_wanted(const struct config *config)
{
    return config->sandbox != CONFIG_SANDBOX_OFF && sandbox_is_possible();
}

/* ---- Landlock ---- */

/* linux/landlock.h, of Linux 6.2, 6.10, 6.12 and 6.15. */
#define ACCESS_FS_TRUNCATE (1ULL << 14)
#define ACCESS_FS_IOCTL_DEV (1ULL << 15)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)
#define CREATE_ERRATA (1U << 1)

struct ruleset {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

/* From which version of Landlock on; what is not there is not asked for. */
#define ACCESS_V1 (LANDLOCK_ACCESS_FS_REFER - 1)
#define VERSION_REFER 2
#define VERSION_TRUNCATE 3
#define VERSION_NET 4
#define VERSION_IOCTL 5
#define VERSION_SCOPE 6

/*
 * A file that was opened by its handle, and that no path has led to since the machine started, has
 * no place in the tree of names: there is nothing above it. Before this was repaired Landlock
 * denied it; now the mount that it was opened on counts.
 */
#define ERRATUM_DISCONNECTED (1L << 2)

static long create_ruleset(const struct ruleset *ruleset, size_t bytes, unsigned flags)
{
    return syscall(SYS_landlock_create_ruleset, ruleset, bytes, flags);
}

static size_t fill_ruleset(long version, struct ruleset *ruleset)
{
    *ruleset = (struct ruleset){.handled_access_fs = ACCESS_V1};
    if (version >= VERSION_REFER) {
        ruleset->handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
    }
    if (version >= VERSION_TRUNCATE) {
        ruleset->handled_access_fs |= ACCESS_FS_TRUNCATE;
    }
    if (version >= VERSION_IOCTL) {
        ruleset->handled_access_fs |= ACCESS_FS_IOCTL_DEV;
    }
    if (version >= VERSION_SCOPE) {
        ruleset->scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
        return sizeof *ruleset;
    }
    return version >= VERSION_NET ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

static int begin_ruleset(struct ruleset *ruleset)
{
    long version = create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < VERSION_REFER) {
        return -EOPNOTSUPP; /* without REFER nothing could be renamed into another directory */
    }
    size_t bytes = fill_ruleset(version, ruleset);
    int fd = (int)create_ruleset(ruleset, bytes, 0);
    return fd < 0 ? -errno : fd;
}

static int allow(int ruleset_fd, int dir_fd, uint64_t access)
{
    struct landlock_path_beneath_attr below = {.allowed_access = access, .parent_fd = dir_fd};

    return syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &below, 0) == 0
               ? 0
               : -errno;
}

static int allow_path(int ruleset_fd, const char *path, uint64_t access)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int err = allow(ruleset_fd, fd, access);
    close(fd);
    return err;
}

int sandbox_begin(void)
{
    struct ruleset ruleset;

    long errata = create_ruleset(NULL, 0, CREATE_ERRATA);
    if (errata < 0 || (errata & ERRATUM_DISCONNECTED) == 0) {
        return -EOPNOTSUPP;
    }
    int fd = begin_ruleset(&ruleset);
    if (fd < 0) {
        return fd;
    }
    /* Everything below the root but to execute it. */
    int err = allow_path(fd, "/", ruleset.handled_access_fs & ~LANDLOCK_ACCESS_FS_EXECUTE);
    if (err != 0) {
        close(fd);
        return err;
    }
    return sandbox_restrict(fd);
}

int sandbox_plan(const char *state_dir)
{
    struct ruleset ruleset;
    int err = 0;

    int fd = begin_ruleset(&ruleset);
    if (fd >= 0) {
        err = allow_path(fd, state_dir, ruleset.handled_access_fs & ~LANDLOCK_ACCESS_FS_EXECUTE);
        if (err == 0) {
            err = allow_path(fd, "/proc/self/net", LANDLOCK_ACCESS_FS_READ_FILE);
        }
    }
    if (err != 0) {
        close(fd);
        return err;
    }
    return fd;
}

int sandbox_permit(int ruleset_fd, int dir_fd)
{
    struct ruleset ruleset;

    (void)fill_ruleset(create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), &ruleset);
    return allow(ruleset_fd, dir_fd, ruleset.handled_access_fs & ~LANDLOCK_ACCESS_FS_EXECUTE);
}

int sandbox_restrict(int ruleset_fd)
{
    int err = syscall(SYS_landlock_restrict_self, ruleset_fd, 0) == 0 ? 0 : -errno;
    close(ruleset_fd);
    return err;
}

/* ---- seccomp ---- */

/* Those that libseccomp 2.5.4 does not know; the numbers are the same everywhere. */
#define CALL_FUTEX_WAITV 449
#define CALL_CACHESTAT 451
#define CALL_FCHMODAT2 452
#define CALL_FUTEX_WAKE 454
#define CALL_FUTEX_WAIT 455
#define CALL_FUTEX_REQUEUE 456
#define CALL_MSEAL 462
/* The last one that was known when the lists were written. */
#define CALL_LAST_KNOWN 470

/* What a server does, with memory, threads, files by descriptor, and sockets. */
static const int allowed[] = {
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(access), SCMP_SYS(bind), SCMP_SYS(brk),
    CALL_CACHESTAT, SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(clock_getres),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(close), SCMP_SYS(close_range),
    SCMP_SYS(connect), SCMP_SYS(copy_file_range), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2),
    SCMP_SYS(epoll_wait), SCMP_SYS(eventfd2), SCMP_SYS(exit), SCMP_SYS(exit_group),
    SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fadvise64), SCMP_SYS(fallocate),
    SCMP_SYS(fchmod), SCMP_SYS(fchmodat), CALL_FCHMODAT2, SCMP_SYS(fchown),
    SCMP_SYS(fchownat), SCMP_SYS(fcntl), SCMP_SYS(fdatasync), SCMP_SYS(fgetxattr),
    SCMP_SYS(flistxattr), SCMP_SYS(flock), SCMP_SYS(fremovexattr), SCMP_SYS(fsetxattr),
    SCMP_SYS(fstat), SCMP_SYS(fstatfs), SCMP_SYS(fsync), SCMP_SYS(ftruncate), SCMP_SYS(futex),
    CALL_FUTEX_REQUEUE, CALL_FUTEX_WAIT, CALL_FUTEX_WAITV, CALL_FUTEX_WAKE, SCMP_SYS(getcpu),
    SCMP_SYS(getdents64), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
    SCMP_SYS(getgroups), SCMP_SYS(getpeername), SCMP_SYS(getpid), SCMP_SYS(getppid),
    SCMP_SYS(getrandom), SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt), SCMP_SYS(gettid), SCMP_SYS(gettimeofday), SCMP_SYS(getuid),
    SCMP_SYS(getxattr), SCMP_SYS(lgetxattr), SCMP_SYS(linkat), SCMP_SYS(listen),
    SCMP_SYS(listxattr), SCMP_SYS(llistxattr), SCMP_SYS(lremovexattr), SCMP_SYS(lseek),
    SCMP_SYS(lsetxattr), SCMP_SYS(lstat), SCMP_SYS(madvise), SCMP_SYS(membarrier),
    SCMP_SYS(mincore), SCMP_SYS(mkdirat), SCMP_SYS(mknodat), SCMP_SYS(mremap), CALL_MSEAL,
    SCMP_SYS(munmap),
    SCMP_SYS(name_to_handle_at), SCMP_SYS(nanosleep), SCMP_SYS(newfstatat), SCMP_SYS(open),
    SCMP_SYS(open_by_handle_at), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(pipe2),
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(pread64), SCMP_SYS(preadv), SCMP_SYS(preadv2),
    SCMP_SYS(pselect6), SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(pwritev2),
    SCMP_SYS(quotactl_fd), SCMP_SYS(read), SCMP_SYS(readahead), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(readv), SCMP_SYS(recvfrom), SCMP_SYS(recvmmsg),
    SCMP_SYS(recvmsg), SCMP_SYS(removexattr), SCMP_SYS(renameat), SCMP_SYS(renameat2),
    SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigtimedwait), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_yield),
    SCMP_SYS(select), SCMP_SYS(sendfile), SCMP_SYS(sendmmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto),
    SCMP_SYS(set_robust_list), SCMP_SYS(set_tid_address), SCMP_SYS(setfsgid), SCMP_SYS(setfsuid),
    SCMP_SYS(setgroups), SCMP_SYS(setresgid), SCMP_SYS(setresuid),
    SCMP_SYS(setsockopt), SCMP_SYS(setxattr), SCMP_SYS(shutdown),
    SCMP_SYS(sigaltstack), SCMP_SYS(splice), SCMP_SYS(stat), SCMP_SYS(statfs), SCMP_SYS(statx),
    SCMP_SYS(symlinkat), SCMP_SYS(sync_file_range), SCMP_SYS(syncfs), SCMP_SYS(sysinfo),
    SCMP_SYS(tee), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_gettime), SCMP_SYS(timerfd_settime), SCMP_SYS(umask), SCMP_SYS(uname),
    SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(utimensat), SCMP_SYS(wait4), SCMP_SYS(waitid),
    SCMP_SYS(write), SCMP_SYS(writev),
    /* Older names of what is above. */
    SCMP_SYS(chmod), SCMP_SYS(chown), SCMP_SYS(creat), SCMP_SYS(epoll_create), SCMP_SYS(eventfd),
    SCMP_SYS(getdents), SCMP_SYS(lchown), SCMP_SYS(link), SCMP_SYS(mkdir), SCMP_SYS(mknod),
    SCMP_SYS(pipe), SCMP_SYS(rename), SCMP_SYS(rmdir), SCMP_SYS(symlink), SCMP_SYS(truncate),
    SCMP_SYS(utime), SCMP_SYS(utimes),
};

/* Running programs, looking into processes, changing what is mounted or what the kernel is. */
static const int hostile[] = {
    SCMP_SYS(acct), SCMP_SYS(add_key), SCMP_SYS(adjtimex), SCMP_SYS(bpf), SCMP_SYS(chroot),
    SCMP_SYS(clock_adjtime), SCMP_SYS(clock_settime), SCMP_SYS(delete_module), SCMP_SYS(execve),
    SCMP_SYS(execveat), SCMP_SYS(finit_module), SCMP_SYS(fsconfig), SCMP_SYS(fsmount),
    SCMP_SYS(fsopen), SCMP_SYS(fspick), SCMP_SYS(init_module), SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register), SCMP_SYS(io_uring_setup), SCMP_SYS(ioperm), SCMP_SYS(iopl),
    SCMP_SYS(kcmp), SCMP_SYS(kexec_file_load), SCMP_SYS(kexec_load), SCMP_SYS(keyctl),
    SCMP_SYS(mount), SCMP_SYS(mount_setattr), SCMP_SYS(move_mount), SCMP_SYS(open_tree),
    SCMP_SYS(perf_event_open), SCMP_SYS(personality), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_open),
    SCMP_SYS(pivot_root), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
    SCMP_SYS(ptrace), SCMP_SYS(reboot), SCMP_SYS(request_key), SCMP_SYS(setns),
    SCMP_SYS(settimeofday), SCMP_SYS(swapoff), SCMP_SYS(swapon), SCMP_SYS(umount2),
    SCMP_SYS(unshare), SCMP_SYS(userfaultfd),
};

/* The requests of ioctl(2) that the server makes: sizes of devices, who a file system is, what a
 * socket has not yet sent, which network an address is of, whether standard error is a terminal. */
static const unsigned ioctls[] = {
    BLKGETSIZE64, BLKSSZGET, FIONREAD, SIOCGIFINDEX, SIOCGIFNAME, SIOCOUTQ, TCGETS,
    0x80111500U, /* FS_IOC_GETFSUUID, linux/fs.h */
    0x8100587eU, /* XFS_IOC_FSGEOMETRY, xfs_fs.h */
    0x8400941fU, /* BTRFS_IOC_FS_INFO, linux/btrfs.h */
    0x8008662cU, /* EXT4_IOC_GETFSUUID, ext4.h */
};

static int add(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t count)
{
    int err = 0;

    for (size_t i = 0; i < count && err == 0; i++) {
        err = seccomp_rule_add(filter, action, calls[i], 0);
        err = err == -EDOM ? 0 : err; /* another architecture's */
    }
    return err;
}

/* Threads, and no processes or namespaces. clone3(2) has its flags in memory, which a filter does
 * not see: the C library does with clone(2) where there is no other. */
static int add_threads(scmp_filter_ctx filter)
{
    const scmp_datum_t bad = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                             CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_PTRACE;
    static const scmp_datum_t names[] = {PR_SET_NAME, PR_SET_VMA}; /* of threads, of memory */

    int err = seccomp_rule_add(
        filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
        SCMP_A0(SCMP_CMP_MASKED_EQ, bad | CLONE_THREAD, CLONE_THREAD));
    if (err == 0) {
        err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    }
    /* abort(3) and the timers of threads. */
    if (err == 0) {
        err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                               SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    }
    for (size_t i = 0; i < COUNT_OF(names) && err == 0; i++) {
        err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                               SCMP_A0(SCMP_CMP_EQ, names[i]));
    }
    /* Asking only. */
    if (err == 0) {
        err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                               SCMP_A2(SCMP_CMP_EQ, 0));
    }
    return err;
}

/* Memory that holds code is what the program began with. */
static int add_memory(scmp_filter_ctx filter)
{
    int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                               SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return err != 0 ? err
                    : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* Clients. No local sockets: behind those are programs that do things for root. The C library takes
 * one where any will do, and does with another when it hears that there are none. */
static int add_sockets(scmp_filter_ctx filter)
{
    static const int families[] = {AF_INET, AF_INET6, AF_NETLINK};

    int err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                               SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    for (size_t i = 0; i < COUNT_OF(families) && err == 0; i++) {
        err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                               SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
    }
    for (size_t i = 0; i < COUNT_OF(ioctls) && err == 0; i++) {
        err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                               SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, ioctls[i]));
    }
    return err;
}

/* ---- what is on no list ---- */

#if defined(__x86_64__)
#define RESULT_OF(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define RESULT_OF(context) ((context)->uc_mcontext.regs[0])
#endif

#ifdef RESULT_OF
#define SECCOMP_SENT_IT 1 /* SYS_SECCOMP, asm-generic/siginfo.h */

/* In place of the system call, which becomes its result. A library that tries a new call goes on
 * with an older one if there is none, and not if it may not. log_write takes no lock and no
 * memory. */
static void refuse(int signal_number, siginfo_t *info, void *context)
{
    static atomic_bool was_said[CALL_LAST_KNOWN + 1];
    int call = info->si_syscall;
    int saved = errno;

    (void)signal_number;
    if (info->si_code != SECCOMP_SENT_IT) {
        return;
    }
    bool is_known = call >= 0 && call <= CALL_LAST_KNOWN;
    RESULT_OF((ucontext_t *)context) = is_known ? -EPERM : -ENOSYS;
    if (!atomic_exchange(&was_said[is_known ? call : 0], true)) {
        log_warning("sandbox: system call %d was refused, which is on no list of what the server "
                    "does; this is said once",
                    call);
    }
    errno = saved;
}

static int refuse_aloud(uint32_t *action, uint32_t *kernel_logs)
{
    struct sigaction aloud = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigemptyset(&aloud.sa_mask);
    *action = SCMP_ACT_TRAP;
    *kernel_logs = 0; /* or it would have every thread that is made, see clone3(2) above */
    return sigaction(SIGSYS, &aloud, NULL) == 0 ? 0 : -errno;
}
#else
/* The kernel's log has it, where there is one. */
static int refuse_aloud(uint32_t *action, uint32_t *kernel_logs)
{
    *action = SCMP_ACT_ERRNO(EPERM);
    *kernel_logs = 1;
    return 0;
}
#endif

int sandbox_close(void)
{
    uint32_t action, kernel_logs;

    int err = refuse_aloud(&action, &kernel_logs);
    scmp_filter_ctx filter = err == 0 ? seccomp_init(action) : NULL;
    if (filter == NULL) {
        return err != 0 ? err : -ENOMEM;
    }
    err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (err == 0) {
        err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, kernel_logs);
    }
    if (err == 0) {
        /* Side channels are no concern between threads of one program. */
        err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    }
    if (err == 0) {
        err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    if (err == 0) {
        err = add(filter, SCMP_ACT_ALLOW, allowed, COUNT_OF(allowed));
    }
    if (err == 0) {
        err = add(filter, SCMP_ACT_KILL_PROCESS, hostile, COUNT_OF(hostile));
    }
    if (err == 0) {
        err = add_threads(filter);
    }
    if (err == 0) {
        err = add_memory(filter);
    }
    if (err == 0) {
        err = add_sockets(filter);
    }
    if (err == 0) {
        err = seccomp_load(filter);
    }
    seccomp_release(filter);
    return err;
}
