/* SPDX-License-Identifier: Apache-2.0 */
/* Open file description locks, fcntl(2), for range_lock.c. */
#ifndef VFS_RANGE_KERNEL_H
#define VFS_RANGE_KERNEL_H

#include "vfs/range.h"

/* 0, -EAGAIN: a program on the server has it, -EROFS: fd is for reading only, or -ENOLCK. */
int range_kernel_set(int fd, const struct range_request *request) MUST_USE;
/* 0, or -EAGAIN with what is in the way (pid 0: not known), or -ENOLCK. */
int range_kernel_test(int fd, const struct range_request *request, struct range_request *found,
                      int32_t *pid) MUST_USE;
/* Gives back what nobody in the table holds any more. */
void range_kernel_free_gaps(int fd, const struct range_file *file, uint64_t start, uint64_t end);
/* Gives back and takes what the table says; fails where fd did not hold as much before. */
int range_kernel_agree(int fd, const struct range_file *file, uint64_t start,
                       uint64_t end) MUST_USE;

#endif
