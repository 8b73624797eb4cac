/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attributes.h"

#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    char letter;
} types[] = {
    [NF3REG] = {"file", '-'},  [NF3DIR] = {"directory", 'd'}, [NF3BLK] = {"block", 'b'},
    [NF3CHR] = {"char", 'c'},  [NF3LNK] = {"symlink", 'l'},   [NF3SOCK] = {"socket", 's'},
    [NF3FIFO] = {"fifo", 'p'},
};

const char *attributes_type_name(enum ftype3 type)
{
    return types[type].name;
}

void attributes_mode_text(const struct fattr3 *attr, char text[11])
{
    static const char letters[] = "rwxrwxrwx";

    text[0] = types[attr->type].letter;
    for (unsigned i = 0; i < 9; i++) {
        text[1 + i] = (attr->mode & (0400U >> i)) != 0 ? letters[i] : '-';
    }
    const struct {
        uint32_t bit;
        unsigned place;
        char with, without; /* execute permission */
    } specials[] = {{04000, 3, 's', 'S'}, {02000, 6, 's', 'S'}, {01000, 9, 't', 'T'}};
    for (size_t i = 0; i < COUNT_OF(specials); i++) {
        if ((attr->mode & specials[i].bit) != 0) {
            char *letter = &text[specials[i].place];
            *letter = *letter == 'x' ? specials[i].with : specials[i].without;
        }
    }
    text[10] = '\0';
}

void attributes_time_text(const struct nfstime3 *time, bool with_ns, char text[64])
{
    time_t seconds = time->seconds;
    struct tm tm;
    char zone[16] = "";

    (void)localtime_r(&seconds, &tm);
    size_t size = strftime(text, 64, with_ns ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M", &tm);
    if (with_ns) {
        (void)strftime(zone, sizeof zone, "%z", &tm);
        (void)snprintf(text + size, 64 - size, ".%09u %s", time->nseconds, zone);
    }
}

static void report_time(struct report *object, const char *key, const struct nfstime3 *time)
{
    struct report *report = report_add_object(object, key);
    report_add_u64(report, "seconds", time->seconds);
    report_add_u64(report, "nseconds", time->nseconds);
}

void attributes_report(struct report *object, const struct fattr3 *attr)
{
    report_add_text(object, "type", attributes_type_name(attr->type));
    report_add_u64(object, "mode", attr->mode);
    report_add_u64(object, "nlink", attr->nlink);
    report_add_u64(object, "uid", attr->uid);
    report_add_u64(object, "gid", attr->gid);
    report_add_u64(object, "size", attr->size);
    report_add_u64(object, "used", attr->used);
    struct report *rdev = report_add_object(object, "rdev");
    report_add_u64(rdev, "major", attr->rdev.specdata1);
    report_add_u64(rdev, "minor", attr->rdev.specdata2);
    report_add_u64(object, "fsid", attr->fsid);
    report_add_u64(object, "fileid", attr->fileid);
    report_time(object, "atime", &attr->atime);
    report_time(object, "mtime", &attr->mtime);
    report_time(object, "ctime", &attr->ctime);
}
