import type { VerifyEvidence } from '../../contracts/denv';
import type {
  ContentPart,
  Observation,
  ToolCall,
  TrajectoryEntry,
} from '../../contracts/trajectory';
import type { RolloutDescription } from '../api/describe';
import { gradeLines, hudLines, tokenWords } from './grades';
import { regradeLines } from './regrade';
import { formatReward, oneLine } from './table';

/** Returns a rollout as a person reads it; long texts are cut, and the cut says how long the text is. */
export function descriptionLines(description: RolloutDescription): string[] {
  return [
    ...headLines(description),
    ...section('HUD environment', hudLines(description)),
    ...section('Steps', description.trajectory.flatMap(entryLines)),
    ...section('Grades', gradeLines(description)),
    ...section('Verdicts', description.verdicts.flatMap(verdictLines)),
    ...section('Later verdicts', regradeLines(description)),
    ...section('Checkpoints', checkpointLines(description)),
    ...section('Lineage', lineageLines(description)),
  ];
}

function headLines({
  rollout,
  result,
  regrades,
  status,
  sandbox,
  temporalPage,
}: RolloutDescription): string[] {
  const rows: [string, string][] = [
    ['rollout', rollout.rolloutId],
    ['agent', rollout.agent + (rollout.model === '' ? '' : `, ${rollout.model}`)],
  ];
  if (result) {
    const reward = result.reward === null ? 'no reward' : `reward ${formatReward(result.reward)}`;
    rows.push([
      'outcome',
      `${result.outcome}, ${reward}, stop reason ${result.stopReason ?? 'none'}`,
    ]);
    const named = Object.entries(result.rewards).map(
      ([name, value]) => `${name} ${formatReward(value)}`,
    );
    if (named.length > 0) rows.push(['rewards', named.join(', ')]);
    const current = regrades.find((regrade) => regrade.current);
    if (current) {
      const now = current.reward === null ? 'none' : formatReward(current.reward);
      rows.push([
        'now',
        `reward ${now}, by ${current.regradeId}; the outcome above is the first one`,
      ]);
    }
    if (result.failure) {
      const { class: kind, type, stage, message } = result.failure;
      rows.push(['failure', `${kind} (${type}, in ${stage}): ${clip(message, 500)}`]);
      if (kind === 'verifier') rows.push(['retry', `rollouts regrade ${result.rolloutId}`]);
    }
    if (result.tokens) rows.push(['token ids', tokenWords(result.tokens)]);
    const { promptTokens, completionTokens, costUsd } = result.usage;
    const cost = costUsd === null ? 'cost not known' : `$${costUsd}`;
    rows.push(
      [
        'work',
        `${result.steps} steps, ${result.modelCalls} model calls (${result.modelCallsReissued} reissued), ${result.toolCalls} tool calls, ${result.workedS.toFixed(1)} s`,
      ],
      ['usage', `${promptTokens} + ${completionTokens} tokens, ${cost}`],
      ['attempts', result.attempts.map(attemptWords).join('; ')],
      ['time', `${result.startedAt} to ${result.endedAt}`],
    );
  } else if (status) {
    const paused = status.paused ? ', paused' : '';
    rows.push([
      'stage',
      `${status.stage}${paused}, attempt ${status.attempt}, step ${status.step}`,
    ]);
  } else {
    rows.push(['stage', 'no result yet, and the stack does not answer where it is']);
  }
  if (sandbox) rows.push(['sandbox', `${sandbox.id} (${sandbox.state})`]);
  if (temporalPage) rows.push(['Temporal', temporalPage]);
  return rows.map(([name, value]) => `${name.padEnd(9)} ${value}`);
}

function attemptWords(attempt: {
  attempt: number;
  sandboxId: string;
  failure: { class: string; message: string } | null;
}): string {
  const end = attempt.failure
    ? `, ${attempt.failure.class}: ${oneLine(attempt.failure.message)}`
    : '';
  return `${attempt.attempt} in ${attempt.sandboxId || 'no sandbox'}${end}`;
}

export function entryLines(entry: TrajectoryEntry): string[] {
  switch (entry.type) {
    case 'system':
      return block('system', entry.text);
    case 'prompt':
      return block('prompt', entry.text);
    case 'person':
      return block(`before step ${entry.step}, a person says`, entry.text);
    case 'reply':
      return [
        ...(entry.reply.text === ''
          ? [`  step ${entry.step}`]
          : block(`step ${entry.step}`, entry.reply.text)),
        ...entry.reply.toolCalls.map((call) => `    calls ${callWords(call)}`),
      ];
    case 'observation':
      return observationLines(entry.observation);
    case 'restored':
      return [`  step ${entry.step} was retried from ${entry.version}: ${entry.why}`];
  }
}

