import { gradeLines, hudLines, tokenWords } from '../../../client/reports/grades';

describe('a HUD rollout as a person reads it', () => {
  it('tells what the environment offers, and how apart its workspace is kept', () => {
    const hud = {
      name: 'shop',
      version: '1.2.0',
      capabilities: [
        {
          name: 'tools',
          protocol: 'mcp/2025-11-25',
          url: 'http://127.0.0.1:9/mcp',
          use: 'tools' as const,
        },
        {
          name: 'shell',
          protocol: 'ssh/2',
          url: 'ssh://127.0.0.1:22',
          use: 'tools' as const,
          isolation: 'none',
        },
        { name: 'screen', protocol: 'rfb/3.8', url: 'rfb://h:5900', use: 'address' as const },
      ],
    };

    expect(hudLines({ hud })).toEqual([
      '  shop 1.2.0',
      '  capability  protocol        use                 isolation  address',
      '  tools       mcp/2025-11-25  tools of the agent             http://127.0.0.1:9/mcp',
      '  shell       ssh/2           tools of the agent  none       ssh://127.0.0.1:22',
      '  screen      rfb/3.8         an address                     rfb://h:5900',
    ]);
    expect(hudLines({ hud: { name: 'text', version: null, capabilities: [] } })).toEqual([
      '  text, without capabilities',
    ]);
    expect(hudLines({ hud: null })).toEqual([]);
  });

  it('tells every grader\u2019s reward, who computed it, and what it is made of', () => {
    const grade = { evidenceRef: '', evidence: null, rewards: {} };
    const grades = [
      {
        ...grade,
        name: 'hud',
        kind: 'hud' as const,
        principal: 'controller' as const,
        reward: 0.75,
        weight: 1,
        rewards: { value: 1, form: 0.5 },
        summary: 'score 0.75\nmore',
      },
      {
        ...grade,
        name: 'tests',
        kind: 'bash' as const,
        principal: 'sandbox' as const,
        reward: null,
        weight: -0.5,
        summary: 'the command was killed',
      },
    ];

    expect(gradeLines({ grades })).toEqual([
      '  name   kind  by          reward  weight  summary',
      '  hud    hud   controller  0.75    1       score 0.75 … more',
      '    of value 1, form 0.5',
      '  tests  bash  sandbox     -       -0.5    the command was killed',
    ]);
    expect(gradeLines({ grades: [] })).toEqual([]);
  });

  it.each([
    [{ turns: 1, broken: [] }, 'of 1 turn, each continuing the one before'],
    [{ turns: 3, broken: [2] }, 'of 3 turns; step 2 did not continue the one before'],
    [{ turns: 4, broken: [2, 4] }, 'of 4 turns; steps 2, 4 did not continue the one before'],
  ])('tells of token ids %j: %s', (tokens, words) => {
    expect(tokenWords(tokens)).toBe(words);
  });
});
