export { batch } from './batch';
export { explore } from './explore';
export { rollout } from './rollout';
