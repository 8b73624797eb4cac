#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The manuals say what the program does, and nothing in them is wrong as a manual."""
import os
import re
import shutil
import subprocess

from cli import CANNOT, DONE, FINDING, check, equal, holdfast, run, write

MANUALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs/man')


def source(name):
    with open(os.path.join(MANUALS, name), encoding='utf-8') as file:
        return file.read().replace('\\\n', '')


def manuals_are_good_mdoc(_):
    if not shutil.which('man'):
        return
    for name in sorted(os.listdir(MANUALS)):
        if name == 'meson.build':
            continue
        done = subprocess.run(['man', '--warnings', '-E', 'UTF-8', '-l', '-Tutf8', '-Z',
                               os.path.join(MANUALS, name)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False,
                              env=dict(os.environ, LC_ALL='C.UTF-8', MANWIDTH='80'))
        equal((done.returncode, done.stderr), (0, ''), name)


def options_of_serve_are_in_its_manual(_):
    told = set(re.findall(r'^  --([a-z-]+)', holdfast('serve', '--help').out, re.MULTILINE))
    written = set(re.findall(r'^\.It Fl -([a-z-]+)', source('holdfast-serve.8'), re.MULTILINE))
    equal(written, told, 'options')


def commands_are_in_the_manual(_):
    told = re.findall(r'^  ([a-z]+)  ', holdfast('--help').out, re.MULTILINE)
    manual = source('holdfast.1')
    for command in told:
        check(re.search(rf'^\.It Cm .*\b{command}\b', manual, re.MULTILINE),
              f'{command} is missing')


def listed_words(head):
    """The option words of the item of holdfast-exports(5) whose text begins so."""
    found = re.search(rf'^\.It Cm ([^\n]*)\n{head}', source('holdfast-exports.5'), re.MULTILINE)
    words = found.group(1).split(' , ')
    return [re.sub(r' Ns Ar .*', 'x', word).strip() for word in words]


def words_of_exports_are_as_documented(work):
    groups = (('Taken', DONE, None), ('Not built yet; a warning', FINDING, ': warning: '),
              ('Not built yet, and the export', FINDING, ': error: '))
    for head, status, kind in groups:
        words = listed_words(head)
        check(len(words) > 3, f'{head}: {words}')
        for word in words:
            file = write(f'{work}/exports', f'{work}/export 10.0.0.1(rw,{word})\n')
            ended = holdfast('exports', 'check', file)
            equal(ended.code, status, f'{word}: exit status')
            check(kind is None or kind in ended.out, f'{word}: {ended.out}')


def exit_codes_are_as_documented(work):
    for text in (source('holdfast.1'), source('holdfast-serve.8')):
        check(re.search(r'\.It 3\n', text), 'exit status 3 is missing')
    holdfast('exports', 'check', f'{work}/missing').ends(CANNOT)


if __name__ == '__main__':
    run([manuals_are_good_mdoc, options_of_serve_are_in_its_manual, commands_are_in_the_manual,
         words_of_exports_are_as_documented, exit_codes_are_as_documented])
