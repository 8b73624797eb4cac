/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/privs.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (1ULL << (capability))

/* What serving needs: to open by handle and be root on no_root_squash exports (what a local root
 * may do with files and nothing else), and to take a caller's identity. */
#define CAPS_SERVE                                                                                 \
    (BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) |         \
     BIT(CAP_FSETID) | BIT(CAP_MKNOD) | BIT(CAP_SETUID) | BIT(CAP_SETGID))
/* To enter the jail. */
#define CAPS_OPEN (BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_CHROOT))
/* Ports below 1024; socket buffers as large as the largest datagram burst. */
#define CAPS_BIND (BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_NET_ADMIN))

static int keep_only(uint64_t kept, struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

    if (syscall(SYS_capget, &head, data) != 0) {
        return err_set(err, -errno, "cannot read the process's capabilities: %s", strerror(errno));
    }
    for (unsigned i = 0; i < COUNT_OF(data); i++) {
        uint32_t word = (uint32_t)(kept >> (32 * i));
        data[i].permitted &= word;
        data[i].effective &= word;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, data) != 0) {
        return err_set(err, -errno, "cannot drop capabilities: %s", strerror(errno));
    }
    return 0;
}

static int keep_in_helper(uint64_t kept)
{
    struct err err = {0};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return -errno;
    }
    return keep_only(kept, &err);
}

int privs_opener(void)
{
    return keep_in_helper(CAPS_OPEN | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH));
}

int privs_finder(void)
{
    return keep_in_helper(BIT(CAP_DAC_READ_SEARCH));
}

void privs_ignore_stops(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        (void)signal(numbers[i], SIG_IGN);
    }
}

/*
 * A client on this machine (a loopback mount) has dirty pages of its own, which only our writes can
 * clean. Were these held back while the machine has many dirty pages, both would wait for ever. An
 * IO_FLUSHER is held back only by what its own device has to write, and needs no I/O to get memory.
 * All threads inherit it. Without CAP_SYS_RESOURCE, or before Linux 5.6, it does not work, and a
 * loopback mount may get slow.
 */
static void be_io_flusher(void)
{
    (void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
}

int privs_begin(struct err *err)
{
    be_io_flusher();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return err_set(err, -errno, "cannot set no_new_privs: %s", strerror(errno));
    }
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return err_set(err, -errno, "cannot forbid core images: %s", strerror(errno));
    }
    return keep_only(CAPS_SERVE | CAPS_OPEN | CAPS_BIND, err);
}

int privs_bound(struct err *err)
{
    return keep_only(CAPS_SERVE | CAPS_OPEN, err);
}

int privs_opened(struct err *err)
{
    return keep_only(CAPS_SERVE, err);
}
