/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intervals of 64-bit numbers in order of their starts, for questions of overlap. A treap whose
 * nodes know the largest end below them; the nodes are the caller's.
 *
 * `rank` decides the shape and must not be guessable by whoever chooses the intervals, or the tree
 * becomes a list. `serial` tells intervals of the same start apart and is unique in a tree.
 */
#ifndef VFS_RANGE_TREE_H
#define VFS_RANGE_TREE_H

#include <stdint.h>

struct range_node {
    struct range_node *left, *right;
    uint64_t start;
    uint64_t end; /* inclusive */
    uint64_t end_max;
    uint64_t serial;
    uint64_t rank;
};

/* start, end, serial and rank are set. They do not change while the node is in the tree. */
void range_tree_insert(struct range_node **root, struct range_node *node);
void range_tree_remove(struct range_node **root, struct range_node *node);

/* The first interval, by (start, serial), that overlaps start..end. NULL: there is none. */
struct range_node *range_tree_first(struct range_node *root, uint64_t start, uint64_t end);
/* The first of those behind the node, which may be out of the tree by now. */
struct range_node *range_tree_next(struct range_node *root, const struct range_node *node,
                                   uint64_t start, uint64_t end);

#endif
