// Reads YAML 1.2 as the npm package `yaml` does: a JSON string a line in, a JSON answer a line out.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { parseDocument } = createRequire(`${process.argv[2]}/`)('yaml');
for await (const line of createInterface({ input: process.stdin })) {
  const document = parseDocument(JSON.parse(line), { version: '1.2', schema: 'core' });
  const errors = document.errors.map(String);
  console.log(JSON.stringify(errors.length ? { errors } : { value: document.toJS() }));
}
