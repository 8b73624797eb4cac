#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Help, version, and what is said to a wrong command line."""
from cli import DONE, USAGE, check, holdfast, run

SCREEN_LINES, SCREEN_COLUMNS = 24, 80


def help_fits_a_screen(_):
    for arguments in (['--help'], ['-h'], ['help'], ['serve', '--help'], ['exports', '--help']):
        ended = holdfast(*arguments).ends(DONE)
        lines = ended.out.splitlines()
        check(ended.err == '', f'{arguments}: help belongs on standard output')
        check(0 < len(lines) <= SCREEN_LINES, f'{arguments}: {len(lines)} lines')
        for line in lines:
            check(len(line) <= SCREEN_COLUMNS, f'{arguments}: {len(line)} columns: {line}')


def help_names_every_command(_):
    text = holdfast('--help').out
    for word in ('serve', 'exports', '--version', 'exit status'):
        check(word in text, f'{word} is missing')


def version_is_one_line(_):
    ended = holdfast('--version').ends(DONE)
    check(ended.out.startswith('holdfast ') and ended.out.count('\n') == 1, repr(ended.out))


def no_command_is_usage(_):
    holdfast().ends(USAGE).says('usage:')
    holdfast('frobnicate').ends(USAGE).says("'frobnicate'", '--help')
    holdfast('--frobnicate').ends(USAGE).says("'--frobnicate'")


def bad_options_of_serve_are_named(_):
    for arguments, words in (
            (['--frobnicate', '/srv'], ['--frobnicate']),
            (['-x', '/srv'], ['-x']),
            (['--port'], ['--port']),
            (['--port', '65536', '/srv'], ['65536']),
            (['--port', '-1', '/srv'], ['-1']),
            (['--port', '20x', '/srv'], ['20x']),
            (['--port', '', '/srv'], ['--port']),
            (['--portmap', 'maybe', '/srv'], ['maybe', 'auto']),
            (['--log-level', 'loud', '/srv'], ['loud', 'debug']),
            (['--sandbox', 'maybe', '/srv'], ['maybe', 'auto']),
            (['--state', '', '/srv'], ['--state']),
            (['--exports', 'a', '--exports', 'b'], ['--exports']),
            (['--bind', '127.0.0.1'] * 17 + ['/srv'], ['--bind']),
            ([], ['--exports']),
            (['--port', '0'], ['directory'])):
        holdfast('serve', *arguments).ends(USAGE).says(*words, 'holdfast serve --help')


def bad_options_of_exports_are_usage(_):
    for arguments in ([], ['frobnicate'], ['check', 'a', 'b'], ['explain'], ['explain', 'h'],
                      ['explain', 'h', 'relative'], ['check', '--frobnicate'],
                      ['explain', 'h', '/p', 'f', 'more']):
        holdfast('exports', *arguments).ends(USAGE)


def what_cannot_be_used_is_said_with_the_reason(_):
    for command, arguments, words in (
            ('spray', ['-l', '0', 'h'], ['-l 0', '1 to 8845']),
            ('spray', ['-c', '-1', 'h'], ['-c -1', 'whole number']),
            ('spray', ['-c'], ['-c needs a value']),
            ('spray', ['-x', 'h'], ['no option -x']),
            ('spray', ['--frobnicate', 'h'], ['no option --frobnicate']),
            ('spray', ['--ramp', '--tcp', 'h'], ['--ramp']),
            ('spray', ['--port', '65536', 'h'], ['--port 65536', '1 to 65535']),
            ('spray', [], ['one HOST']),
            ('spray', ['h', 'i'], ['one HOST', 'also i']),
            ('ping', ['-i', 'soon', 'h'], ['-i soon', '0.01 to 100000']),
            ('ping', ['-t', '1.5', 'h'], ['-t 1.5', 'whole number']),
            ('ping', ['-ct', 'h'], ['-c t']),
            ('baseline', ['--block', '8k,4k', 'nfs://h/'], ['--block 8k,4k', 'ascending']),
            ('baseline', ['--block=8q', 'nfs://h/'], ['--block 8q']),
            ('baseline', ['--proto', 'tcp,', 'nfs://h/'], ['--proto tcp,', 'tcp, udp, or both']),
            ('baseline', ['--size', '99999999999g', 'nfs://h/'], ['--size 99999999999g']),
            ('baseline', ['--time', 'nan', 'nfs://h/'], ['--time nan']),
            ('doctor', ['--frobnicate', 'nfs://h/'], ['no option --frobnicate']),
            ('doctor', [], ['one nfs://HOST/PATH'])):
        holdfast(command, *arguments).ends(USAGE).says(*words, f'holdfast {command}')


if __name__ == '__main__':
    run([help_fits_a_screen, help_names_every_command, version_is_one_line, no_command_is_usage,
         bad_options_of_serve_are_named, bad_options_of_exports_are_usage,
         what_cannot_be_used_is_said_with_the_reason])
