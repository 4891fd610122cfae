const { statSync } = require('node:fs');

/** Files that take a minute or more, the longest first: begun late, one of them would run on when all others have ended. */
const long = [
  'test/python/',
  'test/e2e/crash/',
  'test/e2e/hud-crash',
  'test/e2e/explore-demo',
  'test/e2e/demo',
  'test/client/hud',
  'test/conformance/hud-failures',
  'test/client/api/regrade',
  'test/denv/hud-attach',
  'test/e2e/chaos',
];

/** Jest asks it for the order of test files: the same in every run, whatever the machine remembers of earlier ones. */
module.exports = class LongestFirst {
  sort(tests) {
    return tests
      .map((test) => ({ test, rank: rankOf(test.path), size: statSync(test.path).size }))
      .sort((a, b) => a.rank - b.rank || b.size - a.size || (a.test.path < b.test.path ? -1 : 1))
      .map(({ test }) => test);
  }
  allFailedTests(tests) {
    return tests;
  }
  cacheResults() {}
};

function rankOf(path) {
  const place = long.findIndex((part) => path.includes(`/${part}`));
  return place === -1 ? long.length : place;
}
