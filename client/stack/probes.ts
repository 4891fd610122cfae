import { Connection } from '@temporalio/client';
import { reasonOf } from '../errors';

/** The Temporal server is there and has the namespace. */
export async function temporalAnswers(address: string, namespace: string): Promise<boolean> {
  return (await temporalTrouble(address, namespace)) === null;
}

/** Why a Temporal server cannot be used, in its own words; null when it can. */
export async function temporalTrouble(address: string, namespace: string): Promise<string | null> {
  let connection: Connection | undefined;
  try {
    connection = await Connection.connect({ address, connectTimeout: '3 seconds' });
    const { workflowService } = connection;
    await connection.withDeadline(Date.now() + 3000, () =>
      workflowService.describeNamespace({ namespace }),
    );
    return null;
  } catch (error) {
    return reasonOf(error);
  } finally {
    await connection?.close().catch(() => {});
  }
}
