/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/disk_sim.h"

#include "lib/unit.h"

#include <errno.h>
#include <pthread.h>

#define SECTOR_BYTES 512U

struct unflushed {
    struct unflushed *next;
    uint64_t offset;
    size_t size_bytes;
    uint8_t bytes[];
};

struct disk_sim {
    struct disk disk;
    pthread_mutex_t lock;
    uint8_t *bytes;  /* what a read gives */
    uint8_t *stable; /* what was flushed */
    struct unflushed *unflushed;
    uint64_t count, cut_at, fail_at;
    int fail_error;
    bool off;
    bool lies;
};

static struct disk_sim *sim_of(struct disk *disk)
{
    return CONTAINER_OF(disk, struct disk_sim, disk);
}

static int sim_read(struct disk *disk, uint64_t offset, void *bytes, size_t size_bytes)
{
    struct disk_sim *sim = sim_of(disk);
    CHECK(offset % DISK_BLOCK_BYTES == 0 && size_bytes % DISK_BLOCK_BYTES == 0);
    CHECK((uintptr_t)bytes % SECTOR_BYTES == 0);
    if (offset + size_bytes > disk->size_bytes) {
        return -EIO;
    }
    pthread_mutex_lock(&sim->lock);
    memcpy(bytes, sim->bytes + offset, size_bytes);
    pthread_mutex_unlock(&sim->lock);
    return 0;
}

/* The lock is held. Says whether the write or flush happens, or how it ends. */
static int count_one(struct disk_sim *sim)
{
    sim->count++;
    if (sim->off) {
        return -EIO;
    }
    if (sim->count == sim->fail_at) {
        return sim->fail_error;
    }
    sim->off = sim->count == sim->cut_at;
    return 0;
}

static void settle(struct disk_sim *sim)
{
    while (sim->unflushed != NULL) {
        struct unflushed *one = sim->unflushed;
        sim->unflushed = one->next;
        free(one);
    }
    memcpy(sim->stable, sim->bytes, sim->disk.size_bytes);
}

static void remember(struct disk_sim *sim, uint64_t offset, const uint8_t *bytes, size_t size_bytes)
{
    struct unflushed *one = malloc(sizeof *one + size_bytes);
    CHECK(one != NULL);
    one->next = sim->unflushed;
    one->offset = offset;
    one->size_bytes = size_bytes;
    memcpy(one->bytes, bytes, size_bytes);
    sim->unflushed = one;
}

/* What is flushed to a place is newer than what was queued for it. */
static void supersede(struct disk_sim *sim, uint64_t offset, const uint8_t *bytes,
                      size_t size_bytes)
{
    uint64_t end = offset + size_bytes;
    for (struct unflushed *one = sim->unflushed; one != NULL; one = one->next) {
        uint64_t from = one->offset > offset ? one->offset : offset;
        uint64_t one_end = one->offset + one->size_bytes;
        uint64_t to = one_end < end ? one_end : end;
        if (from < to) {
            memcpy(one->bytes + (from - one->offset), bytes + (from - offset), to - from);
        }
    }
}

static int sim_write(struct disk *disk, uint64_t offset, const void *bytes, size_t size_bytes,
                     bool durable)
{
    struct disk_sim *sim = sim_of(disk);
    CHECK(offset % DISK_BLOCK_BYTES == 0 && size_bytes % DISK_BLOCK_BYTES == 0);
    CHECK((uintptr_t)bytes % SECTOR_BYTES == 0);
    if (offset + size_bytes > disk->size_bytes) {
        return -ENOSPC;
    }
    pthread_mutex_lock(&sim->lock);
    int err = count_one(sim);
    if (err == 0) {
        bool torn = sim->off;
        memcpy(sim->bytes + offset, bytes, size_bytes);
        if (durable && !torn && !sim->lies) {
            /* Others may stay unflushed, and here they do. */
            supersede(sim, offset, bytes, size_bytes);
            memcpy(sim->stable + offset, bytes, size_bytes);
        } else {
            remember(sim, offset, bytes, size_bytes);
        }
        err = torn ? -EIO : 0;
    }
    pthread_mutex_unlock(&sim->lock);
    return err;
}

static int sim_flush(struct disk *disk)
{
    struct disk_sim *sim = sim_of(disk);
    pthread_mutex_lock(&sim->lock);
    int err = count_one(sim);
    if (err == 0 && sim->off) {
        err = -EIO;
    } else if (err == 0 && !sim->lies) {
        settle(sim);
    }
    pthread_mutex_unlock(&sim->lock);
    return err;
}

static void sim_close(struct disk *disk)
{
    (void)disk;
}

static const struct disk_ops sim_ops = {sim_read, sim_write, sim_flush, sim_close};

struct disk_sim *disk_sim_new(uint64_t size_bytes)
{
    struct disk_sim *sim = calloc(1, sizeof *sim);
    CHECK(sim != NULL);
    sim->disk = (struct disk){.ops = &sim_ops, .size_bytes = size_bytes};
    pthread_mutex_init(&sim->lock, NULL);
    sim->bytes = calloc(1, size_bytes);
    sim->stable = calloc(1, size_bytes);
    CHECK(sim->bytes != NULL && sim->stable != NULL);
    return sim;
}

void disk_sim_free(struct disk_sim *sim)
{
    settle(sim);
    pthread_mutex_destroy(&sim->lock);
    free(sim->bytes);
    free(sim->stable);
    free(sim);
}

struct disk *disk_sim_disk(struct disk_sim *sim)
{
    return &sim->disk;
}

void disk_sim_cut_at(struct disk_sim *sim, uint64_t number)
{
    sim->count = 0;
    sim->cut_at = number;
    sim->fail_at = 0;
}

uint64_t disk_sim_count(const struct disk_sim *sim)
{
    return sim->count;
}

void disk_sim_fail_at(struct disk_sim *sim, uint64_t number, int error)
{
    sim->count = 0;
    sim->fail_at = number;
    sim->fail_error = error;
}

void disk_sim_lie(struct disk_sim *sim, bool lie)
{
    sim->lies = lie;
}

/* Each sector survives or not, and of two writes to one place either may be the later. */
void disk_sim_restart(struct disk_sim *sim, uint64_t seed)
{
    uint64_t random = seed * 2 + 1;
    uint64_t keep_percent = (uint64_t[]){0, 30, 70, 100}[unit_random(&random) % 4];
    for (const struct unflushed *one = sim->unflushed; one != NULL; one = one->next) {
        for (size_t at = 0; at < one->size_bytes; at += SECTOR_BYTES) {
            if (unit_random(&random) % 100 < keep_percent) {
                memcpy(sim->stable + one->offset + at, one->bytes + at, SECTOR_BYTES);
            }
        }
    }
    memcpy(sim->bytes, sim->stable, sim->disk.size_bytes);
    settle(sim);
    sim->off = false;
    disk_sim_cut_at(sim, 0);
}

uint8_t *disk_sim_bytes(struct disk_sim *sim)
{
    return sim->bytes;
}
