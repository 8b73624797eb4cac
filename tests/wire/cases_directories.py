#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17): every name once, whatever the page size,
whatever happens to the directory meanwhile; and no reply larger than was asked for."""
import os
import random

import nfs
from nfs import check, equal


def names_of(entries):
    return [e.name for e in entries]


def once_each(entries, right, what):
    names = names_of(entries)
    equal(len(names), len(set(names)), f'{what}: names, and different names')
    missing, extra = right - set(names), set(names) - right
    check(not missing and not extra, f'{what}: {len(missing)} missing, {len(extra)} too many: '
          f'{sorted(missing)[:3]} {sorted(extra)[:3]}')


def fill(server, directory, count, prefix='file'):
    """Fast, as a local process."""
    for i in range(count):
        with open(os.path.join(server.export, directory, f'{prefix}{i}'), 'w', encoding='ascii'):
            pass
    return {b'.', b'..'} | {f'{prefix}{i}'.encode() for i in range(count)}


def pages_continue_behind_the_cookie(server, client, fh):
    """P05, with both procedures, and each with the other's cookies and verifier."""
    right = fill(server, 'pages_continue_behind_the_cookie', 2500)
    once_each(client.walk(fh, count=1024), right, 'READDIR')
    once_each(client.walk(fh, plus=True, dircount=512, maxcount=4096), right, 'READDIRPLUS')
    once_each(client.walk(fh, count=136), right, 'READDIR, an entry a page')
    entries, cookie, verf, turn = [], 0, bytes(8), 0
    while True:
        page = (client.readdir(fh, cookie, verf, 700) if turn % 2 else
                client.readdirplus(fh, cookie, verf, 800, 3000))
        equal(page.status, nfs.OK, 'a page')
        entries += page.entries
        if page.eof:
            break
        cookie, verf, turn = page.entries[-1].cookie, page.verf, turn + 1
    once_each(entries, right, 'READDIR and READDIRPLUS by turns')
    with server.udp() as transport:
        datagrams = nfs.Nfs(transport)
        once_each(datagrams.walk(fh, count=60000), right, 'READDIR over UDP')
        once_each(datagrams.walk(fh, plus=True, dircount=60000, maxcount=1 << 20), right,
                  'READDIRPLUS over UDP')


def removing_while_reading_ends(server, client, fh):
    """P06."""
    fill(server, 'removing_while_reading_ends', 500)
    offered, pages, cookie, verf = [], 0, 0, bytes(8)
    while True:
        page = client.readdir(fh, cookie, verf, 600)
        pages += 1
        check(pages < 200, 'the walk does not end')
        equal(page.status, nfs.OK, f'page {pages}')
        for entry in page.entries:
            if entry.name not in (b'.', b'..'):
                offered.append(entry.name)
                equal(client.remove(fh, entry.name).status, nfs.OK, f'REMOVE {entry.name}')
        if page.eof:
            break
        cookie, verf = page.entries[-1].cookie, page.verf
    equal(len(offered), len(set(offered)), 'names offered, and different names')
    equal(len(offered), 500, 'names offered')
    equal(sorted(names_of(client.walk(fh))), [b'.', b'..'], 'names left')


def a_changed_directory_is_no_bad_cookie(server, client, fh):
    """P25: creating and removing between pages; every name that stays comes once."""
    right = fill(server, 'a_changed_directory_is_no_bad_cookie', 300)
    rng = random.Random(5)
    for plus in (False, True):
        entries, cookie, verf, gone = [], 0, bytes(8), set()
        made = 0
        while True:
            page = (client.readdirplus(fh, cookie, verf, 400, 4000) if plus else
                    client.readdir(fh, cookie, verf, 800))
            equal(page.status, nfs.OK, 'a page of a directory that changes')
            entries += page.entries
            if page.eof:
                break
            cookie, verf = page.entries[-1].cookie, page.verf
            equal(client.create(fh, f'new{plus}{made}').status, nfs.OK, 'CREATE')
            made += 1
            seen = {e.name for e in entries}
            for pool in (seen, right - seen):
                victims = sorted(pool - gone - {b'.', b'..'} - {n for n in pool if b'new' in n})
                if victims:
                    victim = rng.choice(victims)
                    equal(client.remove(fh, victim).status, nfs.OK, f'REMOVE {victim}')
                    gone.add(victim)
        names = names_of(entries)
        equal(len(names), len(set(names)), 'names, and different names')
        check(right - gone <= set(names), f'names that were there all the time are missing: '
              f'{sorted(right - gone - set(names))[:5]}')
        right = set(names_of(client.walk(fh)))
    page = client.readdirplus(fh, 0, b'00000000')
    equal(page.status, nfs.OK, 'cookie 0 with any verifier')


def cookies_outlive_a_restart(server, client, fh):
    right = fill(server, 'cookies_outlive_a_restart', 1000)
    first = client.readdir(fh, count=2000)
    server.restart()
    client = server.nfs()
    entries, cookie, verf = first.entries, first.entries[-1].cookie, first.verf
    while True:
        page = client.readdir(fh, cookie, verf, 2000)
        equal(page.status, nfs.OK, 'a page after the restart')
        entries += page.entries
        if page.eof:
            break
        cookie = page.entries[-1].cookie
    once_each(entries, right, 'before and after the restart')


