/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk in memory that loses power. What was not flushed is kept, dropped, torn at 512 bytes or
 * reordered, as a seed decides; what was flushed stays. Any thread.
 */
#ifndef LIB_DISK_SIM_H
#define LIB_DISK_SIM_H

#include "os/disk.h"

struct disk_sim;

/* All zeros. */
struct disk_sim *disk_sim_new(uint64_t size_bytes);
void disk_sim_free(struct disk_sim *sim);

/* The disk; disk_close does nothing to it. */
struct disk *disk_sim_disk(struct disk_sim *sim);

/* Power fails in the midst of the write or flush with this number, counted from 1 since now; 0:
 * never. That one and all later ones fail. */
void disk_sim_cut_at(struct disk_sim *sim, uint64_t number);
/* How many writes and flushes there were since then. */
uint64_t disk_sim_count(const struct disk_sim *sim);
/* The write or flush with this number fails with error (-errno) and nothing else happens. */
void disk_sim_fail_at(struct disk_sim *sim, uint64_t number, int error);
/* Flushes and durable writes are not: rule 9, a test must then see a loss. */
void disk_sim_lie(struct disk_sim *sim, bool lie);

/* The power comes back: what survived is there. */
void disk_sim_restart(struct disk_sim *sim, uint64_t seed);

/* The bytes, to be looked at and damaged. */
uint8_t *disk_sim_bytes(struct disk_sim *sim);

#endif
