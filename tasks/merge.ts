/**
 * Lays a task over the taskset's defaults. Objects are merged field by field, and the task wins; lists and plain values of
 * the task replace those of the defaults whole. Some fields exclude one another, so they are not mixed: an `image`, `version` or
 * `address` of the task puts away the others of the defaults, and a `controller` of another `kind` replaces the default one.
 */
export function mergeDefaults(defaults: unknown, row: unknown): unknown {
  const merged = mergeObjects(defaults, row);
  const own = field(row, 'environment');
  const environment = field(merged, 'environment');
  if (!isObject(own) || !isObject(environment)) return merged;
  if (sources.some((source) => source in own)) {
    for (const source of sources) if (!(source in own)) delete environment[source];
  }
  const kind = field(own['controller'], 'kind');
  if (
    kind !== undefined &&
    kind !== field(field(field(defaults, 'environment'), 'controller'), 'kind')
  ) {
    environment['controller'] = own['controller'];
  }
  return merged;
}

const sources = ['image', 'version', 'address'];

function mergeObjects(below: unknown, above: unknown): unknown {
  if (above === undefined) return isObject(below) ? { ...below } : below;
  if (!isObject(below) || !isObject(above)) return above;
  const keys = new Set([...Object.keys(below), ...Object.keys(above)]);
  return Object.fromEntries([...keys].map((key) => [key, mergeObjects(below[key], above[key])]));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function field(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}
