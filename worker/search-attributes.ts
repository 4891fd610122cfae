import type { NativeConnection } from '@temporalio/worker';
import { searchAttributes } from '../workflows/search-attributes';

/** temporal.api.enums.v1.IndexedValueType */
const indexedValueType = { KEYWORD: 2, DOUBLE: 4 };

/**
 * Sees to it that the namespace has the search attributes of rollouts. Idempotent.
 * @returns false where the server refuses to tell or to add them: rollouts then run without
 */
export async function registerSearchAttributes(
  connection: NativeConnection,
  namespace: string,
): Promise<boolean> {
  const { operatorService } = connection;
  try {
    const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
    const missing = Object.values(searchAttributes).filter(({ name }) => !customAttributes[name]);
    if (missing.length === 0) return true;
    const types = missing.map(({ name, type }) => [name, indexedValueType[type]]);
    await operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(types),
    });
    return true;
  } catch {
    return false;
  }
}