function callWords(call: ToolCall): string {
  const args = call.arguments === null ? (call.rawArguments ?? '') : JSON.stringify(call.arguments);
  return `${call.name} ${clip(args, 200)}`;
}

function observationLines(observation: Observation): string[] {
  const kind = observation.isError ? 'error' : 'sees';
  const whole = observation.full
    ? ` (whole: ${observation.full.ref}, ${observation.full.bytes} bytes)`
    : '';
  const text = observation.content.map(partWords).join('\n');
  return block(`  ${kind}${whole}`, text);
}

function partWords(part: ContentPart): string {
  if (part.type === 'text') return part.text;
  return `[${part.mimeType}, ${part.bytes} bytes, ${part.ref}]`;
}

function verdictLines(verdict: RolloutDescription['verdicts'][number]): string[] {
  const { evidence } = verdict;
  const head = `  of the ${verdict.of} ${verdict.version}: ${verdict.summary}`;
  return evidence ? [head, ...evidenceLines(evidence)] : [head];
}

function evidenceLines(evidence: VerifyEvidence): string[] {
  const lines = [
    `    by ${evidence.principal}, uid ${evidence.uid}, network ${evidence.egress}, image ${evidence.image.name}, exit code ${evidence.exitCode ?? 'none'}${evidence.timedOut ? ', timed out' : ''}`,
  ];
  if (evidence.refused) lines.push(`    refused ${evidence.refused.path}: ${evidence.refused.why}`);
  if (evidence.noVerdict) lines.push(`    no verdict: ${evidence.noVerdict}`);
  for (const file of evidence.collected) {
    lines.push(
      `    collected ${file.path}, ${file.bytes} bytes, sha256 ${file.sha256.slice(0, 12)}`,
    );
  }
  for (const path of evidence.missing) lines.push(`    missing: ${path}`);
  if (evidence.outputTail.trim() !== '') lines.push(...block('  output', evidence.outputTail));
  return lines;
}

function checkpointLines({ rollout, result, status }: RolloutDescription): string[] {
  const checkpoints = result?.checkpoints ?? status?.checkpoints ?? [];
  if (checkpoints.length === 0) return [];
  const steps = checkpoints.map(({ step }) => step);
  return [
    `  before steps ${steps.join(', ')}`,
    `  continue from one: rollouts explore ${rollout.rolloutId} --at ${steps.at(-1)} --count 3`,
  ];
}

function lineageLines({
  rollout,
  result,
  continuations,
  origin,
  goesOn,
}: RolloutDescription): string[] {
  const lines: string[] = [];
  if (rollout.parentRolloutId !== null) {
    const way = origin
      ? `, by ${origin.way}${origin.version === '' ? '' : ` of ${origin.version}`}`
      : '';
    lines.push(`  forked from ${rollout.parentRolloutId} at step ${rollout.parentStep}${way}`);
  }
  for (const edit of origin?.edited ?? []) {
    lines.push(
      `  was shown an edited observation ${edit.step}.${edit.call} of ${edit.name}:`,
      ...block('  was', edit.before),
      ...block('  is', edit.after),
    );
  }
  for (const text of origin?.said ?? []) lines.push(...block('was first told', text));
  for (const { step, version, sandboxId } of result?.lineage.restored ?? []) {
    lines.push(`  step ${step} was retried from ${version}, in ${sandboxId}`);
  }
  if (goesOn && (result?.steps ?? 1) > 0) {
    lines.push(`  it can be continued by ${goesOn.way}: ${goesOn.why}`);
  }
  for (const child of continuations) {
    const reward = child.reward === null ? '' : `, reward ${formatReward(child.reward)}`;
    lines.push(
      `  continued at step ${child.step}: ${child.rolloutId} (${child.outcome ?? 'no result yet'}${reward})`,
    );
  }
  return lines;
}

function section(title: string, lines: string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines];
}

function block(title: string, text: string): string[] {
  const lines = clip(text.trimEnd(), 1500).split('\n');
  if (lines.length === 1) return [`  ${title}: ${lines[0]}`];
  return [`  ${title}:`, ...lines.map((line) => `      ${line}`)];
}

function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}… (${text.length} characters)`;
}
