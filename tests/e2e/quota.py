#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""RQUOTA by hand, in the guest of quota.sh: who may ask for whom, and what paths mean.

    quota.py PORT EXPORT [off]      off: the quotas of users are counted and not enforced
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../wire'))
import nfs  # noqa: E402
from nfs import AUTH_NONE, auth_sys, equal, opaque, u32  # noqa: E402

RQUOTA, GETQUOTA, GETACTIVEQUOTA, SETQUOTA, SETACTIVEQUOTA = 100011, 1, 2, 3, 4
OK, NOQUOTA, EPERM = 1, 2, 3
USER, GROUP = 0, 1


class Asker:
    def __init__(self, transport):
        self.transport = transport

    def ask(self, cred, path, id_, kind=None, proc=GETQUOTA):
        """kind None: version 1."""
        vers = 1 if kind is None else 2
        args = opaque(path) + (b'' if kind is None else u32(kind)) + u32(id_)
        message = nfs.call_message(RQUOTA, vers, proc, args, cred=cred)
        reply = nfs.Reply(self.transport.exchange(message))
        equal(reply.accept_stat, nfs.SUCCESS, 'accept_stat')
        status = reply.body.u32()
        rquota = [reply.body.u32() for _ in range(10)] if status == OK else None
        reply.body.end()
        return status, rquota


def who_may_ask(asker, export):
    for kind in (None, USER):
        for uid, id_, right in ((1000, 1000, OK), (1001, 1000, EPERM), (0, 1000, OK),
                                (0, 0, OK), (1000, 0, EPERM)):
            status, rquota = asker.ask(auth_sys(uid, uid), export, id_, kind)
            equal(status, right, f'user {uid} asks for {id_}, kind {kind}')
            if id_ == 1000 and right == OK:
                equal(rquota[:4], [1024, 1, 3000, 2000], 'block size, active, limits')
                equal(rquota[5:7], [60, 50], 'limits of files')
        equal(asker.ask(AUTH_NONE, export, 1000, kind)[0], EPERM, 'AUTH_NONE')
    for gid, gids, right in ((2000, (), OK), (1, (5, 2000), OK), (1, (5, 6), EPERM)):
        status, rquota = asker.ask(auth_sys(1001, gid, gids), export, 2000, GROUP)
        equal(status, right, f'group {gid} {gids} asks for 2000')
        if right == OK:
            equal(rquota[2:4], [20000, 10000], 'limits of the group')
    equal(asker.ask(auth_sys(2000, 1), export, 2000, GROUP)[0], EPERM, 'a user of that number')
    equal(asker.ask(auth_sys(0, 0), export, 0xffffffff, USER)[0], NOQUOTA, 'no id')


def what_paths_mean(asker, export):
    root = auth_sys(0, 0)
    for path, right in ((export, OK), (export + '/', OK), (export + '/all/deep', OK),
                        (export + '/missing', NOQUOTA), ('/etc', NOQUOTA), ('/', NOQUOTA),
                        (export[1:], EPERM), ('', EPERM), (export + '/.holdfast', NOQUOTA)):
        equal(asker.ask(root, path, 1000)[0], right, f'the quota at {path!r}')
    # Of the outer export, which is for us.
    equal(asker.ask(root, export + '/other', 1000)[0], OK, 'in an export of another client')


def nothing_is_set(asker, export):
    for vers, tail in ((1, u32(1000)), (2, u32(1000, USER))):
        for proc in (SETQUOTA, SETACTIVEQUOTA):
            args = u32(0) + opaque(export) + tail + u32(*range(8))
            message = nfs.call_message(RQUOTA, vers, proc, args)
            equal(nfs.Reply(asker.transport.exchange(message)).body.u32(), EPERM, 'SETQUOTA')


def not_enforced(asker, export):
    root = auth_sys(0, 0)
    status, rquota = asker.ask(root, export, 1000, USER)
    if status == OK:
        equal(rquota[1], 0, 'rq_active')
    equal(asker.ask(root, export, 1000, USER, GETACTIVEQUOTA)[0], NOQUOTA, 'GETACTIVEQUOTA')
    equal(asker.ask(root, export, 2000, GROUP, GETACTIVEQUOTA)[0], OK, 'GETACTIVEQUOTA of groups')


def main():
    port, export = int(sys.argv[1]), sys.argv[2]
    for transport in (nfs.Udp(port), nfs.Tcp(port)):
        asker = Asker(transport)
        if len(sys.argv) > 3:
            not_enforced(asker, export)
            continue
        who_may_ask(asker, export)
        equal(asker.ask(auth_sys(0, 0), export, 1000, USER, GETACTIVEQUOTA)[0], OK, 'active')
        what_paths_mean(asker, export)
        nothing_is_set(asker, export)


if __name__ == '__main__':
    try:
        main()
    except nfs.Failure as failure:
        sys.exit(str(failure))
