/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters: their line, who must stand in it (rule 3), and circles of waits (rule 4).
 */
#include "vfs/range_table.h"

#include <stdlib.h>

static bool overlap(const struct range_request *a, const struct range_request *b)
{
    return a->start <= b->end && b->start <= a->end;
}

struct range_wait *range_wait_next(const struct range_file *file, const struct range_wait *wait)
{
    const struct range_list *next = wait != NULL ? wait->in_file.next : file->waits.next;
    return next != &file->waits ? RANGE_OF(next, range_wait, in_file) : NULL;
}

struct range_wait *range_wait_find(const struct range_file *file, const struct range_owner *owner,
                                   const struct range_request *request)
{
    struct range_wait *wait = NULL;
    while ((wait = range_wait_next(file, wait)) != NULL) {
        if (wait->owner == owner && wait->request.exclusive == request->exclusive &&
            wait->request.start == request->start && wait->request.end == request->end) {
            return wait;
        }
    }
    return NULL;
}

struct range_wait *range_wait_add(struct range_table *table, struct range_file *file,
                                  struct range_owner *owner, const struct range_request *request,
                                  void *arg)
{
    if (!range_has_room(table, owner->client) || file->wait_count >= RANGE_FILE_WAIT_COUNT_MAX) {
        return NULL;
    }
    struct range_wait *wait = calloc(1, sizeof *wait);
    if (wait != NULL) {
        wait->file = file;
        wait->owner = owner;
        wait->request = *request;
        wait->serial = ++table->serial;
        wait->arg = arg;
        range_list_append(&file->waits, &wait->in_file);
        range_list_append(&owner->waits, &wait->in_owner);
        file->wait_count++;
        table->wait_count++;
        range_count(table, owner->client, 1);
    }
    return wait;
}

void range_wait_remove(struct range_table *table, struct range_wait *wait)
{
    range_list_remove(&wait->in_file);
    range_list_remove(&wait->in_owner);
    wait->file->wait_count--;
    table->wait_count--;
    range_count(table, wait->owner->client, -1);
    free(wait);
}

bool range_must_queue(const struct range_file *file, const struct range_owner *owner,
                      const struct range_request *request, const struct range_wait *before)
{
    if (!range_list_is_empty(&owner->holds)) {
        return false;
    }
    struct range_wait *wait = NULL;
    while ((wait = range_wait_next(file, wait)) != before) {
        if (wait->owner != owner && overlap(&wait->request, request) &&
            (wait->request.exclusive || request->exclusive)) {
            return true;
        }
    }
    return false;
}

/* ---- circles: breadth first from the request, over who holds what each waits for ---- */

struct search {
    struct range_table *table;
    const struct range_owner *origin;
    struct range_owner *first, *last; /* found, and not yet looked at */
    uint32_t steps_left;
};

/* False: the origin was met. */
static bool meet(struct search *search, struct range_owner *owner)
{
    if (owner == search->origin) {
        return false;
    }
    if (owner->searched != search->table->search) {
        owner->searched = search->table->search;
        owner->search_next = NULL;
        if (search->first == NULL) {
            search->first = owner;
        } else {
            search->last->search_next = owner;
        }
        search->last = owner;
    }
    return true;
}

/* Meets all who hold what `owner` asks for. */
static bool meet_holders(struct search *search, const struct range_file *file,
                         const struct range_owner *owner, const struct range_request *request)
{
    for (int exclusive = request->exclusive ? 0 : 1; exclusive <= 1; exclusive++) {
        struct range_node *root = file->held[exclusive];
        struct range_node *node = range_tree_first(root, request->start, request->end);
        for (; node != NULL && search->steps_left > 0; search->steps_left--) {
            struct range_owner *holder =
                CONTAINER_OF(node, struct range_lock, in_file)->hold->owner;
            if (holder != owner && !meet(search, holder)) {
                return false;
            }
            node = range_tree_next(root, node, request->start, request->end);
        }
    }
    return true;
}

bool range_makes_circle(struct range_table *table, const struct range_file *file,
                        const struct range_owner *owner, const struct range_request *request)
{
    struct search search = {.table = table, .origin = owner, .steps_left = RANGE_CIRCLE_STEPS_MAX};
    table->search++;
    bool clear = meet_holders(&search, file, owner, request);
    while (clear && search.first != NULL && search.steps_left > 0) {
        struct range_owner *next = search.first;
        search.first = next->search_next;
        struct range_list *item = next->waits.next;
        for (; clear && item != &next->waits && search.steps_left > 0; item = item->next) {
            const struct range_wait *wait = RANGE_OF(item, range_wait, in_owner);
            search.steps_left--;
            clear = meet_holders(&search, wait->file, next, &wait->request);
        }
    }
    return !clear;
}
