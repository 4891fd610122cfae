/** Who serves models, as the first part of a model's name says. */
const served = /^(?:(?:openai|anthropic|google)\/.+|scripted(?:\/.+)?)$/;

export function isModelName(model: string): boolean {
  return served.test(model);
}

/** What to write, to be read after a model's name was refused. */
export function modelNameRemedy(model: string): string {
  return `say where it is served, as in openai/${model} (any OpenAI-compatible endpoint), anthropic/${model}, google/${model} or scripted`;
}
