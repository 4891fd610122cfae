export { rollout } from './rollout';
