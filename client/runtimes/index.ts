import { denv } from './denv';
import { docker } from './docker';
import { elsewhere } from './elsewhere';
import { local, subprocess } from './local';
import type { RuntimeKind } from './runtime';
import { tcp } from './tcp';

/** By the names that HUD users know. */
export const runtimeKinds: RuntimeKind[] = [denv, local, subprocess, docker, tcp, ...elsewhere];
