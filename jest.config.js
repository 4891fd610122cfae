// One project a kind of test: `unit` needs nothing but Node; `real` needs what scripts/setup brings.
const base = {
  testEnvironment: 'node',
  transform: {
    '^.+\\.(t|j|mj)s$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'commonjs' } },
    ],
  },
  // Packages that ship only ES modules; Jest loads CommonJS.
  transformIgnorePatterns: ['/node_modules/(?!(commander)/)'],
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/.rollouts/', '<rootDir>/.hud/'],
};
module.exports = {
  projects: [
    {
      ...base,
      displayName: 'unit',
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      testPathIgnorePatterns: ['\\.real\\.test\\.ts$'],
    },
    { ...base, displayName: 'real', testMatch: ['<rootDir>/test/**/*.real.test.ts'] },
  ],
};
