import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse } from 'yaml';

interface Service {
  image: string;
  ports?: string[];
  depends_on?: Record<string, { condition: string }>;
}

describe('docker-compose.yml', () => {
  const text = readFileSync(resolve(__dirname, '../docker-compose.yml'), 'utf8');
  const { services } = parse(text) as { services: Record<string, Service> };

  it('has a server with its database, schema, namespace and web page', () => {
    expect(Object.keys(services).sort()).toEqual([
      'postgresql',
      'temporal',
      'temporal-namespace',
      'temporal-schema',
      'temporal-ui',
    ]);
  });

  it('starts the server once the schema is there', () => {
    expect(services['temporal']?.depends_on).toEqual({
      'temporal-schema': { condition: 'service_completed_successfully' },
    });
    for (const { depends_on: needs = {} } of Object.values(services)) {
      for (const name of Object.keys(needs)) expect(Object.keys(services)).toContain(name);
    }
  });

  it('publishes to loopback alone', () => {
    const ports = Object.values(services).flatMap((service) => service.ports ?? []);

    expect(ports).toEqual(['127.0.0.1:7233:7233', '127.0.0.1:8080:8080']);
  });

  it('names the version of every image', () => {
    for (const { image } of Object.values(services)) expect(image).toMatch(/:\d+(\.\d+)*$/);
  });
});
