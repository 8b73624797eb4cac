/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rto.h"

#include "proto/nfs2.h"
#include "proto/nfs3.h"

#define BACKOFF_MAX 8U

enum { META = 1, LOOKUP = 2, READ = 3, WRITE = 4, COMMIT = 5 };

static const uint8_t nfs3_classes[] = {
    [NFSPROC3_GETATTR] = META,  [NFSPROC3_LOOKUP] = LOOKUP,    [NFSPROC3_ACCESS] = META,
    [NFSPROC3_READLINK] = READ, [NFSPROC3_READ] = READ,        [NFSPROC3_WRITE] = WRITE,
    [NFSPROC3_READDIR] = READ,  [NFSPROC3_READDIRPLUS] = READ, [NFSPROC3_COMMIT] = COMMIT,
};

static const uint8_t nfs2_classes[] = {
    [NFSPROC_GETATTR] = META, [NFSPROC_LOOKUP] = LOOKUP, [NFSPROC_READLINK] = READ,
    [NFSPROC_READ] = READ,    [NFSPROC_WRITE] = WRITE,   [NFSPROC_READDIR] = READ,
};

uint32_t client_rto_class(uint32_t prog, uint32_t vers, uint32_t proc)
{
    if (prog == NFS_PROGRAM && vers == NFS_V3 && proc < COUNT_OF(nfs3_classes)) {
        return nfs3_classes[proc];
    }
    if (prog == NFS_PROGRAM && vers == NFS_VERSION && proc < COUNT_OF(nfs2_classes)) {
        return nfs2_classes[proc];
    }
    return RTO_CLASS_NONE;
}

int64_t client_rto_timeout_ns(const struct rto *rto, int64_t timeo_ns, int64_t min_ns,
                              int64_t max_ns)
{
    int64_t timeout_ns = timeo_ns;

    if (rto->mean_ns > 0) {
        int64_t margin_ns = 4 * rto->deviation_ns;
        timeout_ns = rto->mean_ns + (margin_ns > min_ns ? margin_ns : min_ns);
        timeout_ns <<= rto->backoff;
    }
    return timeout_ns > max_ns ? max_ns : timeout_ns;
}

void client_rto_replied(struct rto *rto, int64_t wait_ns, uint32_t sent)
{
    if (sent != 1) {
        return;
    }
    rto->backoff = 0;
    if (rto->mean_ns == 0) {
        rto->mean_ns = wait_ns > 0 ? wait_ns : 1;
        rto->deviation_ns = wait_ns / 2;
        return;
    }
    int64_t error_ns = wait_ns - rto->mean_ns;
    rto->mean_ns += error_ns / 8;
    rto->mean_ns = rto->mean_ns > 0 ? rto->mean_ns : 1;
    rto->deviation_ns += ((error_ns < 0 ? -error_ns : error_ns) - rto->deviation_ns) / 4;
}

void client_rto_timed_out(struct rto *rto, uint32_t count)
{
    if (count > rto->backoff && rto->backoff < BACKOFF_MAX) {
        rto->backoff++;
    }
}
