import type { Connection } from '@temporalio/client';
import { searchAttributes } from '../../workflows/search-attributes';

/**
 * Whether the namespace has the search attributes of rollouts. The worker adds them when it starts; false where the server
 * refused that, or refuses to tell: rollouts then run without.
 */
export async function hasSearchAttributes(
  connection: Connection,
  namespace: string,
): Promise<boolean> {
  try {
    const { customAttributes } = await connection.operatorService.listSearchAttributes({
      namespace,
    });
    return Object.values(searchAttributes).every(({ name }) => name in (customAttributes ?? {}));
  } catch {
    return false;
  }
}
