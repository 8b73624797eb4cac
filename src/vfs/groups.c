/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups that the server's own user database gives a user: exports with `manage_gids`, in place
 * of the sixteen that fit a credential.
 *
 * The database may be as slow as a directory service is, so it is asked, and answers are kept, as
 * ask.h has it: a user who is not known yet waits, some others of the kind are told to come again,
 * and nobody else notices. Who is nobody there is in no groups; that is asked again sooner.
 */
#include "vfs/ask.h"
#include "vfs/internal.h"

#include "base/log.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASSWD_BYTES_MIN 1024U
#define PASSWD_BYTES_MAX (1U << 20)
#define FIRST_COUNT 64
#define ASKED_COUNT_MAX 65536 /* NGROUPS_MAX */

struct group_list {
    uint32_t number; /* of this answer; no other has it */
    uint32_t count;
    uint32_t gids[];
};

static atomic_uint_fast32_t number_last;

/* The name and the first group of a user; the name is freed by the caller. NULL: there is none. */
static char *find_user(uint32_t uid, gid_t *gid)
{
    char *name = NULL;
    for (size_t bytes = PASSWD_BYTES_MIN; bytes <= PASSWD_BYTES_MAX; bytes *= 4) {
        struct passwd user, *found = NULL;
        char *buffer = malloc(bytes);
        int error = buffer != NULL ? getpwuid_r(uid, &user, buffer, bytes, &found) : 0;
        if (found != NULL) {
            name = strdup(user.pw_name);
            *gid = user.pw_gid;
        }
        free(buffer);
        if (error != ERANGE) {
            break;
        }
    }
    return name;
}

/* All groups of a user: an array to be freed, or NULL. */
static gid_t *find_gids(const char *name, gid_t gid, int *count)
{
    gid_t *gids = NULL;
    int room = FIRST_COUNT, found;
    do {
        free(gids);
        gids = calloc((size_t)room, sizeof *gids);
        *count = room;
        found = gids != NULL ? getgrouplist(name, gid, gids, count) : 0;
        room = *count > room ? *count : 2 * room;
    } while (found < 0 && room <= ASKED_COUNT_MAX);
    if (gids == NULL || found < 0) {
        free(gids);
        return NULL;
    }
    return gids;
}

static struct group_list *list_of(uint32_t uid, const gid_t *gids, uint32_t count)
{
    static struct log_limit limit;
    if (count > GROUP_COUNT_MAX) {
        log_write_limited(&limit, LOG_WARNING,
                          "user %u is in %u groups: the first %u of them count", uid, count,
                          GROUP_COUNT_MAX);
        count = GROUP_COUNT_MAX;
    }
    struct group_list *list = malloc(sizeof *list + count * sizeof list->gids[0]);
    if (list != NULL) {
        list->number = (uint32_t)atomic_fetch_add(&number_last, 1) + 1;
        list->count = count;
        memcpy(list->gids, gids, count * sizeof list->gids[0]);
    }
    return list;
}

/* For ask: a key is a uid and zeros. */
static void *find_groups(void *arg, const uint8_t key[ASK_KEY_BYTES])
{
    uint32_t uid;
    gid_t gid = 0;
    int count = 0;
    (void)arg;
    memcpy(&uid, key, sizeof uid);
    char *name = find_user(uid, &gid);
    gid_t *gids = name != NULL ? find_gids(name, gid, &count) : NULL;
    struct group_list *list = gids != NULL ? list_of(uid, gids, (uint32_t)count) : NULL;
    free(gids);
    free(name);
    return list;
}

int groups_open(struct vfs *vfs)
{
    const struct ask_options options = {.find = find_groups, .forget = free};
    vfs->groups = ask_open(&options);
    return vfs->groups != NULL ? 0 : -ENOMEM;
}

int groups_of_user(struct vfs *vfs, uint32_t uid, uint32_t gids[GROUP_COUNT_MAX], uint32_t *count,
                   uint32_t *number)
{
    uint8_t key[ASK_KEY_BYTES] = {0};
    struct ask_entry *entry = NULL;
    const void *answer = NULL;
    *count = 0;
    *number = 0;
    memcpy(key, &uid, sizeof uid);
    int err = ask_get(vfs->groups, key, true, &entry, &answer);
    if (err == 0) {
        const struct group_list *list = answer;
        *count = list->count;
        *number = list->number;
        memcpy(gids, list->gids, list->count * sizeof gids[0]);
        ask_put(vfs->groups, entry);
    }
    return err == -ENOENT ? 0 : err;
}
