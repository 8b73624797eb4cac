/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reply that is an error means, in words.
 */
#include "client/rpc.h"

#include "proto/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *client_reply_text(const struct client_reply *reply, char text[CLIENT_TEXT_BYTES_MAX])
{
    const char *words = "";

    switch (reply->fault) {
    case CLIENT_FAULT_PROG_UNAVAIL:
        words = "the server does not have the program";
        break;
    case CLIENT_FAULT_PROG_MISMATCH:
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "the server has versions %u to %u of it",
                       reply->low, reply->high);
        return text;
    case CLIENT_FAULT_PROC_UNAVAIL:
        words = "the server does not have the procedure";
        break;
    case CLIENT_FAULT_GARBAGE_ARGS:
        words = "the server could not read the arguments (GARBAGE_ARGS)";
        break;
    case CLIENT_FAULT_SYSTEM_ERR:
        words = "the server has failed (SYSTEM_ERR)";
        break;
    case CLIENT_FAULT_RPC_MISMATCH:
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "the server speaks RPC versions %u to %u",
                       reply->low, reply->high);
        return text;
    case CLIENT_FAULT_AUTH:
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "the server refused the credential (%s)",
                       auth_stat_name((enum auth_stat)reply->auth_stat));
        return text;
    case CLIENT_FAULT_REPLY:
        words = "the reply makes no sense";
        break;
    case CLIENT_FAULT_TRANSPORT:
        words = reply->error == -EPROTO ? "what the server sends makes no sense"
                                        : strerror(-reply->error);
        break;
    case CLIENT_NO_FAULT:
        words = strerror(-reply->error);
        break;
    }
    (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "%s", words);
    return text;
}
