import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Answers on port 8765 of loopback: runs the Python that a connection sends, up to its half-close, and sends what it printed. */
const server = `
import contextlib, io, os, socket, sys, threading, traceback

def serve(peer):
    code = b""
    while data := peer.recv(65536):
        code += data
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(code, {"os": os, "sys": sys, "socket": socket})
    except Exception:
        said.write(traceback.format_exc().splitlines()[-1])
    peer.sendall(said.getvalue().encode())
    peer.close()

listener = socket.create_server(("127.0.0.1", 8765), backlog=64)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
`;

/** A tar of the host's Python with its libraries and that server, to be imported as an image. */
export function pythonImage(): Buffer {
  const python = realpathSync('/usr/bin/python3');
  const dir = mkdtempSync(join(tmpdir(), 'denv-image-'));
  try {
    for (const folder of ['app', 'tmp', 'usr/bin', 'etc']) {
      mkdirSync(join(dir, folder), { recursive: true });
    }
    writeFileSync(join(dir, 'app', 'server.py'), server);
    const version = execFileSync(python, [
      '-c',
      'import sys; print("%d.%d" % sys.version_info[:2])',
    ]);
    const library = `/usr/lib/python${version.toString().trim()}`;
    const needed = execFileSync('ldd', [python]).toString().match(/\/\S+/g) ?? [];
    const copied = [python, ...needed.filter((file) => file !== `${python}:`), library];
    const without = ['test', 'dist-packages', 'config-*', '__pycache__'].flatMap((name) => [
      `--exclude=${library.slice(1)}/${name}`,
    ]);
    const tar = join(dir, 'image.tar');
    execFileSync('tar', [
      '-C',
      '/',
      '-chf',
      tar,
      ...without,
      ...copied.map((file) => file.slice(1)),
    ]);
    execFileSync('tar', ['-C', dir, '-rf', tar, 'app', 'tmp', 'etc']);
    return execFileSync('cat', [tar], { maxBuffer: 512 * 2 ** 20 });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export const imageChanges = [
  `CMD ["${realpathSync('/usr/bin/python3')}", "-I", "-S", "/app/server.py"]`,
  'ENV COLOUR=blue',
];
