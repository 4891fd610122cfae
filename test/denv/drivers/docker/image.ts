import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const python = realpathSync('/usr/bin/python3');

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

export interface TestImage {
  /** A tar to be imported. */
  tar: string;
  /** As in a Dockerfile. */
  changes: string[];
  remove: () => void;
}

/** The host's Python with that server. */
export const serverImage = (): TestImage =>
  pythonImage(
    (root) => writeFileSync(join(root, 'app', 'server.py'), server),
    [commandOf('-I', '-S', '/app/server.py'), 'ENV COLOUR=blue'],
  );

/** The host's Python with HUD's packages, serving an environment as a HUD image does: by its own command. */
export const hudImage = (packages: string, environment: string): TestImage =>
  pythonImage(
    (root) => {
      execFileSync('cp', ['-a', packages, join(root, 'opt', 'hud')]);
      copyFileSync(environment, join(root, 'app', 'env.py'));
    },
    [
      commandOf('-m', 'hud.environment.server', '/app/env.py', '--host', '0.0.0.0', '--port=8765'),
      'ENV PYTHONPATH=/opt/hud',
      'ENV HOME=/tmp',
      'ENV HUD_TELEMETRY_ENABLED=false',
      'WORKDIR /app',
    ],
    [packages],
  );

const commandOf = (...argv: string[]): string => `CMD ${JSON.stringify([python, ...argv])}`;

function pythonImage(
  fill: (root: string) => void,
  changes: string[],
  modules: string[] = [],
): TestImage {
  const dir = mkdtempSync(join(tmpdir(), 'denv-image-'));
  const remove = () => rmSync(dir, { recursive: true, force: true });
  try {
    const root = join(dir, 'root');
    for (const folder of ['app', 'tmp', 'etc', 'opt'])
      mkdirSync(join(root, folder), { recursive: true });
    fill(root);
    const script = 'import sysconfig; print(sysconfig.get_path("stdlib"))';
    const library = execFileSync(python, ['-I', '-S', '-c', script]).toString().trim();
    for (const file of [python, ...librariesOf(python, [library, ...modules])]) {
      mkdirSync(join(root, dirname(file)), { recursive: true });
      copyFileSync(file, join(root, file)); // What a link names, and not the link.
    }
    const left = /\/(test|dist-packages|config-[^/]*|__pycache__)$/;
    cpSync(library, join(root, library), { recursive: true, filter: (file) => !left.test(file) });
    const tar = join(dir, 'image.tar');
    execFileSync('tar', ['-C', root, '-cf', tar, '.']);
    rmSync(root, { recursive: true });
    return { tar, changes, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Everything of the host that a program, and the modules in some folders, are linked with. */
function librariesOf(program: string, folders: string[]): string[] {
  const find = 'p=$1; shift; ldd "$p"; find "$@" -name "*.so" -exec ldd {} + 2>/dev/null';
  const found = execFileSync('sh', ['-c', find, 'sh', program, ...folders], {
    maxBuffer: 64 * 2 ** 20,
  });
  const files = found.toString().match(/\/\S+(?= \(0x)/g) ?? [];
  return [...new Set(files)].filter((file) => folders.every((folder) => !file.startsWith(folder)));
}
