/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of vfs/range* share. */
#ifndef VFS_RANGE_TABLE_H
#define VFS_RANGE_TABLE_H

#include "vfs/range.h"

static inline void range_list_init(struct range_list *list)
{
    list->next = list->prev = list;
}

static inline void range_list_append(struct range_list *list, struct range_list *item)
{
    item->next = list;
    item->prev = list->prev;
    list->prev->next = item;
    list->prev = item;
}

static inline void range_list_remove(struct range_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
}

static inline bool range_list_is_empty(const struct range_list *list)
{
    return list->next == list;
}

/* One more lock or waiter of the client: whether the limits allow it. */
bool range_has_room(const struct range_table *table, const struct range_client *client);
void range_count(struct range_table *table, struct range_client *client, int32_t more);

struct range_hold *range_hold_obtain(struct range_table *table, struct range_file *file,
                                     struct range_owner *owner);
void range_hold_put(struct range_table *table, struct range_hold *hold);

#endif
