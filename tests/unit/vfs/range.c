/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of byte-range locks against a model that keeps a letter per owner and byte.
 *
 * The model's files have PLACES bytes; the last place stands for everything up to the end. A
 * failure prints the seed.
 */
#include "vfs/range.h"
#include "lib/unit.h"

#include <errno.h>
#include <stdio.h>

#define OWNERS 5
#define FILES 2
#define PLACES 14
#define STEPS 40000
#define WAITS 6

static const uint8_t hash_key[RANGE_HASH_KEY_BYTES] = "0123456789abcde";

struct model_wait {
    bool used;
    int owner, file;
    bool exclusive;
    int first, last;
    uint64_t serial;
    struct range_wait *wait;
};

struct model {
    struct range_table *table;
    char held[OWNERS][FILES][PLACES]; /* 0, 'r', 'w' */
    struct model_wait waits[WAITS];
};

static uint64_t place_start(int place)
{
    return place == PLACES - 1 ? UINT64_MAX / 2 : (uint64_t)place;
}

static uint64_t place_end(int place)
{
    return place == PLACES - 1   ? RANGE_END
           : place == PLACES - 2 ? UINT64_MAX / 2 - 1
                                 : (uint64_t)place;
}

static struct range_bytes word(const int *value)
{
    return (struct range_bytes){value, sizeof *value};
}

static struct range_file *file_of(struct model *model, int file)
{
    struct range_file *found = range_file_obtain(model->table, word(&file));
    assert_non_null(found);
    return found;
}

/* Owners 0 and 1 are of one client, and so on. */
static struct range_owner *owner_of(struct model *model, int owner)
{
    int client = owner / 2;
    struct range_owner *found = range_owner_obtain(model->table, word(&client), word(&owner));
    assert_non_null(found);
    return found;
}

static void put(struct model *model, struct range_file *file, struct range_owner *owner)
{
    (void)range_file_put(model->table, file);
    (void)range_owner_put(model->table, owner);
}

static bool model_conflict(const struct model *model, int owner, int file, bool exclusive,
                           int first, int last)
{
    for (int other = 0; other < OWNERS; other++) {
        for (int place = first; place <= last && other != owner; place++) {
            char held = model->held[other][file][place];
            if (held == 'w' || (held == 'r' && exclusive)) {
                return true;
            }
        }
    }
    return false;
}

