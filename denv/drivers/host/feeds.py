"""The finite input of execs, given through conmon's attach socket. A part of the host helper."""

import asyncio
import errno
import os
import socket

from trees import read

ATTACH_TRIES = 2000

running = {}


async def attach(directory):
    """A connection to conmon's attach socket, reached through the directory since a socket's path must be short."""
    loop = asyncio.get_running_loop()
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(ATTACH_TRIES):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            try:
                await loop.sock_connect(sock, f"/proc/self/fd/{place}/attach")
                return sock
            except (FileNotFoundError, ConnectionRefusedError):
                sock.close()
                if not holder_lives(directory):
                    return None
                await asyncio.sleep(0.005)
    finally:
        os.close(place)
    return None


def holder_lives(directory):
    pid = read(directory + "/holder.pid").strip()
    return pid != "" and os.path.exists("/proc/" + pid)


async def discard(sock):
    """conmon sends all output to whoever is attached, and the process would wait for one that does not read."""
    try:
        while await asyncio.get_running_loop().sock_recv(sock, 65536):
            pass
    except OSError:
        pass


async def feed(directory):
    """Gives an exec its finite input, then the end of it: conmon closes stdin when the attached client has no more."""
    try:
        sock = await attach(directory)
    except OSError:
        return abandon(directory)
    if sock is None:
        return
    discarding = asyncio.create_task(discard(sock))
    try:
        mark(directory + "/feeding", str(os.getpid()))
        await send_input(sock, directory + "/stdin")
        mark(directory + "/fed", "")
        await discarding
    except OSError:
        discarding.cancel()
        abandon(directory)
    finally:
        sock.close()


def abandon(directory):
    """Names no helper as the one that feeds it, so an exec that still runs counts as one whose input broke off."""
    try:
        mark(directory + "/feeding", "-1")
    except OSError:
        pass  # The exec was removed meanwhile.


async def send_input(sock, path):
    try:
        with open(path, "rb") as file:
            while chunk := file.read(8192):
                await asyncio.get_running_loop().sock_sendall(sock, chunk)
        sock.shutdown(socket.SHUT_WR)
    except ConnectionError:
        pass  # It ended without reading all of its input, as it may.
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


def mark(path, text):
    with open(path, "w") as file:
        file.write(text)


def start(directory):
    # What a helper that died had begun cannot be continued: nobody knows how much of the input arrived.
    if directory in running or os.path.exists(directory + "/feeding"):
        return
    task = asyncio.create_task(feed(directory))
    running[directory] = task
    task.add_done_callback(lambda _: running.pop(directory, None))
