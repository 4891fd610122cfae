// One project a kind of test: `unit` needs nothing but Node; `real` needs what scripts/setup brings.
// Packages that ship only ES modules.
const esModules = [
  'commander',
  'get-port',
  'p-limit',
  'yocto-queue',
  // execa and what it stands on
  'execa',
  '@sec-ant/readable-stream',
  '@sindresorhus/merge-streams',
  'figures',
  'get-stream',
  'human-signals',
  'is-plain-obj',
  'is-stream',
  'is-unicode-supported',
  'npm-run-path',
  'parse-ms',
  'path-key',
  'pretty-ms',
  'strip-final-newline',
  'unicorn-magic',
  'which-command',
  'yoctocolors',
];
const base = {
  testEnvironment: 'node',
  transform: {
    '^.+\\.(t|j|mj)s$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'commonjs' } },
    ],
  },
  setupFilesAfterEnv: ['<rootDir>/test/hang-timeout.ts'],
  // Jest loads CommonJS.
  transformIgnorePatterns: [`/node_modules/(?!(${esModules.join('|')})/)`],
  // It exports itself to `import` alone.
  moduleNameMapper: { '^unicorn-magic$': '<rootDir>/node_modules/unicorn-magic/node.js' },
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/.rollouts/', '<rootDir>/.hud/'],
};
module.exports = {
  testSequencer: '<rootDir>/test/longest-first.js',
  projects: [
    {
      ...base,
      displayName: 'unit',
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      testPathIgnorePatterns: ['\\.real\\.test\\.ts$'],
    },
    {
      ...base,
      displayName: 'real',
      testMatch: ['<rootDir>/test/**/*.real.test.ts'],
      globalSetup: '<rootDir>/test/real-setup.ts',
      globalTeardown: '<rootDir>/test/real-teardown.ts',
    },
  ],
};
