#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast exports check, list and explain."""
import json
import os

from cli import CANNOT, DONE, FINDING, Serving, check, equal, holdfast, quiet, run, write


def a_good_file_passes(work):
    file = write(f'{work}/exports', f'{work}/export 10.0.0.0/8(rw) *(ro)\n')
    ended = holdfast('exports', 'check', file).ends(DONE)
    equal(ended.out, f'{file}: exports: 1, errors: 0, warnings: 0\n', 'output')
    equal(ended.err, '', 'standard error')


def problems_come_with_file_and_line(work):
    file = write(f'{work}/exports', f'# first\n{work}/export 10.0.0.0/8 (rw)\n'
                                    f'{work}/export 300.0.0.1(rw)\n{work}/export ::1(frob)\n')
    holdfast('exports', 'check', file).ends(FINDING).says(
        f'{file}:2: warning: ', '10.0.0.0/8(rw)', f'{file}:3: error: ', '300.0.0.1',
        f'{file}:4: error: ', "'frob'", 'exports: 1, errors: 2, warnings: 1', where='out')


def directories_that_cannot_be_exported_are_found(work):
    write(f'{work}/file', '')
    file = write(f'{work}/exports', f'{work}/missing ::1(rw)\n{work}/file ::1(rw)\n')
    holdfast('exports', 'check', file).ends(FINDING).says(
        f'{file}:1: error: ', 'No such file', f'{file}:2: error: ', 'it is no directory',
        'exports: 0, errors: 2', where='out')


def exports_inside_exports_are_pointed_out(work):
    os.makedirs(f'{work}/export/in/deep')
    file = write(f'{work}/exports', f'{work}/export 10.0.0.1(rw) 10.0.0.2(ro)\n'
                                    f'{work}/export/in 10.0.0.1(rw) 10.0.0.2(ro)\n'
                                    f'{work}/export/in/deep 10.0.0.1(ro)\n')
    ended = holdfast('exports', 'check', file).ends(FINDING)
    equal(ended.out.count('warning'), 2, f'warnings in {ended.out}')
    ended.says(f'{file}:3: warning: ', 'lies in the export', where='out')


def a_file_that_cannot_be_read_is_not_a_finding(work):
    for command in (['check'], ['list'], ['explain', '::1', '/']):
        holdfast('exports', *command, f'{work}/missing').ends(CANNOT).says(f'{work}/missing',
                                                                           'No such file')
        holdfast('exports', *command, work).ends(CANNOT).says(work, 'directory')


def list_shows_who_gets_what(work):
    file = write(f'{work}/exports', '/a -rw 10.0.0.1 10.0.0.2(ro,insecure)\n"/b c" *(fsid=7)\n')
    ended = holdfast('exports', 'list', file).ends(DONE)
    lines = ended.out.splitlines()
    equal([line for line in lines if not line.startswith(' ')], ['/a', '/b c'], 'directories')
    equal(lines[1].split(), ['10.0.0.1', 'rw,sync,secure,root_squash,no_all_squash,'
                             'anonuid=65534,anongid=65534', '#', f'{file}:1'], 'first client')
    check('10.0.0.2' in lines[2] and 'ro,sync,insecure' in lines[2], lines[2])
    check('fsid=7' in lines[4], lines[4])


def list_leaves_bad_lines_out_and_says_so(work):
    file = write(f'{work}/exports', '/a ::1(rw)\n/b ::1(frob)\n')
    ended = holdfast('exports', 'list', file).ends(FINDING).says('errors: 1', 'exports check')
    check('/a' in ended.out and '/b' not in ended.out, ended.out)


def explain_names_the_line_that_counts(work):
    file = write(f'{work}/exports', '/srv 10.0.0.0/8(ro)\n/srv 10.0.0.7(rw,no_root_squash) *(ro)\n')
    holdfast('exports', 'explain', '10.0.0.7', '/srv/some/where/', file).ends(DONE).says(
        'read and write', 'export /srv', f'by 10.0.0.7 (single host), {file}:2',
        'root acts as root', f'not by 10.0.0.0/8 (network), {file}:1',
        f'not by * (everyone), {file}:2', where='out')
    holdfast('exports', 'explain', '10.0.0.8', '/srv', file).ends(DONE).says(
        'may read at', f'by 10.0.0.0/8 (network), {file}:1', 'ports below 1024', where='out')


def explain_says_when_there_is_nothing(work):
    file = write(f'{work}/exports', '/srv 10.0.0.0/8(ro)\n')
    holdfast('exports', 'explain', '11.0.0.1', '/srv', file).ends(FINDING).says(
        'gets nothing', '10.0.0.0/8', f'{file}:1', where='out')
    holdfast('exports', 'explain', '10.0.0.1', '/other', file).ends(FINDING).says(
        'no export', where='out')
    holdfast('exports', 'explain', 'no-such-host.invalid', '/srv', file).ends(CANNOT).says(
        'no-such-host.invalid')


def explain_takes_the_longest_path(work):
    file = write(f'{work}/exports', '/srv *(ro)\n/srv/inner 10.0.0.1(rw)\n')
    holdfast('exports', 'explain', '10.0.0.1', '/srv/inner/x', file).ends(DONE).says(
        'export /srv/inner', where='out')
    holdfast('exports', 'explain', '10.0.0.2', '/srv/inner/x', file).ends(DONE).says(
        'may read at', 'export /srv\n', where='out')
    holdfast('exports', 'explain', '10.0.0.2', '/srv/innermost', file).ends(DONE)


