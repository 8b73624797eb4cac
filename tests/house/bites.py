#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/tidy.py must bite: one offence in a small tree, one finding at its line."""

import os
import subprocess
import sys
import tempfile

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tools/tidy.py')
SPDX = '/* SPDX-License-Identifier: Apache-2.0 */\n'
LONG_FUNCTION = 'void f(void)\n{\n' + '    g();\n' * 69 + '}\n'
PROGRAM = '''const A = 1;
program NFS_PROGRAM {
    version NFS_V3 {
        void NFSPROC3_NULL(void) = 0; /* RFC 1813 §3.3.0 */
    } = 3;
} = 100003;
'''

CASES = [
    # file, text, line and words of the finding; None: nothing to find
    ('src/rpc/a.c', SPDX + 'int a;\n', None),
    ('src/rpc/a.c', 'int a;\n', '1: no SPDX line'),
    ('src/rpc/a.c', SPDX + 'int a' + 'a' * 95 + ';' + '\n', '2: 101 columns'),
    ('src/rpc/a.c', SPDX + 'int a; \n', '2: blanks'),
    ('src/rpc/a.c', SPDX + '\tint a;\n', '2: a tab'),
    ('src/rpc/a.c', SPDX + 'int a;\n' * 1000, '1001: 1001 lines'),
    ('src/rpc/a.c', SPDX + '/* TO' 'DO: more */\n', '2: an open end'),
    ('src/rpc/a.c', SPDX + '/* TO' 'DO (issue 7): more */\n', None),
    ('src/rpc/a.c', SPDX + '/** Adds. */\n', '2: a doxygen comment'),
    ('src/rpc/a.c', SPDX + '/* @param a the a */\n', '2: a doxygen comment'),
    ('src/rpc/a.c', SPDX + LONG_FUNCTION, '3: 71 lines'),
    ('src/rpc/a.c', SPDX + 'sprintf(a, b);\n', '2: sprintf'),
    ('src/rpc/a.c', SPDX + '/* sprintf(a, b) is not used */\n', None),
    ('src/rpc/a.c', SPDX + 'abort();\n', '2: abort'),
    ('src/rpc/a.c', SPDX + '#include "vfs/node.h"\n', '2: rpc may not include vfs/node.h'),
    ('src/rpc/a.c', SPDX + '#include "proto/nfs3.h"\n', '2: rpc may not include proto/nfs3.h'),
    ('src/rpc/a.c', SPDX + '#include "proto/rpc.h"\n#include "os/clock.h"\n', None),
    ('src/rpc/a.c', SPDX + '#include "rpc.h"\n', '2: "rpc.h" does not say its folder'),
    ('src/server/a.c', SPDX + '#include "rpc/internal.h"\n', '2: rpc/internal.h is for rpc alone'),
    ('src/cli/a.c', SPDX + '#include "vfs/internal.h"\n', '2: vfs/internal.h is for vfs alone'),
    ('src/cli/a.c', SPDX + '#include "vfs/node.h"\n', None),
    ('src/server/a.c', SPDX + 'x = htobe32(y);\n', '2: only xdr/stream'),
    ('src/vfs/lost.c', SPDX, '1: not named in meson.build'),
    ('tools/a.py', '# SPDX-License-Identifier: Apache-2.0\ndef f():\n' + '    g()\n' * 70,
     '2: f: 71 lines'),
    ('spec/nfs3.x', SPDX + PROGRAM, '5: no tests/wire/*.wire has @call 100003 3 0, NFSPROC3_NULL'),
]


def findings(path, text):
    with tempfile.TemporaryDirectory() as root:
        for name, content in {'src/server/nfs3.c': SPDX, path: text}.items():
            full = os.path.join(root, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as file:
                file.write(content)
            with open(os.path.join(os.path.dirname(full), 'meson.build'), 'w',
                      encoding='utf-8') as file:
                file.write("'a.c', 'nfs3.c'\n")
        ran = subprocess.run([sys.executable, TIDY, root], capture_output=True, text=True,
                             check=False)
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


def main():
    faults = 0
    for path, text, wanted in CASES:
        code, lines, errors = findings(path, text)
        expected = [] if wanted is None else [f'{path}:{wanted}']
        right = len(lines) == len(expected) and code == len(expected) and not errors
        if not right or not all(line.startswith(start) for line, start in zip(lines, expected)):
            print(f'{path}: {text[:80]!r}\n  wanted {expected}\n  got {code} {lines} {errors}')
            faults += 1
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    main()
