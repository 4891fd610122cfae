export { batch } from './batch';
export { explore } from './explore/explore';
export { regrade } from './regrade';
export { rollout } from './rollout/rollout';
