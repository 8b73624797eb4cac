#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Members in the same order under the same names, enumerators with the same numbers.

    names.py SPEC.x HEADER.h MINIMUM [TYPE-THAT-MAY-DIFFER ...]

libnfs.c shows that bytes agree; a swapped pair of fields of one size would slip through there. This
compares spec/SPEC.x with a header that rpcgen made from somebody else's description, for every
struct and enum both have, and fails if that is fewer than MINIMUM. Of TYPE+ ours may have more.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../tools'))
import xdrc  # noqa: E402


def header_structs(text):
    """name -> member names in order; inner structs (arrays) by their own name, unions flat."""
    structs = {}
    for match in re.finditer(r'^struct (\w+) \{\n(.*?)^\};', text, re.DOTALL | re.MULTILINE):
        body = re.sub(r'struct \{[^}]*\} (\w+);', r'array \1;', match.group(2))
        body = re.sub(r'union \{([^}]*)\} \w+;', r'\1', body)
        structs[match.group(1)] = re.findall(r'(\w+)(?:\[\w+\])?;', body)
    return structs


def header_enums(text):
    return {name: dict((item, int(value)) for item, value in re.findall(r'(\w+) = (-?\d+)', body))
            for name, body in re.findall(r'^enum (\w+) \{(.*?)\};', text, re.DOTALL | re.MULTILINE)}


def our_members(kind, header_members):
    if isinstance(kind, xdrc.Union):
        arms = [arm.name for _, arm in kind.arms] + ([kind.default.name] if kind.default else [])
        return [kind.switch.name] + [name for name in arms if name]
    names = [decl.name for decl in kind.members]
    if kind.is_element:
        names.append(header_members[-1])  # the pointer to the next has no member in ours
    return names


def main():
    spec, header, minimum = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(spec, encoding='utf-8') as file:
        reader = xdrc.Reader(file.read()).read()
    with open(header, encoding='utf-8') as file:
        text = file.read()
    structs, enums = header_structs(text), header_enums(text)
    compared, faults = 0, 0
    for kind in reader.types.values():
        if isinstance(kind, xdrc.Enum) and kind.name in enums:
            ours, theirs = dict(kind.items), enums[kind.name]
            if kind.name + '+' in sys.argv[4:]:
                ours = {name: number for name, number in ours.items() if name in theirs}
        elif not isinstance(kind, xdrc.Enum) and kind.name in structs:
            theirs = structs[kind.name]
            ours = our_members(kind, theirs)
        else:
            continue
        if kind.name in sys.argv[4:]:
            continue
        compared += 1
        if ours != theirs:
            print(f'{kind.name}: ours {ours}\n{" " * len(kind.name)}  theirs {theirs}')
            faults += 1
    print(f'{compared} compared, {faults} differ')
    sys.exit(0 if faults == 0 and compared >= minimum else 1)


if __name__ == '__main__':
    main()
