#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/xdrc.py must refuse, with the line, rather than make unbounded or wrong C of it."""

import os
import subprocess
import sys
import tempfile

XDRC = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../tools/xdrc.py')
REFUSED = [
    # description, what the message must hold
    ('struct a {\n opaque data<>;\n};', ':2: data<> has no cap'),
    ('struct a { string name; };', ':1: string name has no length'),
    ('struct a { string name<NAME_MAX>; };', ':1: NAME_MAX is not a number'),
    ('struct a { int v; }; struct b { a *p; };', 'a *p: only pointers to list elements'),
    ('struct a { thing v; };', 'thing is not defined'),
    ('struct a { int v; };\nstruct a { int w; };', ':2: a is defined twice'),
    ('struct a { int v }', ':1: expected ;'),
    ('struct a { float v; };', 'float is not defined'),
    ('struct 1a { int v; };', ':1: expected a name'),
    ('union u switch (bool b) { case MAYBE: int v; };', 'MAYBE is not a bool'),
    ('enum e { A = 1, B = };', ':1: } is not a number'),
    ('struct a { int v; } # };', ':1: cannot read'),
    ('program P {\n version V {\n  void P_NULL(void) = 0;\n } = 1;\n} = 9;',
     'P_NULL does not say its section'),
    ('import nothing;', ':1: there is no nothing.x'),
    ('import nfs3;\nstruct fattr3 { int v; };', ':2: fattr3 is defined twice'),
    ('import nfs3;\nimport nfs3;', ':2: '),
    ('program P { version V {\n string P_X(void) = 0; /* RFC 1 §1 */\n } = 1; } = 9;',
     'string: procedures take'),
]


def refusal(folder, text):
    path = os.path.join(folder, 'bad.x')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    made = subprocess.run([sys.executable, XDRC, path, path + '.h', path + '.c'],
                          capture_output=True, text=True, check=False)
    return made.returncode, made.stderr


def main():
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for text, wanted in REFUSED:
            code, message = refusal(folder, text)
            if code != 1 or wanted not in message or 'Traceback' in message:
                print(f'{text!r}\n  wanted {wanted!r}\n  got {code} {message!r}')
                faults += 1
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    main()
