/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec.h"

#include "proto/mount.h"
#include "proto/nfs2.h"
#include "proto/nfs3.h"
#include "proto/nfsacl.h"
#include "proto/nlm.h"
#include "proto/nsm.h"
#include "proto/pmap.h"
#include "proto/rpc.h"
#include "proto/rquota.h"
#include "proto/spray.h"
#include "xdr/print.h"

const struct proto_spec *const proto_specs[] = {
    &rpc_spec,  &pmap_spec,   &mount_spec, &nfs2_spec,  &nfs3_spec,
    &nlm_spec,  &nsm_spec,    &spray_spec, &nfsacl_spec, &rquota_spec};
const uint32_t proto_spec_count = COUNT_OF(proto_specs);

static const struct proto_version *version_find(uint32_t prog, uint32_t vers)
{
    for (uint32_t i = 0; i < proto_spec_count; i++) {
        for (uint32_t j = 0; j < proto_specs[i]->version_count; j++) {
            const struct proto_version *version = &proto_specs[i]->versions[j];
            if (version->prog == prog && version->vers == vers) {
                return version;
            }
        }
    }
    return NULL;
}

const struct proto_procedure *proto_procedure_find(uint32_t prog, uint32_t vers, uint32_t proc)
{
    const struct proto_version *version = version_find(prog, vers);
    for (uint32_t i = 0; version != NULL && i < version->procedure_count; i++) {
        if (version->procedures[i].proc == proc) {
            return &version->procedures[i];
        }
    }
    return NULL;
}

/* The three plain types, told once. */
#define PLAIN(NAME, FUNCTION, PRINT)                                                               \
    bool proto_##NAME##_get(struct xdr *xdr, struct proto_##NAME *value)                           \
    {                                                                                              \
        return xdr_get_##FUNCTION(xdr, &value->value);                                             \
    }                                                                                              \
    bool proto_##NAME##_put(struct xdr *xdr, const struct proto_##NAME *value)                     \
    {                                                                                              \
        return xdr_put_##FUNCTION(xdr, value->value);                                              \
    }                                                                                              \
    static bool NAME##_get_any(struct xdr *xdr, void *value)                                       \
    {                                                                                              \
        return proto_##NAME##_get(xdr, value);                                                     \
    }                                                                                              \
    static bool NAME##_put_any(struct xdr *xdr, const void *value)                                 \
    {                                                                                              \
        return proto_##NAME##_put(xdr, value);                                                     \
    }                                                                                              \
    static void NAME##_print_any(FILE *out, int indent, const void *value)                         \
    {                                                                                              \
        xdr_print_##PRINT(out, indent, "value", ((const struct proto_##NAME *)value)->value);      \
    }                                                                                              \
    const struct proto_codec proto_##NAME##_codec = {"proto_" #NAME, sizeof(struct proto_##NAME),  \
                                                     NAME##_get_any, NAME##_put_any,               \
                                                     NAME##_print_any}

PLAIN(bool, bool, bool);
PLAIN(u32, u32, u64);
PLAIN(i32, i32, i64);
