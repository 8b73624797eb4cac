/* SPDX-License-Identifier: Apache-2.0 */
#include "vfs/range_tree.h"

#include <stdbool.h>
#include <stddef.h>

static bool is_before(uint64_t start, uint64_t serial, const struct range_node *node)
{
    return start < node->start || (start == node->start && serial < node->serial);
}

static void update(struct range_node *node)
{
    node->end_max = node->end;
    if (node->left != NULL && node->left->end_max > node->end_max) {
        node->end_max = node->left->end_max;
    }
    if (node->right != NULL && node->right->end_max > node->end_max) {
        node->end_max = node->right->end_max;
    }
}

/* Those before (start, serial) to the left, the others to the right. */
static void split(struct range_node *root, const struct range_node *at, struct range_node **left,
                  struct range_node **right)
{
    if (root == NULL) {
        *left = NULL;
        *right = NULL;
    } else if (is_before(at->start, at->serial, root)) {
        split(root->left, at, left, &root->left);
        *right = root;
        update(root);
    } else {
        split(root->right, at, &root->right, right);
        *left = root;
        update(root);
    }
}

static struct range_node *join(struct range_node *left, struct range_node *right)
{
    if (left == NULL || right == NULL) {
        return left != NULL ? left : right;
    }
    if (left->rank > right->rank) {
        left->right = join(left->right, right);
        update(left);
        return left;
    }
    right->left = join(left, right->left);
    update(right);
    return right;
}

void range_tree_insert(struct range_node **root, struct range_node *node)
{
    struct range_node *top = *root;
    if (top == NULL || node->rank > top->rank) {
        split(top, node, &node->left, &node->right);
        *root = node;
        update(node);
        return;
    }
    range_tree_insert(is_before(node->start, node->serial, top) ? &top->left : &top->right, node);
    update(top);
}

void range_tree_remove(struct range_node **root, struct range_node *node)
{
    struct range_node *top = *root;
    if (top == node) {
        *root = join(node->left, node->right);
        return;
    }
    range_tree_remove(is_before(node->start, node->serial, top) ? &top->left : &top->right, node);
    update(top);
}

/* The first that overlaps and does not come before (from, serial). */
static struct range_node *find(struct range_node *root, uint64_t from, uint64_t serial,
                               uint64_t start, uint64_t end)
{
    if (root == NULL || root->end_max < start) {
        return NULL;
    }
    bool behind = !is_before(root->start, root->serial,
                             &(struct range_node){.start = from, .serial = serial});
    if (behind) {
        struct range_node *found = find(root->left, from, serial, start, end);
        if (found != NULL) {
            return found;
        }
        if (root->start > end) {
            return NULL;
        }
        if (root->end >= start) {
            return root;
        }
    }
    return find(root->right, from, serial, start, end);
}

struct range_node *range_tree_first(struct range_node *root, uint64_t start, uint64_t end)
{
    return find(root, 0, 0, start, end);
}

struct range_node *range_tree_next(struct range_node *root, const struct range_node *node,
                                   uint64_t start, uint64_t end)
{
    return find(root, node->start, node->serial + 1, start, end);
}
