#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the headers of the client library public; run by Meson.

    publish.py install SRC BUILT INCLUDEDIR    copies them
    publish.py map SRC BUILT MAP               a linker script that shows what they declare, only

Begins at src/client/public.h, which becomes client.h, and takes what it includes, and the generated
protocols. Include lines then name the installed places: "client/rpc.h" is <holdfast/client/rpc.h>.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def read(header, places):
    for place in places:
        path = os.path.join(place, header)
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                return file.read()
    sys.exit(f'publish.py: {header} is in none of {places}')


def public_headers(places):
    """Name -> text, of all that is public."""
    protocols = [name for name in os.listdir(os.path.join(places[1], 'proto'))
                 if name.endswith('.h')]
    wanted, seen = ['client/public.h'] + [f'proto/{name}' for name in sorted(protocols)], {}
    while wanted:
        header = wanted.pop()
        if 'internal' in header:
            sys.exit(f'publish.py: {header} would become public')
        if header not in seen:
            seen[header] = read(header, places)
            wanted += INCLUDE.findall(seen[header])
    return seen


def install(headers, to):
    for header, text in headers.items():
        name = 'client.h' if header == 'client/public.h' else header
        path = os.path.join(os.environ['MESON_INSTALL_DESTDIR_PREFIX'], to, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(INCLUDE.sub(r'#include <holdfast/\1>', text))


def write_map(headers, path):
    """Functions, and the tables that are declared `extern`."""
    names = set()
    for text in headers.values():
        text = re.sub(r'/\*.*?\*/|^#[^\n]*', '', text, flags=re.DOTALL | re.MULTILINE)
        names.update(re.findall(r'^\w[\w *]*?\b(\w+)\(', text, re.MULTILINE))
        names.update(re.findall(r'^extern .*?(\w+)(?:\[\])?;', text, re.MULTILINE))
    with open(path, 'w', encoding='utf-8') as file:
        file.write('{\nglobal:\n' + ''.join(f'    {name};\n' for name in sorted(names)) +
                   'local:\n    *;\n};\n')


def main():
    what, src, built, to = sys.argv[1:]
    {'install': install, 'map': write_map}[what](public_headers([src, built]), to)


if __name__ == '__main__':
    main()
