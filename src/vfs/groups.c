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
#include "vfs/outside.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(GROUP_COUNT_MAX <= OUTSIDE_GROUP_COUNT_MAX, "all that count are told");

struct group_list {
    uint32_t number; /* of this answer; no other has it */
    uint32_t count;
    uint32_t gids[];
};

static atomic_uint_fast32_t number_last;

static struct group_list *list_of(uint32_t uid, const uint32_t *gids, uint32_t count)
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
    struct outside_groups *found = malloc(sizeof *found);
    struct group_list *list = NULL;
    uint32_t uid;
    (void)arg;
    memcpy(&uid, key, sizeof uid);
    if (found != NULL && outside_groups(uid, found) == 0) {
        list = list_of(uid, found->gids, found->count);
    }
    free(found);
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
