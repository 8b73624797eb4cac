#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who gets what by exports files, asked of a running server: for exports.sh.

    exports.py ask MOUNT-PORT NFS-PORT RESULT exportfs|HOLDFAST    puts each file into force, asks
    exports.py compare THEIRS OURS

What is known to be different is in KNOWN, with the reason.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../wire'))
import nfs  # noqa: E402

SOURCES = ('10.0.0.1', '10.0.0.2', '10.1.2.3', '192.168.1.7', '192.168.2.7', '2001:db8::1',
           'fd00::2')
TOP = '/export'

# name: (text, paths below TOP that are asked for); the text is put after "/export/a ", unless it
# begins with a slash or a quote.
FILES = {
    'a name': ('alpha.example.org(rw)', ['a']),
    'an alias': ('alpha(rw)', ['a']),
    'an address': ('10.0.0.1(rw) 10.0.0.2', ['a']),
    'IPv6': ('2001:db8::1(rw) fd00::/8(ro)', ['a']),
    'networks': ('10.0.0.0/24(ro) 10.0.0.0/8(rw) 192.168.0.0/255.255.254.0(rw)', ['a']),
    'a network of one': ('10.0.0.1/32(rw) 10.0.0.0/8(ro)', ['a']),
    'an address in a network': ('10.0.0.0/8(ro) 10.0.0.1(rw)', ['a']),
    'a name in a network': ('10.0.0.0/8(ro) alpha.example.org(rw)', ['a']),
    'everyone': ('*(ro) 10.0.0.1(rw)', ['a']),
    'everyone, in short': ('(ro)', ['a']),
    'nobody named': ('', ['a']),
    'the blank': ('10.0.0.0/24 (rw)', ['a']),
    'wildcards': ('*.example.org(rw) *.Example.NET(ro)', ['a']),
    'a wildcard over dots': ('*.org(rw)', ['a']),
    'question marks': ('p?7.example.net(rw) ?????.example.org(ro)', ['a']),
    'classes': ('pc[0-9].example.net(rw) [!a]*.example.org(ro)', ['a']),
    'a wildcard and a network': ('*.example.org(rw) 10.0.0.0/24(ro)', ['a']),
    'a netgroup': ('@friends(rw)', ['a']),
    'a netgroup and a wildcard': ('@friends(rw) *.example.org(ro)', ['a']),
    'a netgroup of nobody': ('@empty(rw) @none(rw) 10.0.0.2(ro)', ['a']),
    'the first counts': ('10.0.0.1(rw) 10.0.0.1(ro) alpha.example.org(ro)', ['a']),
    'two lines': ('10.0.0.1(rw)\n/export/a 10.0.0.2(rw) 10.0.0.1(ro)\n', ['a']),
    'defaults of a line': ('-rw,no_root_squash 10.0.0.1 10.0.0.2(ro) 10.1.2.3(root_squash)',
                           ['a']),
    'defaults twice': ('-rw 10.0.0.1 -no_root_squash 10.0.0.2', ['a']),
    'squash': ('10.0.0.1(rw,all_squash,anonuid=1234,anongid=1235) 10.0.0.2(rw,no_root_squash) '
               '10.1.2.3(rw,anonuid=77) 192.168.1.7(rw,no_all_squash,root_squash)', ['a']),
    'old ids': ('10.0.0.1(rw,anonuid=-2,anongid=-2)', ['a']),
    'contradictions': ('10.0.0.1(ro,rw) 10.0.0.2(rw,ro) 10.1.2.3(rw,)', ['a']),
    'quotes': ('"/export/a b" *(rw)\n', ['a', 'a b']),
    'octal': ('/export/a\\040b *(rw)\n/export/h\\0431 *(ro)\n', ['a', 'a b', 'h#1']),
    'a hash in quotes': ('"/export/h#1" *(rw)\n', ['h#1', 'h']),
    'comments': ('# none\n  # none\n/export/a 10.0.0.1(rw) # 10.0.0.2(rw)\n', ['a']),
    'continuations': ('/export/a \\\n  10.0.0.1(rw) \\\n\t10.0.0.2(rw)\n', ['a']),
    'no newline at the end': ('/export/a 10.0.0.1(rw)', ['a']),
    'blanks and tabs': ('/export/a\t \t10.0.0.1(rw)   \n\n \n/export/b\t10.0.0.2(rw)\t\n',
                        ['a', 'b']),
    'a slash at the end': ('/export/a/ *(rw)\n', ['a', 'a/', 'a/in']),
    'directories below': ('/export/a *(rw)\n', ['a', 'a/in', 'a/in/deep', 'b', '']),
    'nested': ('/export/a *(rw)\n/export/a/in 10.0.0.1(ro)\n', ['a', 'a/in', 'a/in/deep']),
    'nested the other way': ('/export/a/in *(rw)\n/export/a 10.0.0.1(ro)\n',
                             ['a', 'a/in', 'a/in/deep']),
    'a mount below': (f'{TOP} *(rw)\n', ['', 'm', 'm/sub']),
    'a mount below, crossmnt': (f'{TOP} *(rw,crossmnt)\n', ['', 'm', 'm/sub']),
    'a mount of its own': (f'{TOP} *(rw)\n{TOP}/m 10.0.0.1(rw)\n', ['', 'm', 'm/sub']),
    'crossmnt and its own': (f'{TOP} *(rw,crossmnt)\n{TOP}/m 10.0.0.1(ro)\n', ['', 'm', 'm/sub']),
    'mountpoint': ('/export/m *(rw,mountpoint)\n/export/a *(rw,mountpoint)\n', ['m', 'a']),
    'mp=': ('/export/a *(rw,mp=/export/m)\n/export/b *(rw,mp=/export/c)\n', ['a', 'b']),
    'a link': ('/export/link *(rw)\n', ['link', 'a']),
    'by a link': ('/export/a *(rw)\n', ['link', 'link/in']),
    'words that change nothing': ('*(rw,wdelay,no_subtree_check,secure_locks,no_acl,hide)', ['a']),
    'insecure': ('10.0.0.1(rw,insecure) 10.0.0.2(rw,secure)', ['a']),
    'fsid': ('/export/a *(rw,fsid=7)\n/export/b *(rw,fsid=12345678-1234-1234-1234-123456789abc)\n',
             ['a', 'b']),
    'sec=sys': ('10.0.0.1(sec=sys,rw) 10.0.0.2(rw,sec=sys)', ['a']),
    'an unknown word': ('/export/a *(frob)\n/export/b *(rw)\n', ['a', 'b']),
    'a missing directory': ('/export/none *(rw)\n/export/b *(rw)\n', ['none', 'b']),
}

