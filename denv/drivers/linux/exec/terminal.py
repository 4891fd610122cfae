"""Runs `runc exec` of a process on a terminal, for somebody who has only pipes.

Usage: terminal.py COLS ROWS SOCKET PIDFILE RUNC ARG...   ARGs are those of `runc exec` up to the container's name, which is last.

What comes in on stdin is typed, what the process shows goes to stdout; the end of stdin is typed too, as ctrl-D. Each line
"COLS ROWS" on descriptor 3 gives the terminal another size. runc hands the terminal over through SOCKET and leaves the process to
this one as its child. Exits with the process's code, or 128 and the signal that ended it; with runc's where it could not start it.
"""

import ctypes
import fcntl
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios

SIZES = 3
CHUNK = 65536
END_OF_INPUT = b"\x04"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

libc = ctypes.CDLL(None)


def set_size(fd, cols, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def start(meeting, pid_file, command):
    """The process, and its terminal's other side."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.umask(0o177)
    listener.bind(meeting)
    try:
        listener.listen(1)
        options = ["--detach", "--console-socket", meeting, "--pid-file", pid_file]
        runc = subprocess.run(
            [*command[:-1], *options, command[-1]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # It writes a log.
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )
        if runc.returncode != 0:
            sys.exit(runc.returncode % 256)
        connection = listener.accept()[0]
        with connection:
            screen = socket.recv_fds(connection, CHUNK, 1)[1][0]
    finally:
        listener.close()
        os.unlink(meeting)
    with open(pid_file) as file:
        return int(file.read()), screen


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


class Carrier:
    """Both ways at once. Of what is typed no more is taken than the program takes: it may be waiting to show something first."""

    def __init__(self, screen):
        self.screen = screen
        self.typed = b""
        self.sizes = b""
        self.ended = False
        self.selector = selectors.DefaultSelector()
        for fd in (0, SIZES, screen):
            self.selector.register(fd, selectors.EVENT_READ)
        os.set_blocking(screen, False)

    def run(self):
        """
        Until the process and all that it started have closed the terminal. They may do so a moment before they end, so this end
        of it stays open.
        """
        while True:
            for key, events in self.selector.select():
                if key.fd == self.screen and events & selectors.EVENT_READ and not self.show():
                    return
                if key.fd == self.screen and events & selectors.EVENT_WRITE:
                    self.type(b"")
                if key.fd == 0:
                    self.take()
                if key.fd == SIZES:
                    self.resize()

    def show(self):
        try:
            data = os.read(self.screen, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False  # So ends a terminal that nobody holds any more.
        write_all(1, data)
        return data != b""

    def take(self):
        data = os.read(0, CHUNK)
        self.selector.unregister(0)
        self.ended = not data
        self.type(data or END_OF_INPUT)

    def type(self, data):
        self.typed += data
        try:
            self.typed = self.typed[os.write(self.screen, self.typed) :]
        except BlockingIOError:
            pass
        except OSError:
            self.typed = b""  # Nobody is there to read it.
        waiting = selectors.EVENT_WRITE if self.typed else 0
        self.selector.modify(self.screen, selectors.EVENT_READ | waiting)
        if not self.typed and not self.ended:
            self.selector.register(0, selectors.EVENT_READ)

    def resize(self):
        data = os.read(SIZES, CHUNK)
        if not data:
            self.selector.unregister(SIZES)
        *lines, self.sizes = (self.sizes + data).split(b"\n")
        for line in lines:
            set_size(self.screen, *map(int, line.split()))


cols, rows, meeting, pid_file, *command = sys.argv[1:]
pid, screen = start(meeting, pid_file, command)
set_size(screen, int(cols), int(rows))
try:
    Carrier(screen).run()
except BrokenPipeError:
    os.close(screen)  # Nobody looks any more: this hangs up on the process.
status = os.waitpid(pid, 0)[1]
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
