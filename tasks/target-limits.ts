import { existsSync, realpathSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { combinationComplaints } from './combinations';
import type { Complaint, FieldPath } from './refusals';

/** Fields that a taskset may name and the embedded target cannot honour. Any other unknown field is a spelling mistake. */
const unsupportedFields: Record<string, { message: string; remedy: string }> = {
  'environment.compose': {
    message: 'compose files are not supported',
    remedy: 'use `image: host`, `image: dir:/path` or `image: tar:/path.tar`',
  },
  'environment.gpu': { message: 'the embedded target has no GPUs', remedy: 'leave it out' },
  'environment.network': {
    message: 'sandboxes of the embedded target have no network',
    remedy: 'leave it out',
  },
  'environment.egress': {
    message: 'sandboxes of the embedded target have no network',
    remedy: 'leave it out',
  },
  'environment.ports': {
    message: 'publishing ports from a task is not supported',
    remedy: 'leave it out: the controller is reached without a published port',
  },
  'verifier.fork': {
    message: 'running the agent\u2019s programs from a verifier is not supported',
    remedy: 'leave it out, and have the verifier read the collected files',
  },
};

/** Says why the embedded target cannot honour a field; undefined for a field that it does not know at all. */
export function unsupportedField(path: string): { message: string; remedy: string } | undefined {
  return unsupportedFields[path];
}

/** Where the denv server finds images. */
export interface ImagePlaces {
  /** The denv server runs on this machine, so an image that is not there is refused now. */
  imagesAreHere: boolean;
  /** The folders that the server takes images from; unset where nobody knows. */
  imageDirs?: string[];
}

/** Complains of values that are of the right type and that the embedded target cannot honour. */
export function unsupportedValues(task: unknown, places: ImagePlaces): Complaint[] {
  const complaints: Complaint[] = [];
  const complain = (path: FieldPath, message: string, remedy: string) =>
    complaints.push({ path, message, remedy });
  const value = (...path: string[]) =>
    path.reduce<unknown>(
      (v, key) => (typeof v === 'object' && v !== null ? Reflect.get(v, key) : undefined),
      task,
    );

  if (value('environment', 'caps', 'diskMb') !== undefined) {
    complain(
      ['environment', 'caps', 'diskMb'],
      'not supported by the embedded target, which cannot cap the disk of one sandbox',
      'leave it out',
    );
  }
  const network = value('verifier', 'network');
  if (network !== undefined && network !== 'deny') {
    complain(
      ['verifier', 'network'],
      `${JSON.stringify(network)} is not supported: verifiers run without a network`,
      'say `deny`, or leave it out',
    );
  }
  const image = value('environment', 'image');
  const sources = ['image', 'version', 'address'].filter(
    (source) => value('environment', source) !== undefined,
  );
  if (sources.length > 1) {
    const several = sources.map((source) => `\`${source}\``).join(' and ');
    complain(['environment', 'image'], `${several} exclude each other`, 'keep one of them');
  } else if (sources.length === 0) {
    const remedy = value('hud') === undefined ? imageRemedy : hudRemedy;
    complain(['environment', 'image'], 'missing', remedy);
  } else if (typeof image === 'string' && value('environment', 'target') !== 'docker') {
    complaints.push(...imageComplaints(image, ['environment', 'image'], places));
  }
  complaints.push(...combinationComplaints(task));
  const verifierImage = value('verifier', 'image');
  if (typeof verifierImage === 'string') {
    complaints.push(...imageComplaints(verifierImage, ['verifier', 'image'], places));
  }
  return complaints;
}

const imageRemedy = 'say `host` (this machine\u2019s own programs), `dir:/path` or `tar:/path.tar`';

const hudRemedy = 'say where the HUD environment runs, as in `runtime: local:./env.py`';

function isBelow(place: string, folders: string[] | undefined): boolean {
  if (!folders) return true;
  const real = realpathSync(place);
  return folders.some((folder) => {
    const path = relative(existsSync(folder) ? realpathSync(folder) : folder, real);
    return path !== '..' && !path.startsWith('../');
  });
}

function outside(place: string, path: FieldPath, folders: string[]): Complaint {
  return {
    path,
    message: `the denv server takes images from ${folders.join(', ')} alone, and ${place} is not there`,
    remedy: `start the stack with: rollouts up --image-dir ${dirname(place)}`,
  };
}

function imageComplaints(image: string, path: FieldPath, places: ImagePlaces): Complaint[] {
  if (image === 'host') return [];
  const found = /^(dir|tar):(.+)$/.exec(image);
  const place = found?.[2];
  if (!found || place === undefined) {
    const message = `${JSON.stringify(image)} is no image that the embedded target knows`;
    return [{ path, message, remedy: imageRemedy }];
  }
  if (!place.startsWith('/')) {
    return [
      {
        path,
        message: `${JSON.stringify(image)} is not an absolute path on the denv server`,
        remedy: 'write the path from the root, starting with /',
      },
    ];
  }
  if (!places.imagesAreHere) return [];
  if (!existsSync(place)) {
    return [{ path, message: `there is no ${place}`, remedy: 'make it, or name another image' }];
  }
  return isBelow(place, places.imageDirs) ? [] : [outside(place, path, places.imageDirs ?? [])];
}
