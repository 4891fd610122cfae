/** Jest calls this once after the tests on real parts. */
export default async function tearDown(): Promise<void> {
  await globalThis.sharedTemporal?.end();
}
