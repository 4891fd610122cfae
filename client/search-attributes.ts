import type { Connection } from '@temporalio/client';
import { searchAttributes } from '../workflows/search-attributes';

const spelling = { KEYWORD: 'Keyword', DOUBLE: 'Double' } as const;
const wireType = { KEYWORD: 2, DOUBLE: 4 } as const; // temporal.api.enums.v1.IndexedValueType

const attributes = Object.values(searchAttributes).map(({ name, type }) => ({
  name,
  type: type === 'DOUBLE' ? ('DOUBLE' as const) : ('KEYWORD' as const),
}));

/** Names and types as the Temporal command line spells them. */
export const searchAttributeNames = attributes.map(
  ({ name, type }) => [name, spelling[type]] as const,
);

/**
 * Sees to it that the namespace has the search attributes of rollouts. Idempotent.
 * @returns false where the server refuses to tell or to add them: rollouts then run without
 */
export async function ensureSearchAttributes(
  connection: Connection,
  namespace: string,
): Promise<boolean> {
  const { operatorService } = connection;
  try {
    const known = await operatorService.listSearchAttributes({ namespace });
    const missing = attributes.filter(({ name }) => !(name in (known.customAttributes ?? {})));
    if (missing.length > 0) {
      await operatorService.addSearchAttributes({
        namespace,
        searchAttributes: Object.fromEntries(
          missing.map(({ name, type }) => [name, wireType[type]]),
        ),
      });
    }
    return true;
  } catch {
    return false;
  }
}
