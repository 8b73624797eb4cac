#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Generates C codecs from an XDR description (RFC 4506 §6, RFC 5531 §12).

    xdrc.py SPEC.x OUT.h OUT.c

The C is bounded, allocates nothing and judges form only: lengths, caps, enum values, union arms.
What becomes what is told in src/proto/codec.h; the rules that this program adds to the language:

1. Every variable length has a cap. A missing one is an error here, not a surprise at run time.
2. The last member of a struct may be a pointer to the same struct: a linked list. A pointer to such
   a struct is the list, kept as its raw bytes; other pointers are refused (write a union).
3. Every procedure carries its section as a comment behind it: /* RFC 1813 §3.3.1 */.
4. Arguments and results of procedures are structs, unions, lists, or plain bool, int, unsigned.
5. `import NAME;` lets a description use what spec/NAME.x defines; the C for that is made there.
"""

import os
import re
import sys
from dataclasses import dataclass, field
from typing import Optional

SPEC_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../spec')

# ---- what an XDR description says ------------------------------------------------------------


@dataclass
class Decl:
    """One member: `type name`, with how = one, fixed [n], var <n>, pointer, or void."""
    name: str
    type: str
    how: str = 'one'
    size: str = ''


@dataclass
class Enum:
    name: str
    items: list


@dataclass
class Struct:
    name: str
    members: list
    is_element: bool = False        # of a linked list; the pointer to the next is not a member
    is_list: bool = False           # a typedef of a pointer to an element: its only member


@dataclass
class Union:
    name: str
    switch: Decl
    arms: list                      # ([value, ...], Decl)
    default: Optional[Decl] = None


@dataclass
class Procedure:
    name: str
    number: int
    args: str
    res: str
    section: str


@dataclass
class Version:
    name: str
    number: int
    program: str = ''
    program_number: int = 0
    procedures: list = field(default_factory=list)


class Fault(Exception):
    """A mistake in the description; carries the line."""


# ---- reading ---------------------------------------------------------------------------------

TOKEN = re.compile(r'''
    (?P<comment>/\*.*?\*/) | (?P<space>\s+) | (?P<word>[A-Za-z_]\w*)
  | (?P<number>-?(?:0x[0-9a-fA-F]+|\d+)) | (?P<mark>[{}()\[\]<>;:,=*])
''', re.VERBOSE | re.DOTALL)

BEHIND = re.compile(r'/\*\s*([^*]*?)\s*\*/')  # a comment that fits its line: a procedure's section


class Reader:
    """A recursive-descent parser; fills consts, types (in order) and versions."""

    def __init__(self, text):
        self.tokens = []
        line, at = 1, 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise Fault(f'{line}: cannot read {text[at:at + 20]!r}')
            if match.lastgroup in ('word', 'number', 'mark'):
                self.tokens.append((match.group(), line))
            elif match.lastgroup == 'comment' and self.tokens:
                section = BEHIND.match(match.group())
                if section and self.tokens[-1] == (';', line):
                    self.tokens.append(('§' + section.group(1), line))
            line += match.group().count('\n')
            at = match.end()
        self.tokens.append(('end of file', line))
        self.at = 0
        self.consts, self.typedefs, self.types, self.versions = {}, {}, {}, []
        self.imports, self.imported = [], set()     # other descriptions; names that are theirs

    def peek(self):
        while self.tokens[self.at][0].startswith('§'):
            self.at += 1
        return self.tokens[self.at][0]

    def take(self, *wanted):
        token = self.peek()
        if wanted and token not in wanted:
            self.fail(f'expected {" or ".join(wanted)}, found {token}')
        self.at += 1
        return token

    def word(self):
        if not re.match(r'[A-Za-z_]\w*$', self.peek()):
            self.fail(f'expected a name, found {self.peek()}')
        return self.take()

    def maybe(self, wanted):
        if self.peek() == wanted:
            self.at += 1
            return True
        return False

    def fail(self, text):
        raise Fault(f'{self.tokens[min(self.at, len(self.tokens) - 1)][1]}: {text}')

    def number(self, text=None):
        token = text if text is not None else self.take()
        if token in self.consts:
            return self.consts[token]
        try:
            return int(token, 0)
        except ValueError:
            return self.fail(f'{token} is not a number or a known constant')

    def type_name(self):
        token = self.word()
        if token == 'unsigned':
            follower = self.peek()
            if follower in ('int', 'hyper'):
                self.take()
                return 'unsigned hyper' if follower == 'hyper' else 'unsigned'
            return 'unsigned'
        if token in ('struct', 'enum'):
            return self.word()
        return token

    def decl(self):
        if self.maybe('void'):
            return Decl('', 'void', 'void')
        kind = self.type_name()
        if self.maybe('*'):
            return Decl(self.word(), kind, 'pointer')
        name = self.word()
        if self.maybe('['):
            return Decl(name, kind, 'fixed', self.size(']'))
        if self.maybe('<'):
            if self.peek() == '>':
                self.fail(f'{name}<> has no cap')
            return Decl(name, kind, 'var', self.size('>'))
        if kind in ('string', 'opaque'):
            self.fail(f'{kind} {name} has no length')
        return Decl(name, kind)

    def size(self, closing):
        token = self.take()
        self.number(token)
        self.take(closing)
        return token

    def read(self):
        while self.peek() != 'end of file':
            what = self.take('import', 'const', 'enum', 'struct', 'union', 'typedef', 'program')
            getattr(self, 'read_' + what)()
            self.take(';')
        for kind in self.types.values():
            if isinstance(kind, Struct):
                self.find_list(kind)
        return self

    def define(self, thing):
        if thing.name in self.types or thing.name in self.typedefs:
            self.fail(f'{thing.name} is defined twice')
        self.types[thing.name] = thing

    def read_import(self):
        name = self.word()
        path = os.path.join(SPEC_FOLDER, name + '.x')
        if not os.path.exists(path):
            self.fail(f'there is no {name}.x')
        with open(path, encoding='utf-8') as file:
            other = Reader(file.read()).read()
        self.imports.append(name)
        for mine, theirs in ((self.consts, other.consts), (self.typedefs, other.typedefs),
                             (self.types, other.types)):
            for known in self.imported & set(theirs):
                self.fail(f'{known} is defined twice')
            mine.update(theirs)
        self.imported |= {*other.consts, *other.typedefs, *other.types}

    def own(self, things):
        """Those of a dict that this description defines."""
        return {name: thing for name, thing in things.items() if name not in self.imported}

    def aggregates(self):
        """Names of the structs and unions that it has codecs for: its own, and what of others' its
        procedures take and give."""
        used = [name for version in self.versions for proc in version.procedures
                for name in (proc.args, proc.res) if name in self.imported]
        own = [kind.name for kind in self.own(self.types).values() if not isinstance(kind, Enum)]
        return own + list(dict.fromkeys(used))

    def read_const(self):
        name = self.word()
        self.take('=')
        self.consts[name] = self.number()

    def read_enum(self):
        name, items = self.word(), []
        self.take('{')
        while True:
            item = self.word()
            self.take('=')
            items.append((item, self.number()))
            if self.take(',', '}') == '}':
                break
        self.define(Enum(name, items))

    def read_struct(self):
        name, members = self.word(), []
        self.take('{')
        while not self.maybe('}'):
            members.append(self.decl())
            self.take(';')
        self.define(Struct(name, members))

    def read_union(self):
        union = Union(self.word(), None, [])
        self.take('switch')
        self.take('(')
        union.switch = self.decl()
        self.take(')')
        self.take('{')
        while not self.maybe('}'):
            values = []
            while self.maybe('case'):
                values.append(self.take())
                self.take(':')
            if values:
                union.arms.append((values, self.decl()))
            else:
                self.take('default')
                self.take(':')
                union.default = self.decl()
            self.take(';')
        self.define(union)

    def read_typedef(self):
        decl = self.decl()
        if decl.how == 'pointer':
            self.define(Struct(decl.name, [Decl('list', decl.type, 'pointer')], is_list=True))
        else:
            self.typedefs[decl.name] = decl

    def read_program(self):
        program, versions = self.word(), []
        self.take('{')
        while not self.maybe('}'):
            self.take('version')
            version = Version(self.word(), 0, program)
            self.take('{')
            while not self.maybe('}'):
                version.procedures.append(self.read_procedure())
            self.take('=')
            version.number = self.number()
            self.take(';')
            versions.append(version)
        self.take('=')
        number = self.number()
        for version in versions:
            version.program_number = number
        self.versions += versions

    def read_procedure(self):
        res, name = self.type_name(), self.word()
        self.take('(')
        args = self.type_name()
        self.take(')')
        self.take('=')
        number = self.number()
        self.take(';')
        section = self.tokens[self.at][0]
        if not section.startswith('§'):
            self.fail(f'{name} does not say its section')
        return Procedure(name, number, args, res, section[1:])

    def find_list(self, struct):
        """Marks a struct whose last member points to its own kind, itself or through a typedef."""
        last = struct.members[-1]
        alias = self.types.get(last.type)
        if last.how == 'one' and isinstance(alias, Struct) and alias.is_list:
            last = alias.members[0]
        if last.how == 'pointer' and last.type == struct.name:
            struct.members.pop()
            struct.is_element = True


# ---- shapes: how one member is kept, read, written and printed in C ----------------------------

SCALARS = {
    'int': ('int32_t', 'i32'), 'unsigned': ('uint32_t', 'u32'),
    'hyper': ('int64_t', 'i64'), 'unsigned hyper': ('uint64_t', 'u64'), 'bool': ('bool', 'bool'),
}
PRINT_AS = {'i32': 'i64', 'u32': 'u64', 'i64': 'i64', 'u64': 'u64', 'bool': 'bool'}


class Scalar:
    def __init__(self, ctype, suffix):
        self.ctype, self.suffix = ctype, suffix

    def declare(self, name):
        return [f'{self.ctype} {name};']

    def get(self, at):
        return [f'xdr_get_{self.suffix}(xdr, &{at});']

    def put(self, at):
        return [f'xdr_put_{self.suffix}(xdr, {at});']

    def print(self, at, name):
        return [f'xdr_print_{PRINT_AS[self.suffix]}(out, indent, "{name}", {at});']


class EnumShape:
    def __init__(self, name):
        self.name = name

    def declare(self, name):
        return [f'enum {self.name} {name};']

    def get(self, at):
        return [f'{self.name}_get(xdr, &{at});']

    def put(self, at):
        return [f'{self.name}_put(xdr, {at});']

    def print(self, at, name):
        return [f'xdr_print_enum(out, indent, "{name}", {self.name}_name({at}), (int32_t){at});']


class StructShape:
    def __init__(self, name):
        self.name = name

    def declare(self, name):
        return [f'struct {self.name} {name};']

    def get(self, at):
        return [f'{self.name}_get(xdr, &{at});']

    def put(self, at):
        return [f'{self.name}_put(xdr, &{at});']

    def print(self, at, name):
        return [f'xdr_print_head(out, indent, "{name}");',
                f'{self.name}_print(out, indent + 4, &{at});']


class FixedBytes:
    def __init__(self, size, ctype=None):
        self.size, self.ctype = size, ctype

    def declare(self, name):
        return [f'{self.ctype} {name};' if self.ctype else f'uint8_t {name}[{self.size}];']

    def get(self, at):
        return [f'xdr_get_fixed(xdr, {at}, {self.size});']

    def put(self, at):
        return [f'xdr_put_fixed(xdr, {at}, {self.size});']

    def print(self, at, name):
        return [f'xdr_print_hex(out, indent, "{name}", {at}, {self.size});']


class Bytes:
    def __init__(self, cap, is_text, ctype='struct xdr_bytes'):
        self.cap, self.is_text, self.ctype = cap, is_text, ctype

    def declare(self, name):
        return [f'{self.ctype} {name};']

    def get(self, at):
        return [f'xdr_get_bytes(xdr, &{at}, {self.cap});']

    def put(self, at):
        return [f'xdr_put_bytes(xdr, {at}, {self.cap});']

    def print(self, at, name):
        if self.is_text:
            return [f'xdr_print_text(out, indent, "{name}", {at});']
        return [f'xdr_print_hex(out, indent, "{name}", {at}.data, {at}.size);']


class FixedArray:
    def __init__(self, element, size):
        self.element, self.size = element, size

    def declare(self, name):
        return self.element.declare(f'{name}[{self.size}]')

    def each(self, lines, count):
        return [f'for (uint32_t i = 0; i < {count}; i++) {{', *indent(lines), '}']

    def get(self, at):
        return self.each(self.element.get(at + '[i]'), self.size)

    def put(self, at):
        return self.each(self.element.put(at + '[i]'), self.size)

    def print(self, at, name):
        return self.each(self.element.print(at + '[i]', name), self.size)


class Array(FixedArray):
    def declare(self, name):
        return super().declare(name) + [f'uint32_t {name}_count;']

    def get(self, at):
        return [f'xdr_get_u32(xdr, &{at}_count);',
                f'if ({at}_count > {self.size}) {{',
                f'    {at}_count = 0;',
                '    xdr_fail(xdr, XDR_TOO_LONG);',
                '}',
                *self.each(self.element.get(at + '[i]'), at + '_count')]

    def put(self, at):
        return [f'if ({at}_count > {self.size}) {{',
                '    return xdr_fail(xdr, XDR_TOO_LONG);',
                '}',
                f'xdr_put_u32(xdr, {at}_count);',
                *self.each(self.element.put(at + '[i]'), at + '_count')]

    def print(self, at, name):
        return self.each(self.element.print(at + '[i]', name), at + '_count')


class List:
    def __init__(self, element):
        self.element = element

    def declare(self, name):
        return [f'struct xdr_bytes {name}; /* list of {self.element}, see {self.element}_next */']

    def get(self, at):
        return [f'{self.element}_list_get(xdr, &{at});']

    def put(self, at):
        return [f'xdr_put_list(xdr, {at});']

    def print(self, at, name):
        return [f'{self.element}_list_print(out, indent, "{name}", {at});']


def indent(lines):
    return ['    ' + line for line in lines]


class Shapes:
    def __init__(self, reader):
        self.reader = reader

    def of(self, decl):
        if decl.type in ('opaque', 'string'):
            if decl.how == 'fixed':
                return FixedBytes(decl.size)
            return Bytes(decl.size, decl.type == 'string')
        if decl.how == 'pointer':
            element = self.reader.types.get(decl.type)
            if not isinstance(element, Struct) or not element.is_element:
                raise Fault(f'{decl.type} *{decl.name}: only pointers to list elements')
            return List(decl.type)
        one = self.of_name(decl.type)
        if decl.how == 'fixed':
            return FixedArray(one, decl.size)
        if decl.how == 'var':
            return Array(one, decl.size)
        return one

    def of_name(self, name):
        if name in SCALARS:
            return Scalar(*SCALARS[name])
        if name in self.reader.typedefs:
            shape = self.of(self.reader.typedefs[name])
            if isinstance(shape, (Scalar, Bytes, FixedBytes)):
                shape.ctype = name
            return shape
        kind = self.reader.types.get(name)
        if isinstance(kind, Enum):
            return EnumShape(name)
        if isinstance(kind, Struct) and kind.is_list:
            return List(kind.members[0].type)
        if kind:
            return StructShape(name)
        raise Fault(f'{name} is not defined')


# ---- writing ---------------------------------------------------------------------------------

def function(head, lines):
    return [head, '{', *indent(lines), '}', '']


class Writer:
    """Turns what was read into the lines of a header and of a source file."""

    def __init__(self, reader, spec):
        self.reader, self.spec, self.shapes = reader, spec, Shapes(reader)
        self.header, self.source = [], []
        self.codecs = reader.aggregates()

    def write(self):
        reader = self.reader
        self.write_consts()
        for name, decl in reader.own(reader.typedefs).items():
            self.write_typedef(name, decl)
        self.header.append('')
        for kind in reader.own(reader.types).values():
            if isinstance(kind, Enum):
                self.write_enum(kind)
            else:
                self.write_aggregate(kind)
        self.write_procedure_numbers()
        self.write_codecs()
        self.write_spec()

    def write_consts(self):
        for name, value in self.reader.own(self.reader.consts).items():
            if value > 0x7fffffff:
                self.header.append(f'#define {name} {value}U{"LL" if value >> 32 else ""}')
            else:
                self.header.append(f'enum {{ {name} = {value} }};')
        self.header.append('')

    def write_typedef(self, name, decl):
        shape = self.shapes.of(decl)
        if isinstance(shape, Scalar):
            line = f'typedef {shape.ctype} {name};'
        elif isinstance(shape, Bytes):
            line = f'typedef struct xdr_bytes {name};'
        elif isinstance(shape, FixedBytes):
            line = f'typedef uint8_t {name}[{shape.size}];'
        else:
            raise Fault(f'typedef {name}: only of scalars, opaque, string and lists')
        self.header.append(line)

    def write_enum(self, enum):
        name = enum.name
        items = [f'    {item} = {value},' for item, value in enum.items]
        items[-1] = items[-1][:-1]
        self.header += [f'enum {name} {{', *items, '};',
                        f'bool {name}_get(struct xdr *xdr, enum {name} *value);',
                        f'bool {name}_put(struct xdr *xdr, enum {name} value);',
                        f'const char *{name}_name(enum {name} value); /* "?" for others */', '']
        cases = [f'case {item}:' for item, _ in enum.items]
        self.source += function(f'static bool {name}_valid(int32_t value)', [
            'switch (value) {', *cases, '    return true;', 'default:', '    return false;', '}'])
        self.source += function(f'bool {name}_get(struct xdr *xdr, enum {name} *value)', [
            'int32_t word;',
            'xdr_get_i32(xdr, &word);',
            f'if (!{name}_valid(word)) {{',
            '    word = 0;',
            '    xdr_fail(xdr, XDR_BAD_ENUM);',
            '}',
            f'*value = (enum {name})word;',
            'return xdr_ok(xdr);'])
        self.source += function(f'bool {name}_put(struct xdr *xdr, enum {name} value)', [
            f'return {name}_valid((int32_t)value) ? xdr_put_i32(xdr, (int32_t)value)',
            f'{" " * (len(name) + 24)}: xdr_fail(xdr, XDR_BAD_ENUM);'])
        names = []
        for item, _ in enum.items:
            names += [f'case {item}:', f'    return "{item}";']
        self.source += function(f'const char *{name}_name(enum {name} value)', [
            'switch (value) {', *names, '}', 'return "?";'])

    def write_aggregate(self, kind):
        name = kind.name
        is_union = isinstance(kind, Union)
        members, get, put, text = self.union_lines(kind) if is_union else self.struct_lines(kind)
        self.header += [f'struct {name} {{', *indent(members), '};',
                        f'bool {name}_get(struct xdr *xdr, struct {name} *value);',
                        f'bool {name}_put(struct xdr *xdr, const struct {name} *value);',
                        f'void {name}_print(FILE *out, int indent, const struct {name} *value);']
        self.source += function(f'bool {name}_get(struct xdr *xdr, struct {name} *value)',
                                get + ['return xdr_ok(xdr);'])
        self.source += function(f'bool {name}_put(struct xdr *xdr, const struct {name} *value)',
                                put + ['return xdr_ok(xdr);'])
        self.source += function(
            f'void {name}_print(FILE *out, int indent, const struct {name} *value)', text)
        if not is_union and kind.is_element:
            self.write_element(name)
        self.header.append('')

    def struct_lines(self, struct):
        members, get, put, text = [], [], [], []
        for decl in struct.members:
            shape = self.shapes.of(decl)
            members += shape.declare(decl.name)
            get += shape.get('value->' + decl.name)
            put += shape.put('value->' + decl.name)
            text += shape.print('value->' + decl.name, decl.name)
        return members, get, put, text

    def union_lines(self, union):
        switch = self.shapes.of(union.switch)
        at = 'value->' + union.switch.name
        members = switch.declare(union.switch.name)
        inside = []
        for _, arm in union.arms + ([([], union.default)] if union.default else []):
            if arm.how != 'void':
                inside += self.shapes.of(arm).declare(arm.name)
        if inside:
            members += ['union {', *indent(inside), '};']
        is_bool = isinstance(switch, Scalar) and switch.suffix == 'bool'
        branches = self.bool_branches if is_bool else self.branches
        fail = ['xdr_fail(xdr, XDR_BAD_ENUM);']
        get = switch.get(at) + branches(union, at, fail, lambda shape, place, _: shape.get(place))
        put = switch.put(at) + branches(union, at, fail, lambda shape, place, _: shape.put(place))
        text = switch.print(at, union.switch.name) + branches(
            union, at, [], lambda shape, place, name: shape.print(place, name))
        return members, get, put, text

    def arm_lines(self, arm, lines_of):
        if arm.how == 'void':
            return []
        return lines_of(self.shapes.of(arm), 'value->' + arm.name, arm.name)

    def branches(self, union, at, fail, lines_of):
        lines = [f'switch ({at}) {{']
        for values, arm in union.arms:
            lines += [f'case {value}:' for value in values]
            lines += indent(self.arm_lines(arm, lines_of) + ['break;'])
        rest = self.arm_lines(union.default, lines_of) if union.default else fail
        return lines + ['default:', *indent(rest + ['break;']), '}']

    def bool_branches(self, union, at, fail, lines_of):
        sides = {'TRUE': fail, 'FALSE': fail}
        if union.default:
            sides = dict.fromkeys(sides, self.arm_lines(union.default, lines_of))
        for values, arm in union.arms:
            for value in values:
                if value not in sides:
                    raise Fault(f'{union.name}: {value} is not a bool')
                sides[value] = self.arm_lines(arm, lines_of)
        lines = [f'if ({at}) {{', *indent(sides['TRUE'])]
        if sides['FALSE']:
            lines += ['} else {', *indent(sides['FALSE'])]
        return lines + ['}']

    def write_element(self, name):
        self.header += [
            f'bool {name}_next(struct xdr *cursor, struct {name} *element);',
            f'bool {name}_list_put(struct xdr *xdr, const struct {name} *element);',
            f'bool {name}_list_get(struct xdr *xdr, struct xdr_bytes *list);',
            f'void {name}_list_print(FILE *out, int indent, const char *name, '
            'struct xdr_bytes list);']
        self.source += function(
            f'bool {name}_next(struct xdr *cursor, struct {name} *element)', [
                'bool more;',
                f'return xdr_get_bool(cursor, &more) && more && {name}_get(cursor, element);'])
        self.source += function(
            f'bool {name}_list_put(struct xdr *xdr, const struct {name} *element)', [
                f'return xdr_put_bool(xdr, true) && {name}_put(xdr, element);'])
        self.source += function(
            f'bool {name}_list_get(struct xdr *xdr, struct xdr_bytes *list)', [
                'const uint8_t *from = xdr->next;',
                f'struct {name} element;',
                f'while ({name}_next(xdr, &element)) {{',
                '}',
                '*list = xdr_since(xdr, from);',
                'return xdr_ok(xdr);'])
        self.source += function(
            f'void {name}_list_print(FILE *out, int indent, const char *name, '
            'struct xdr_bytes list)', [
                'struct xdr cursor = xdr_reader(list.data, list.size);',
                f'struct {name} element;',
                f'while ({name}_next(&cursor, &element)) {{',
                '    xdr_print_head(out, indent, name);',
                f'    {name}_print(out, indent + 4, &element);',
                '}'])

    def write_procedure_numbers(self):
        seen, programs = {}, {}
        for version in self.reader.versions:
            programs[version.program] = version.program_number
            programs[version.name] = version.number
            fresh = []
            for proc in version.procedures:
                if seen.setdefault(proc.name, proc.number) != proc.number:
                    raise Fault(f'{proc.name} has two numbers')
                if not any(proc.name == old for old in self.known(version)):
                    fresh.append(f'    {proc.name} = {proc.number},')
            if fresh:
                fresh[-1] = fresh[-1][:-1]
                self.header += ['enum {', *fresh, '};', '']
        # Two descriptions may be of one program, and a macro may be defined twice alike.
        self.header += [f'#define {name} {value}U' for name, value in programs.items()]

    def known(self, version):
        """Names of the procedures of the versions before this one."""
        for other in self.reader.versions:
            if other is version:
                return
            yield from (proc.name for proc in other.procedures)

    def write_codecs(self):
        for name in self.codecs:
            self.source += function(f'static bool {name}_get_any(struct xdr *xdr, void *value)', [
                f'return {name}_get(xdr, (struct {name} *)value);'])
            self.source += function(
                f'static bool {name}_put_any(struct xdr *xdr, const void *value)', [
                    f'return {name}_put(xdr, (const struct {name} *)value);'])
            self.source += function(
                f'static void {name}_print_any(FILE *out, int indent, const void *value)', [
                    f'{name}_print(out, indent, (const struct {name} *)value);'])
        self.source += [f'static const struct proto_codec codecs[{len(self.codecs)}] = {{']
        for name in self.codecs:
            self.source += [f'    {{"{name}", sizeof(struct {name}), {name}_get_any, '
                            f'{name}_put_any, {name}_print_any}},']
        self.source += ['};', '']

    def codec(self, name):
        plain = {'bool': '&proto_bool_codec', 'unsigned': '&proto_u32_codec',
                 'int': '&proto_i32_codec', 'void': 'NULL'}
        if name in plain:
            return plain[name]
        if name not in self.codecs:
            raise Fault(f'{name}: procedures take structs, unions, lists, bool, int or unsigned')
        return f'&codecs[{self.codecs.index(name)}]'

    def write_spec(self):
        for version in self.reader.versions:
            self.source.append(
                f'static const struct proto_procedure {version.name}_procedures[] = {{')
            for proc in version.procedures:
                self.source.append(
                    f'    {{{proc.number}, "{proc.name}", {self.codec(proc.args)}, '
                    f'{self.codec(proc.res)}, "{proc.section}"}},')
            self.source += ['};', '']
        versions = self.reader.versions
        if versions:
            self.source.append(f'static const struct proto_version versions[{len(versions)}] = {{')
            for v in versions:
                self.source.append(
                    f'    {{{v.program_number}, {v.number}, "{v.program}", "{v.name}", '
                    f'{len(v.procedures)}, {v.name}_procedures}},')
            self.source += ['};', '']
        self.header += ['', f'extern const struct proto_spec {self.spec}_spec;']
        self.source += [
            f'const struct proto_spec {self.spec}_spec = {{',
            f'    "{self.spec}", {len(self.codecs)}, codecs, {len(versions)}, '
            f'{"versions" if versions else "NULL"}}};']


def main():
    if len(sys.argv) != 4:
        sys.exit('usage: xdrc.py SPEC.x OUT.h OUT.c')
    path, header_path, source_path = sys.argv[1:]
    spec = os.path.splitext(os.path.basename(path))[0]
    with open(path, encoding='utf-8') as file:
        text = file.read()
    try:
        writer = Writer(Reader(text).read(), spec)
        writer.write()
    except Fault as fault:
        sys.exit(f'{path}:{fault}')
    guard = f'PROTO_{spec.upper()}_H'
    includes = ''.join(f'#include "proto/{name}.h"\n' for name in ('codec', *writer.reader.imports))
    head = ('/* SPDX-License-Identifier: Apache-2.0 */\n'
            f'/* Made by tools/xdrc.py from spec/{spec}.x. */\n')
    with open(header_path, 'w', encoding='utf-8') as file:
        file.write(head + f'#ifndef {guard}\n#define {guard}\n\n{includes}\n' +
                   '\n'.join(writer.header) + '\n\n#endif\n')
    with open(source_path, 'w', encoding='utf-8') as file:
        file.write(head + f'#include "proto/{spec}.h"\n\n#include "xdr/print.h"\n\n' +
                   '\n'.join(writer.source) + '\n')


if __name__ == '__main__':
    main()