static bool model_holds_anything(const struct model *model, int owner)
{
    for (int file = 0; file < FILES; file++) {
        for (int place = 0; place < PLACES; place++) {
            if (model->held[owner][file][place] != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Rule 3 of range.h, read aloud. */
static bool model_must_queue(const struct model *model, int owner, int file, bool exclusive,
                             int first, int last)
{
    if (model_holds_anything(model, owner)) {
        return false;
    }
    for (int i = 0; i < WAITS; i++) {
        const struct model_wait *wait = &model->waits[i];
        if (wait->used && wait->owner != owner && wait->file == file && wait->first <= last &&
            first <= wait->last && (wait->exclusive || exclusive)) {
            return true;
        }
    }
    return false;
}

/* Who waits for whom, closed under "and so on"; what the owner waits for already does not count. */
static bool model_circle(const struct model *model, int owner, int file, bool exclusive, int first,
                         int last)
{
    bool edge[OWNERS][OWNERS] = {{false}};
    for (int i = -1; i < WAITS; i++) {
        struct model_wait asked = {true, owner, file, exclusive, first, last, 0, NULL};
        const struct model_wait *wait = i < 0 ? &asked : &model->waits[i];
        bool counts = wait->used && (i < 0 || wait->owner != owner);
        for (int other = 0; counts && other < OWNERS; other++) {
            for (int place = wait->first; place <= wait->last && other != wait->owner; place++) {
                char held = model->held[other][wait->file][place];
                edge[wait->owner][other] |= held == 'w' || (held == 'r' && wait->exclusive);
            }
        }
    }
    for (int k = 0; k < OWNERS; k++) {
        for (int i = 0; i < OWNERS; i++) {
            for (int j = 0; j < OWNERS; j++) {
                edge[i][j] |= edge[i][k] && edge[k][j];
            }
        }
    }
    return edge[owner][owner];
}

/* The table holds what the model holds, each lock once, as long as it can be. */
static void compare_owner(struct model *model, int owner, int file, uint32_t *count)
{
    char seen[PLACES] = {0};
    struct range_file *where = file_of(model, file);
    struct range_owner *who = owner_of(model, owner);
    struct range_hold *hold = range_hold_find(model->table, where, who);
    const struct range_lock *before = NULL;
    struct range_node *node = hold == NULL ? NULL : range_tree_first(hold->locks, 0, RANGE_END);
    while (node != NULL) {
        const struct range_lock *lock = CONTAINER_OF(node, struct range_lock, in_hold);
        for (int place = 0; place < PLACES; place++) {
            if (place_start(place) >= node->start && place_end(place) <= node->end) {
                assert_int_equal(seen[place], 0);
                seen[place] = lock->exclusive ? 'w' : 'r';
            }
        }
        if (before != NULL) {
            assert_true(before->in_hold.end < node->start);
            assert_true(before->in_hold.end + 1 < node->start ||
                        before->exclusive != lock->exclusive);
        }
        before = lock;
        ++*count;
        node = range_tree_next(hold->locks, node, 0, RANGE_END);
    }
    assert_memory_equal(seen, model->held[owner][file], PLACES);
    put(model, where, who);
}

static void compare_gaps(struct model *model, int file, int first, int last)
{
    struct range_file *where = file_of(model, file);
    uint64_t start, end;
    int at = first;
    uint64_t from = place_start(first);
    while (range_gap(where, from, place_end(last), &start, &end)) {
        while (at <= last && !model_conflict(model, -1, file, true, at, at) &&
               place_start(at) < start) {
            fail_msg("a gap is missing at place %d", at);
        }
        while (at <= last && model_conflict(model, -1, file, true, at, at)) {
            at++;
        }
        assert_true(at <= last);
        assert_true(place_start(at) == start);
        while (at < last && !model_conflict(model, -1, file, true, at + 1, at + 1)) {
            at++;
        }
        assert_true(place_end(at) == end);
        at++;
        if (end == place_end(last)) {
            break;
        }
        from = end + 1;
    }
    while (at <= last) {
        assert_true(model_conflict(model, -1, file, true, at, at));
        at++;
    }
    (void)range_file_put(model->table, where);
}

static void compare(struct model *model)
{
    uint32_t count = 0;
    for (int owner = 0; owner < OWNERS; owner++) {
        for (int file = 0; file < FILES; file++) {
            compare_owner(model, owner, file, &count);
        }
    }
    for (int i = 0; i < WAITS; i++) {
        count += model->waits[i].used;
    }
    assert_int_equal(model->table->count, count);
}

struct step {
    int owner, file, first, last;
    bool exclusive;
    struct range_request request;
};

static void try_set(struct model *model, const struct step *step, struct range_file *file,
                    struct range_owner *owner)
{
    bool conflict =
        model_conflict(model, step->owner, step->file, step->exclusive, step->first, step->last);
    const struct range_lock *found = range_conflict(file, owner, &step->request);
    assert_int_equal(found != NULL, conflict);
    if (found != NULL) {
        assert_ptr_not_equal(found->hold->owner, owner);
        assert_true(found->in_file.start <= step->request.end &&
                    found->in_file.end >= step->request.start);
        return;
    }
    assert_int_equal(
        range_must_queue(file, owner, &step->request, NULL),
        model_must_queue(model, step->owner, step->file, step->exclusive, step->first, step->last));
    assert_int_equal(range_set(model->table, file, owner, &step->request), 0);
    for (int place = step->first; place <= step->last; place++) {
        model->held[step->owner][step->file][place] = step->exclusive ? 'w' : 'r';
    }
}

static void try_wait(struct model *model, const struct step *step, struct range_file *file,
                     struct range_owner *owner)
{
    assert_int_equal(
        range_makes_circle(model->table, file, owner, &step->request),
        model_circle(model, step->owner, step->file, step->exclusive, step->first, step->last));
    if (range_wait_find(file, owner, &step->request) != NULL) {
        return;
    }
    for (int i = 0; i < WAITS; i++) {
        struct model_wait *wait = &model->waits[i];
        if (!wait->used) {
            *wait = (struct model_wait){true,        step->owner, step->file, step->exclusive,
                                        step->first, step->last,  0,          NULL};
            wait->wait = range_wait_add(model->table, file, owner, &step->request, wait);
            assert_non_null(wait->wait);
            assert_ptr_equal(range_wait_find(file, owner, &step->request), wait->wait);
            return;
        }
    }
}

static void end_wait(struct model *model, int index)
{
    struct model_wait *wait = &model->waits[index];
    if (wait->used) {
        struct range_file *file = wait->wait->file;
        struct range_owner *owner = wait->wait->owner;
        range_wait_remove(model->table, wait->wait);
        wait->used = false;
        put(model, file, owner);
    }
}

static void one_step(struct model *model, uint64_t *random)
{
    struct step step = {.owner = (int)(unit_random(random) % OWNERS),
                        .file = (int)(unit_random(random) % FILES),
                        .first = (int)(unit_random(random) % PLACES),
                        .exclusive = unit_random(random) % 3 == 0};
    step.last = step.first + (int)(unit_random(random) % (uint64_t)(PLACES - step.first));
    step.request =
        (struct range_request){step.exclusive, place_start(step.first), place_end(step.last)};
    struct range_file *file = file_of(model, step.file);
    struct range_owner *owner = owner_of(model, step.owner);
    switch (unit_random(random) % 8) {
    case 0:
    case 1:
    case 2:
        assert_int_equal(
            range_clear(model->table, file, owner, step.request.start, step.request.end), 0);
        memset(&model->held[step.owner][step.file][step.first], 0,
               (size_t)(step.last - step.first + 1));
        break;
    case 3:
        try_wait(model, &step, file, owner);
        break;
    case 4:
        compare_gaps(model, step.file, step.first, step.last);
        file = file_of(model, step.file); /* the comparison may have let go of it */
        break;
    default:
        try_set(model, &step, file, owner);
    }
    put(model, file, owner);
    if (unit_random(random) % 6 == 0) {
        end_wait(model, (int)(unit_random(random) % WAITS));
    }
}

static void agrees_with_a_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct model model = {.table = range_table_new(hash_key)};
        uint64_t random = seed;
        assert_non_null(model.table);
        print_message("seed %d\n", (int)seed);
        for (int i = 0; i < STEPS / 5; i++) {
            one_step(&model, &random);
            compare(&model);
        }
        range_table_free(model.table);
    }
}

/* ---- by hand ---- */

static struct range_table *table;
static const int ids[] = {0, 1, 2, 3, 4};

static struct range_owner *owner(int i)
{
    struct range_owner *found = range_owner_obtain(table, word(&ids[i]), word(&ids[i]));
    assert_non_null(found);
    return found;
}

static int begin(void **state)
{
    (void)state;
    table = range_table_new(hash_key);
    return table == NULL;
}

static int end(void **state)
{
    (void)state;
    range_table_free(table);
    return 0;
}

static void waiters_stand_in_line(void **state)
{
    (void)state;
    struct range_file *file = range_file_obtain(table, word(&ids[0]));
    const struct range_request write = {true, 0, 9}, read = {false, 5, 5}, far = {false, 10, 19};
    struct range_owner *reader = owner(0), *writer = owner(1), *late = owner(2), *busy = owner(3);
    assert_int_equal(range_set(table, file, reader, &read), 0);
    struct range_wait *first = range_wait_add(table, file, writer, &write, NULL);
    struct range_wait *second = range_wait_add(table, file, late, &read, NULL);
    assert_ptr_equal(range_wait_next(file, NULL), first);
    assert_ptr_equal(range_wait_next(file, first), second);
    assert_null(range_wait_next(file, second));
    /* A new reader would starve the writer; one who holds something already might free it. */
    assert_null(range_conflict(file, late, &read));
    assert_true(range_must_queue(file, late, &read, NULL));
    assert_true(range_must_queue(file, late, &read, second));
    assert_false(range_must_queue(file, writer, &write, first));
    assert_false(range_must_queue(file, late, &far, NULL));
    assert_int_equal(range_set(table, file, busy, &far), 0);
    assert_false(range_must_queue(file, busy, &read, NULL));
    assert_false(range_must_queue(file, reader, &read, NULL));
}

static void a_circle_of_three_is_seen(void **state)
{
    (void)state;
    struct range_file *file = range_file_obtain(table, word(&ids[0]));
    struct range_request at[3] = {{true, 0, 0}, {true, 1, 1}, {true, 2, RANGE_END}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(range_set(table, file, owner(i), &at[i]), 0);
    }
    assert_false(range_makes_circle(table, file, owner(0), &at[1]));
    assert_non_null(range_wait_add(table, file, owner(0), &at[1], NULL));
    assert_false(range_makes_circle(table, file, owner(1), &at[2]));
    assert_non_null(range_wait_add(table, file, owner(1), &at[2], NULL));
    assert_true(range_makes_circle(table, file, owner(2), &at[0]));
    assert_false(range_makes_circle(table, file, owner(3), &at[0]));
}

static void limits_hold(void **state)
{
    (void)state;
    struct range_file *file = range_file_obtain(table, word(&ids[0]));
    struct range_request one = {false, 0, 0};
    table->client_count_max = 3;
    for (uint64_t i = 0; i < 3; i++) {
        one.start = one.end = 2 * i;
        assert_int_equal(range_set(table, file, owner(0), &one), 0);
    }
    one.start = one.end = 6;
    assert_int_equal(range_set(table, file, owner(0), &one), -ENOLCK);
    assert_null(range_wait_add(table, file, owner(0), &one, NULL));
    assert_int_equal(table->count, 3);
    /* Others are not touched by it, until the table is full. */
    assert_int_equal(range_set(table, file, owner(1), &one), 0);
    table->count_max = 5;
    one.start = one.end = 8;
    assert_int_equal(range_set(table, file, owner(1), &one), -ENOLCK);
    /* What is held can always be given back, also when that splits it. */
    one = (struct range_request){false, 100, 200};
    table->count_max = 100;
    assert_int_equal(range_set(table, file, owner(1), &one), 0);
    table->count_max = 5;
    assert_int_equal(range_clear(table, file, owner(1), 150, 150), 0);
    assert_int_equal(table->count, 6);
    assert_int_equal(range_clear(table, file, owner(0), 0, RANGE_END), 0);
    assert_int_equal(range_clear(table, file, owner(1), 0, RANGE_END), 0);
    assert_int_equal(table->count, 0);
    assert_true(range_file_put(table, file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_model),
        cmocka_unit_test_setup_teardown(waiters_stand_in_line, begin, end),
        cmocka_unit_test_setup_teardown(a_circle_of_three_is_seen, begin, end),
        cmocka_unit_test_setup_teardown(limits_hold, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