def explain_looks_names_up(work):
    file = write(f'{work}/exports', '/srv 127.0.0.0/8(ro) ::1(rw)\n')
    holdfast('exports', 'explain', 'localhost', '/srv', file).ends(DONE).says(
        '127.0.0.1', where='out')


def json_says_what_the_text_says(work):
    file = write(f'{work}/exports', f'{work}/export 10.0.0.0/8(ro) 10.0.0.7(rw)\n/b (rw)\n')
    told = json.loads(holdfast('exports', 'check', '--json', file).ends(FINDING).out)
    equal((told['exports'], told['errors'], told['warnings']), (1, 1, 1), 'counts')
    equal([problem['kind'] for problem in told['problems']], ['warning', 'error'], 'problems')
    told = json.loads(holdfast('exports', 'list', file, '--json').ends(DONE).out)
    equal([(entry['path'], [client['client'] for client in entry['clients']])
           for entry in told['exports']],
          [(f'{work}/export', ['10.0.0.0/8', '10.0.0.7']), ('/b', ['*'])], 'list')
    told = json.loads(holdfast('exports', '--json', 'explain', '10.0.0.7', f'{work}/export/x',
                               file).ends(DONE).out)
    address = told['addresses'][0]
    equal((told['export'], address['access'], address['by']['client'], address['by']['line'],
           address['not_by'][0]['client']),
          (f'{work}/export', 'rw', '10.0.0.7', 1, '10.0.0.0/8'), 'explain')
    told = json.loads(holdfast('exports', 'explain', '--json', '11.0.0.7', f'{work}/export',
                               file).ends(FINDING).out)
    equal(told['addresses'][0]['access'], 'none', 'access of a stranger')
    told = json.loads(holdfast('exports', 'explain', '--json', '11.0.0.7', '/other',
                               file).ends(FINDING).out)
    equal(told['export'], None, 'no export')


def diff_shows_who_gets_something_else(work):
    old = write(f'{work}/old', '/a 10.0.0.1(rw) 10.0.0.2\n"/b c" *(ro)\n/d 10.0.0.1\n')
    new = write(f'{work}/new', '"/b c" *(rw)\n/d 10.0.0.1(ro)\n/a 10.0.0.2 10.0.0.3\n')
    lines = holdfast('exports', 'diff', old, new).ends(FINDING).out.splitlines()
    equal([line.split('(')[0] for line in lines],
          ['- /a 10.0.0.1', '- /b\\040c *', '+ /b\\040c *', '+ /a 10.0.0.3'], 'differences')
    check('(ro,' in lines[1] and '(rw,' in lines[2], lines)
    equal(holdfast('exports', 'diff', old, old).ends(DONE).out, '', 'no difference')
    told = json.loads(holdfast('exports', 'diff', '--json', old, new).ends(FINDING).out)
    equal([(item['path'], item['client'], item['before'] is None, item['after'] is None)
           for item in told['differences']],
          [('/a', '10.0.0.1', False, True), ('/b c', '*', False, False),
           ('/a', '10.0.0.3', True, False)], 'differences as JSON')


def diff_knows_what_the_server_has(work):
    odd = f'{work}/export/o d#"\\040(x)'
    os.mkdir(odd)
    text = (f'{work}/export 127.0.0.1(rw,insecure,fsid=7) 10.0.0.0/8(mp=/x,nordirplus)\n'
            + ''.join(f'\\{byte:03o}' for byte in odd.encode()) + ' *.a[b-d].org(crossmnt) @x\n')
    file = write(f'{work}/exports', text)
    with Serving(*quiet(work), '--exports', file):
        state = ('--state', f'{work}/state')
        equal(holdfast('exports', 'diff', *state, file).ends(DONE).out, '', 'no difference')
        write(file, text.replace('127.0.0.1(rw', '127.0.0.1(ro'))
        check(holdfast('exports', 'diff', *state, file).ends(FINDING).out.startswith('- '), 'diff')
        holdfast('exports', 'reload', *state).ends(DONE)
        holdfast('exports', 'diff', *state, file).ends(DONE)
    holdfast('exports', 'diff', *state, file).ends(CANNOT).says('no server answers')


def a_pipe_is_a_file_too(work):
    reader, writer = os.pipe()
    os.write(writer, b'/srv ::1(rw)')
    os.close(writer)
    holdfast('exports', 'list', f'/dev/fd/{reader}', pass_fds=[reader]).ends(DONE).says(
        '/srv', where='out')
    os.close(reader)


if __name__ == '__main__':
    run([a_good_file_passes, problems_come_with_file_and_line,
         directories_that_cannot_be_exported_are_found, exports_inside_exports_are_pointed_out,
         a_file_that_cannot_be_read_is_not_a_finding,
         list_shows_who_gets_what, list_leaves_bad_lines_out_and_says_so,
         explain_names_the_line_that_counts, explain_says_when_there_is_nothing,
         explain_takes_the_longest_path, explain_looks_names_up,
         json_says_what_the_text_says, diff_shows_who_gets_something_else,
         diff_knows_what_the_server_has, a_pipe_is_a_file_too])
