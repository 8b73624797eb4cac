#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules as a test: tidy.py [ROOT]. Prints FILE:LINE: rule, and exits 1 if it printed any.

Each rule is a function that is given a file and yields (line, text), or that looks at the whole
tree. A rule that is too strict for good code is to be changed here, in the open, not worked around
there.
"""

import ast
import glob
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import xdrc  # noqa: E402

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000
FOLDERS = ('src', 'spec', 'tools', 'tests', 'bench', '.ci')
SKIPPED = ('tests/fuzz/corpus', 'tests/golden')
KINDS = ('.c', '.h', '.x', '.py', '.sh')

# Who may include whom: folder under src/ -> folders, or single headers, beside its own. Arrows
# point down. cli and daemon may include anything, so they are not here.
MAY_INCLUDE = {
    'base': [],
    'os': ['base'],
    'xdr': ['base'],
    'proto': ['base', 'xdr'],
    'journal': ['base', 'os'],
    'rpc': ['base', 'os', 'xdr', 'proto/rpc.h'],
    'vfs': ['base', 'os', 'journal'],
    'server': ['base', 'xdr', 'proto', 'rpc', 'vfs'],
    'client': ['base', 'xdr', 'proto', 'rpc'],
    'callback': ['base', 'proto', 'rpc', 'client'],
    'probe': ['base', 'os', 'proto', 'client', 'report/tree.h'],
    'trace': ['base', 'xdr', 'proto', 'report/tree.h'],
    'report': ['base'],
}

# The folders that see protocol messages: the bytes of those are xdr/stream's alone.
PROTOCOL_FOLDERS = ('proto', 'server', 'client', 'trace', 'probe')

BANNED = {
    r'\b(strcat|sprintf|vsprintf|gets|strtok|alloca)\s*\(': 'has no bound',
    r'\b(atoi|atol|atoll|atof)\s*\(': 'cannot fail; use strtol and its like',
    r'\babort\s*\(': 'use CHECK',
    r'#\s*include\s*<assert\.h>': 'use CHECK',
}


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def blank(match):
    """A comment or literal replaced by blanks, so that lines and columns stay."""
    return re.sub(r'[^\n]', ' ', match.group())


def code_of(text):
    """C without comments and without what is in quotes (but with include lines whole)."""
    text = re.sub(r'/\*.*?\*/|//[^\n]*', blank, text, flags=re.DOTALL)
    return re.sub(r'(?m)(?<!include )"(?:\\.|[^"\\\n])*"', '""', text)


def numbered(text):
    return enumerate(text.split('\n'), 1)


# ---- rules for any text ------------------------------------------------------------------------


def rule_spdx(_path, text):
    if 'SPDX-License-Identifier: Apache-2.0' not in '\n'.join(text.split('\n')[:3]):
        yield 1, 'no SPDX line at the top'


def rule_columns(_path, text):
    for number, line in numbered(text):
        if len(line) > COLUMNS_MAX:
            yield number, f'{len(line)} columns, {COLUMNS_MAX} allowed'


def rule_blanks(_path, text):
    for number, line in numbered(text):
        if line != line.rstrip():
            yield number, 'blanks at the end of the line'
        if '\t' in line:
            yield number, 'a tab; indent with spaces'


def rule_file_lines(_path, text):
    count = text.count('\n')
    if count > FILE_LINES_MAX:
        yield count, f'{count} lines, {FILE_LINES_MAX} allowed'


def rule_open_ends(_path, text):
    words = '|'.join(('TO' 'DO', 'FIX' 'ME', 'X' 'XX'))
    for number, line in numbered(text):
        for match in re.finditer(rf'\b(?:{words})\b(.*)', line):
            if not re.match(r'[ (]*(?:issue )?#?\d+', match.group(1)):
                yield number, 'an open end without the number of an issue'


# ---- rules for C -------------------------------------------------------------------------------


def rule_doxygen(_path, text):
    for number, line in numbered(text):
        if re.search(r'/\*\*(?!/)(?:\s|$)|(?:^|\s)///|[@\\](?:param|returns?|brief|file)\b', line):
            yield number, 'a doxygen comment; write sentences'


def rule_function_lines(_path, text):
    start = None
    for number, line in numbered(text):
        if line == '{':
            start = number
        elif line.startswith('}') and start:
            if number - start + 1 > FUNCTION_LINES_MAX:
                yield start, f'{number - start + 1} lines, {FUNCTION_LINES_MAX} allowed'
            start = None


def rule_banned(path, text):
    if path.startswith('src/base/check.'):
        return
    for number, line in numbered(code_of(text)):
        for pattern, why in BANNED.items():
            match = re.search(pattern, line)
            if match and path.startswith('src/'):
                yield number, f'{match.group().strip("( ")}: {why}'


def rule_wire_bytes(path, text):
    if path.split('/')[1] not in PROTOCOL_FOLDERS:
        return
    for number, line in numbered(code_of(text)):
        if re.search(r'\b(?:be(?:16|32|64)toh|htobe(?:16|32|64))\b', line):
            yield number, 'only xdr/stream touches wire bytes'


def rule_includes(path, text):
    folder = path.split('/')[1]
    for number, line in numbered(text):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        header = match.group(1)
        owner = header.split('/')[0]
        if '/' not in header:
            yield number, f'"{header}" does not say its folder'
        elif owner == folder:
            continue
        elif 'internal' in os.path.basename(header):
            yield number, f'{header} is for {owner} alone'
        elif folder in MAY_INCLUDE and not {owner, header} & set(MAY_INCLUDE[folder]):
            yield number, f'{folder} may not include {header}'


# ---- rules for Python --------------------------------------------------------------------------


def rule_python_function_lines(_path, text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f'{node.name}: {lines} lines, {FUNCTION_LINES_MAX} allowed'


# ---- rules for the tree ------------------------------------------------------------------------


def tree_everything_is_built(root):
    """A .c file that no meson.build names is tested by nobody."""
    folders = glob.glob(f'{root}/src/*') + glob.glob(f'{root}/tests/unit/*')
    for folder in folders + [f'{root}/tests/fuzz']:
        build = os.path.join(folder, 'meson.build')
        listed = read(build) if os.path.exists(build) else ''
        for path in sorted(glob.glob(f'{folder}/*.c')):
            stem = os.path.basename(path)[:-2]
            if not re.search(rf"'{re.escape(stem)}(?:\.c)?'", listed):
                yield os.path.relpath(path, root), 1, 'not named in meson.build'


def tree_wire_tests(root):
    """Every procedure of a protocol that the server speaks is called with bytes from its RFC.

    One version is enough for a procedure that several versions have under one name.
    """
    called = set()
    for path in glob.glob(f'{root}/tests/wire/*.wire'):
        called |= set(re.findall(r'@call\s+(\d+)\s+(\d+)\s+(\d+)', read(path)))
    for path in sorted(glob.glob(f'{root}/spec/*.x')):
        if not os.path.exists(f'{root}/src/server/{os.path.basename(path)[:-2]}.c'):
            continue
        text, wanted = read(path), {}
        for version in xdrc.Reader(text).read().versions:
            for procedure in version.procedures:
                call = (version.program_number, version.number, procedure.number)
                wanted.setdefault(procedure.name, []).append(tuple(map(str, call)))
        for name, calls in wanted.items():
            if not called & set(calls):
                line = text[:text.index(name + '(')].count('\n') + 1
                yield (os.path.relpath(path, root), line,
                       f'no tests/wire/*.wire has @call {" ".join(calls[0])}, {name}')


RULES = {
    '.c': [rule_spdx, rule_columns, rule_blanks, rule_file_lines, rule_open_ends, rule_doxygen,
           rule_function_lines],
    '.py': [rule_spdx, rule_columns, rule_blanks, rule_file_lines, rule_open_ends,
            rule_python_function_lines],
    '.sh': [rule_spdx, rule_columns, rule_file_lines, rule_open_ends],
}
RULES['.h'] = RULES['.c']
RULES['.x'] = [rule_spdx, rule_columns, rule_blanks, rule_file_lines, rule_open_ends]
SOURCE_RULES = [rule_banned, rule_wire_bytes, rule_includes]


def files(root):
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            here = os.path.relpath(where, root)
            folders[:] = sorted(name for name in folders
                                if os.path.join(here, name) not in SKIPPED and name[0] not in '._')
            for name in sorted(names):
                if os.path.splitext(name)[1] in KINDS:
                    yield os.path.join(here, name)


def findings(root):
    for path in files(root):
        text = read(os.path.join(root, path))
        kind = os.path.splitext(path)[1]
        rules = list(RULES[kind])
        if path.startswith('src/') and kind in ('.c', '.h'):
            rules += SOURCE_RULES
        for rule in rules:
            for line, words in rule(path, text):
                yield path, line, words
    yield from tree_everything_is_built(root)
    yield from tree_wire_tests(root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..')
    count = 0
    for path, line, words in findings(os.path.abspath(root)):
        print(f'{path}:{line}: {words}')
        count += 1
    sys.exit(1 if count else 0)


if __name__ == '__main__':
    main()
