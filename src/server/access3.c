/* SPDX-License-Identifier: Apache-2.0 */
#include "server/access3.h"

#include "proto/nfs3.h"

/* RFC 1813 §3.3.4: what each bit asks of the file system. A bit without a column has no meaning
 * for that kind of object and is never granted: DELETE on a file is the directory's affair. */
static const struct access_row {
    uint32_t bit;
    uint32_t dir;
    uint32_t file;
} access_rows[] = {
    {ACCESS3_READ, VFS_MAY_READ, VFS_MAY_READ},
    {ACCESS3_LOOKUP, VFS_MAY_EXEC, 0},
    {ACCESS3_MODIFY, VFS_MAY_WRITE | VFS_MAY_EXEC, VFS_MAY_WRITE},
    {ACCESS3_EXTEND, VFS_MAY_WRITE | VFS_MAY_EXEC, VFS_MAY_WRITE},
    {ACCESS3_DELETE, VFS_MAY_WRITE | VFS_MAY_EXEC, 0},
    {ACCESS3_EXECUTE, 0, VFS_MAY_EXEC},
};

uint32_t access3_wanted(uint32_t bits)
{
    uint32_t want = 0;
    for (size_t i = 0; i < COUNT_OF(access_rows); i++) {
        if (bits & access_rows[i].bit) {
            want |= access_rows[i].dir | access_rows[i].file;
        }
    }
    return want;
}

uint32_t access3_granted(uint32_t bits, enum vfs_type type, uint32_t granted)
{
    uint32_t access = 0;
    for (size_t i = 0; i < COUNT_OF(access_rows); i++) {
        const struct access_row *row = &access_rows[i];
        uint32_t need = type == VFS_DIR ? row->dir : row->file;
        if ((bits & row->bit) && need != 0 && (granted & need) == need) {
            access |= row->bit;
        }
    }
    return access;
}