def no_page_is_larger_than_asked(server, client, fh):
    """The sizes include all XDR overhead of READDIR3resok, and nothing that fits is held back."""
    for i in range(40):
        client.new_file(fh, 'n' * (1 + i * 6))
    smallest = min(28 + 4 * (len(e.name) // 4) for e in client.walk(fh))
    for count in [*range(100, 400), *range(400, 12000, 37)]:
        page = client.readdir(fh, count=count)
        if page.status == nfs.TOOSMALL:
            check(count < 88 + 8 + 8 + 24 + 4 * ((255 + 3) // 4), f'TOOSMALL for {count} bytes')
            continue
        equal(page.status, nfs.OK, f'READDIR of {count} bytes')
        check(page.size <= count, f'READDIR of {count} bytes returned {page.size}')
        check(page.eof or page.size + 24 + 256 > count,
              f'READDIR of {count} bytes returned only {page.size}')
    check(smallest <= 28, 'a name of one byte')
    for maxcount in [*range(100, 600, 3), *range(600, 20000, 171)]:
        page = client.readdirplus(fh, dircount=100000, maxcount=maxcount)
        if page.status == nfs.TOOSMALL:
            check(maxcount < 104 + 24 + 256 + 88 + 72, f'TOOSMALL for {maxcount} bytes')
            continue
        equal(page.status, nfs.OK, f'READDIRPLUS of {maxcount} bytes')
        check(page.size <= maxcount, f'READDIRPLUS of {maxcount} bytes returned {page.size}')
    for dircount in [0, 1, *range(20, 300), *range(300, 8000, 93)]:
        page = client.readdirplus(fh, dircount=dircount, maxcount=100000)
        equal(page.status, nfs.OK, f'READDIRPLUS with dircount {dircount}')
        size = sum(20 + len(e.name) + -len(e.name) % 4 for e in page.entries)
        check(page.entries, f'dircount {dircount}: no entry')
        check(size <= dircount or len(page.entries) == 1,
              f'dircount {dircount}: {size} bytes of names and cookies')
    equal(client.readdirplus(fh, dircount=0, maxcount=100).status, nfs.TOOSMALL, 'maxcount 100')
    for huge in (1 << 20, 0x7fffffff, 0xffffffff):
        check(client.readdir(fh, count=huge).eof, f'READDIR with count {huge:#x}')
        check(client.readdirplus(fh, dircount=huge, maxcount=huge).eof, f'maxcount {huge:#x}')


def plus_says_what_lookup_and_getattr_say(server, client, fh):
    client.new_file(fh, 'file', b'12345')
    client.new_dir(fh, 'dir')
    client.symlink(fh, 'link', 'text')
    client.mknod(fh, 'fifo', 7)
    entries = client.walk(fh, plus=True)
    with_all = 0
    for entry in entries:
        if entry.name in (b'.', b'..'):
            continue
        found = client.lookup(fh, entry.name)
        equal(entry.fileid, found.attr.fileid, f'fileid of {entry.name}')
        if entry.fh is not None:
            equal(entry.fh, found.fh, f'handle of {entry.name}')
        if entry.attr is not None:
            equal(vars(entry.attr), vars(found.attr), f'attributes of {entry.name}')
        with_all += entry.fh is not None and entry.attr is not None
    equal(with_all, 4, 'entries with handle and attributes')
    parent = client.lookup(fh, '..')
    dots = {e.name: e.fileid for e in client.walk(fh)}
    equal((dots[b'.'], dots[b'..']), (client.getattr(fh).attr.fileid, parent.attr.fileid),
          'fileids of the dots')


def the_parent_of_the_root_stays_inside(server):
    client = server.nfs()
    root = server.root(client)
    fileid = client.getattr(root).attr.fileid
    for plus in (False, True):
        dots = {e.name: e for e in client.walk(root, plus=plus) if e.name in (b'.', b'..')}
        equal(dots[b'..'].fileid, fileid, 'fileid of ".." at the root')
        if plus and dots[b'..'].fh:
            equal(dots[b'..'].fh, root, 'handle of ".." at the root')


def a_directory_that_may_not_be_read(server, client, fh):
    user = nfs.Nfs(client.transport, nfs.auth_sys(1000, 1000))
    closed = client.new_dir(fh, 'closed', mode=0o711)
    client.new_file(closed, 'file', mode=0o644)
    equal(user.readdir(closed).status, nfs.ACCES, 'READDIR without r')
    equal(user.readdirplus(closed).status, nfs.ACCES, 'READDIRPLUS without r')
    equal(user.lookup(closed, 'file').status, nfs.OK, 'LOOKUP with x')
    listed = client.new_dir(fh, 'listed', mode=0o744)
    client.new_file(listed, 'file')
    equal(user.readdir(listed).status, nfs.OK, 'READDIR with r')
    equal(user.lookup(listed, 'file').status, nfs.ACCES, 'LOOKUP without x')
    page = user.readdirplus(listed)
    equal(page.status, nfs.OK, 'READDIRPLUS with r and without x')


def strange_cookies(server, client, fh):
    """A cookie that was never given out: BAD_COOKIE, or some place in the directory; it ends."""
    right = fill(server, 'strange_cookies', 50)
    for cookie in (3, 4711, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        page = client.readdir(fh, cookie, bytes(8), 100000)
        check(page.status in (nfs.OK, nfs.BAD_COOKIE), f'cookie {cookie:#x}: {page.status}')
        if page.status == nfs.OK:
            check(page.eof and set(names_of(page.entries)) <= right, f'cookie {cookie:#x}')


if __name__ == '__main__':
    nfs.run([
        pages_continue_behind_the_cookie,
        removing_while_reading_ends,
        a_changed_directory_is_no_bad_cookie,
        cookies_outlive_a_restart,
        no_page_is_larger_than_asked,
        plus_says_what_lookup_and_getattr_say,
        the_parent_of_the_root_stays_inside,
        a_directory_that_may_not_be_read,
        strange_cookies,
    ])
