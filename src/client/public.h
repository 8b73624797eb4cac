/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is public of the client library, in one header: installed as <holdfast/client.h>, each part
 * also by itself as <holdfast/client/NAME.h>. holdfast-client(3) shows how to begin.
 *
 *     loop.h               descriptors and timers; one thread; turned by its owner
 *     rpc.h                calls of any program the library knows, over UDP or TCP, asynchronous
 *     wait.h               calls that are waited for
 *     address.h, pmap.h    hosts and their ports
 *     url.h, mount.h       from nfs://HOST/PATH to a root handle
 *     nfs3.h               handles, names, walking; status codes as text
 *     nfs2.h               the same words for a server of version 2
 *     dir.h, copy.h        listing, copying, removing
 *
 * Arguments and results are the structs of the RFCs, <holdfast/proto/nfs3.h> and its neighbours;
 * <holdfast/proto/codec.h> says how they are laid out. Everything else of Holdfast is its own
 * business, and functions that no installed header declares may not be relied on.
 *
 * 1. The library starts no thread, touches no signal and prints nothing. SIGPIPE does not come of
 *    it. It ends the program only where it is misused (base/check.h).
 * 2. A loop and all that uses it belong to one thread at a time; several loops are independent.
 * 3. Functions return 0 or -errno; `struct err` has words for people.
 * 4. Until version 1.0 names and layouts may change with each minor version: the library's soname
 *    has both numbers. GNU C11 or later; not C++.
 */
#ifndef CLIENT_PUBLIC_H
#define CLIENT_PUBLIC_H

#include "client/address.h"
#include "client/copy.h"
#include "client/dir.h"
#include "client/loop.h"
#include "client/mount.h"
#include "client/nfs2.h"
#include "client/nfs3.h"
#include "client/pmap.h"
#include "client/rpc.h"
#include "client/url.h"
#include "client/wait.h"

#include "proto/mount.h"
#include "proto/nfs3.h"
#include "proto/pmap.h"

#endif