KNOWN = {
    'an unknown word': 'exportfs ends at the first error; --skip-bad-lines serves the other lines',
}


def text_of(text):
    lines = text if text[:1] in ('/', '"', '#') else f'{TOP}/a {text}'
    return lines if lines.endswith('\n') or lines == '/export/a 10.0.0.1(rw)' else lines + '\n'


def put_into_force(text, how):
    with open('/etc/exports', 'w', encoding='ascii') as out:
        out.write(text)
    if how == 'exportfs':
        command = 'exportfs -au; exportfs -ra; exportfs -f'
    else:
        command = f'{how} exports reload'
    subprocess.run(command, shell=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   check=False)


def connect(port, source, reserved=True):
    host = '::1' if ':' in source else '127.0.0.1'
    for own in range(1023, 700, -1) if reserved else [0]:
        try:
            return nfs.Tcp(port, host=host, source=(source, own))
        except OSError:
            continue
    raise OSError(f'no reserved port for {source}')


def owner_of_new(client, fh, cred):
    """Who owns what this user creates, or why it cannot."""
    user = nfs.Nfs(client.transport, cred)
    made = user.create(fh, 'probe', mode=0o666)
    if made.status != nfs.OK:
        return f'error {made.status}'
    user.remove(fh, 'probe')
    return f'{made.attr.uid}:{made.attr.gid}'


def ask(ports, source, path):
    """What a host gets at a path."""
    with connect(ports[0], source) as transport:
        found = nfs.Nfs(transport).mount(path)
    if found.status != nfs.OK:
        return {'mnt': 'refused'}
    with connect(ports[1], source) as transport:
        client = nfs.Nfs(transport)
        told = {'mnt': 'ok', 'root': owner_of_new(client, found.fh, nfs.auth_sys(0, 0)),
                'user': owner_of_new(client, found.fh, nfs.auth_sys(1000, 1000))}
        names = [entry.name.decode() for entry in client.walk(found.fh)]
        told['names'] = sorted(set(names) - {'.', '..', 'lost+found'})
    with connect(ports[1], source, reserved=False) as transport:
        told['high port'] = nfs.Nfs(transport).getattr(found.fh).status == nfs.OK
    return told


def ask_all(mount_port, nfs_port, result, how):
    told = {}
    for name, (text, paths) in FILES.items():
        put_into_force(text_of(text), how)
        for source in SOURCES:
            for path in paths:
                told[f'{name} | {source} | {path}'] = ask(
                    (mount_port, nfs_port), source, f'{TOP}/{path}' if path else TOP)
    with open(result, 'w', encoding='ascii') as out:
        json.dump(told, out)


def compare(theirs, ours):
    with open(theirs, encoding='ascii') as file_a, open(ours, encoding='ascii') as file_b:
        theirs, ours = json.load(file_a), json.load(file_b)
    different, unused, admitted = 0, set(KNOWN), 0
    for key, told in theirs.items():
        admitted += told['mnt'] == 'ok'
        name = key.split(' | ')[0]
        if told == ours[key]:
            continue
        if name in KNOWN:
            unused.discard(name)
            continue
        different += 1
        print(f'{key}:\n    theirs: {told}\n    ours:   {ours[key]}')
    for name in unused:
        different += 1
        print(f'{name}: known to be different, and is not: {KNOWN[name]}')
    print(f'{len(FILES)} files, {len(theirs)} questions, {admitted} admitted by theirs, '
          f'{different} different')
    return different == 0 and 0 < admitted < len(theirs)


if __name__ == '__main__':
    if sys.argv[1] == 'ask':
        ask_all(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6])
    else:
        sys.exit(0 if compare(*sys.argv[2:4]) else 1)
