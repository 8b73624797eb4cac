# SPDX-License-Identifier: Apache-2.0
"""Running holdfast as an admin does, and looking at what it says and how it ends."""
import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from nfs import Failure, check, equal  # noqa: E402  (the path comes first)

BINARY = os.environ['HOLDFAST']
DONE, FINDING, USAGE, CANNOT = range(4)
SKIPPED = 77  # what Meson takes for "skipped"


class Ended:
    """How a command ended, and what it said."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def says(self, *words, where='err'):
        text = getattr(self, where)
        for word in words:
            check(word in text, f'{word!r} is not said in {text!r}')
        return self

    def ends(self, code):
        check(self.code == code, f'exit status {self.code}, right is {code}; it said\n{self.out}'
                                 f'{self.err}')
        return self


def holdfast(*arguments, timeout=20, **more):
    """Runs the command to its end, which must come within seconds."""
    return Ended(subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=timeout, check=False,
                                **more))


class Serving:
    """`holdfast serve` in the background, until the `with` ends."""

    def __init__(self, *arguments, **more):
        self.process = subprocess.Popen([BINARY, 'serve', *map(str, arguments)], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **more)
        self.ready = ''

    def __enter__(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if selector.select(20):
                self.ready = self.process.stdout.readline()
        if not self.ready.startswith('holdfast: ready: '):
            self.process.kill()
            _, err = self.process.communicate()
            raise Failure(f'no ready line, but {self.ready!r} and {err!r}')
        return self

    @property
    def port(self):
        return int(re.search(r'on port (\d+) ', self.ready).group(1))

    def stop(self, how=signal.SIGTERM):
        """Ends it, and returns how it ended."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=20)
        return Ended(subprocess.CompletedProcess([], self.process.returncode, out, err))

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Failure('the server does not stop') from None


@contextlib.contextmanager
def scratch():
    """A directory with an empty `export` and a `state` in it."""
    path = tempfile.mkdtemp(prefix='holdfast-cli-')
    os.chmod(path, 0o755)
    try:
        os.mkdir(os.path.join(path, 'export'))
        os.mkdir(os.path.join(path, 'state'), 0o700)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write(path, text):
    with open(path, 'w', encoding='utf-8', newline='') as file:
        file.write(text)
    return path


def slow_syncs(microseconds):
    """The environment of a server that waits so long for each flush (tests/lib/slowsync.c)."""
    asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
    return dict(os.environ, LD_PRELOAD=os.environ['HOLDFAST_SLOWSYNC'], ASAN_OPTIONS=asan,
                SLOWSYNC_US=str(microseconds))


def quiet(work):
    """Options that keep a server of a test to itself."""
    return ['--port', '0', '--portmap', 'off', '--bind', '127.0.0.1',
            '--state', os.path.join(work, 'state')]


def run(cases):
    """Runs functions of a scratch directory; prints a line each, and exits."""
    failed = 0
    for case in cases:
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        started = time.monotonic()
        try:
            with scratch() as work:
                case(work)
            verdict = 'ok'
        except Exception as error:  # one case must not hide the others
            failed += 1
            verdict = f'FAILED: {error}'
            if not isinstance(error, Failure):
                traceback.print_exc()
        print(f'{case.__name__}: {verdict} ({time.monotonic() - started:.2f} s)', flush=True)
    sys.exit(1 if failed else 0)


def own_namespaces():
    """Goes on in a network and a mount namespace of its own, with loopback up and an empty /run;
    skips the test where that is not allowed."""
    if os.environ.get('CLI_NAMESPACES') == 'own':
        return
    setup = 'ip link set lo up && mount -t tmpfs none /run && exec "$@"'
    probe = subprocess.run(['unshare', '-nm', 'sh', '-c', setup, 'sh', 'true'],
                           capture_output=True, check=False)
    if probe.returncode != 0:
        print('skipped: no namespaces of our own:', probe.stderr.decode(errors='replace'))
        sys.exit(SKIPPED)
    os.environ['CLI_NAMESPACES'] = 'own'
    os.execvp('unshare', ['unshare', '-nm', 'sh', '-c', setup, 'sh', sys.executable, *sys.argv])


__all__ = ['BINARY', 'CANNOT', 'DONE', 'Ended', 'FINDING', 'Failure', 'SKIPPED', 'Serving', 'USAGE',
           'check', 'equal', 'holdfast', 'own_namespaces', 'quiet', 'run', 'scratch', 'slow_syncs',
           'write']
