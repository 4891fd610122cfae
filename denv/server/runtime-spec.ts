import type { ParsedCreateSandboxRequest } from '../../contracts/denv';
import type { ImageSource } from '../drivers/driver';
import { DenvError } from '../errors';
import type { ControllerRuntime, RuntimeSpec } from './rows';
import { uidOfUser } from './views';

/** `host`, `dir:PATH` or `tar:PATH`. @throws DenvError invalid_request */
export function parseImage(image: string | undefined): ImageSource {
  if (image === 'host') return { kind: 'host' };
  const match = /^(dir|tar):(\/.*)$/.exec(image ?? '');
  if (match?.[1] && match[2]) return { kind: match[1] === 'dir' ? 'dir' : 'tar', path: match[2] };
  throw new DenvError(
    'invalid_request',
    `image: ${JSON.stringify(image)} is not supported; it is \`host\`, \`dir:/PATH\` or \`tar:/PATH\``,
  );
}

/**
 * What a create asks to be made from: by its target, or by what only one target can mean.
 * @throws DenvError invalid_request
 */
export function sourceOf(request: ParsedCreateSandboxRequest): ImageSource {
  const { target, image, address, shared = 1 } = request;
  if (address !== undefined) {
    if (target === undefined || target === 'tcp') return { kind: 'tcp', address, shared };
    throw new DenvError('invalid_request', `address: only for target tcp, not ${target}`);
  }
  if (request.shared !== undefined) {
    throw new DenvError('invalid_request', 'shared: only with `address`');
  }
  if (target === 'tcp') throw new DenvError('invalid_request', 'target tcp needs an `address`');
  if (target === 'docker' && image !== undefined) return { kind: 'docker', ref: image };
  return parseImage(image);
}

export function controllerOf(
  controller: ParsedCreateSandboxRequest['controller'],
  uid: number,
): ControllerRuntime {
  if (!controller) return { kind: 'shell', uid };
  const own = controller.user === undefined ? uid : uidOfUser(controller.user);
  switch (controller.kind) {
    case 'shell':
      return { kind: 'shell', uid: own };
    case 'mcp-http':
      return { ...controller, command: controller.command ?? null, uid: own };
    case 'mcp-stdio':
      return { ...controller, uid: own };
    case 'hud':
      return { ...controller, command: controller.command ?? null, uid: own };
  }
}

/** A version's spec with what a create asks otherwise. @throws DenvError invalid_request */
export function overSpec(spec: RuntimeSpec, request: ParsedCreateSandboxRequest): RuntimeSpec {
  if (request.files?.length) {
    throw new DenvError('invalid_request', 'files: not with `version`; a version has its files');
  }
  const uid = request.user === undefined ? spec.uid : uidOfUser(request.user);
  return {
    ...spec,
    uid,
    env: { ...spec.env, ...request.env },
    workdir: request.workdir ?? spec.workdir,
    caps: { ...spec.caps, ...definedCaps(request.caps) },
    command: request.command ?? spec.command,
    controller: request.controller
      ? overController(spec.controller, controllerOf(request.controller, uid))
      : spec.controller,
  };
}

/** One that names no command is served by the version's own, on that one's port. */
function overController(own: ControllerRuntime, asked: ControllerRuntime): ControllerRuntime {
  if (asked.kind === 'hud' && own.kind === 'hud' && asked.command === null) {
    return { ...asked, command: own.command, port: own.port };
  }
  return asked;
}

export function definedCaps(
  caps: ParsedCreateSandboxRequest['caps'],
): Partial<RuntimeSpec['caps']> {
  return Object.fromEntries(Object.entries(caps ?? {}).filter(([, v]) => v !== undefined));
}
