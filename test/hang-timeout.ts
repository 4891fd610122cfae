// What hangs ends. It says nothing about how long a test may take: no test comes near it, on a busy machine neither.
jest.setTimeout(300_000);
