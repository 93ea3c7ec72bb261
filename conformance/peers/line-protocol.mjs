// One command a line on standard input (`list`, `call TOOL JSON`, `quit`), one JSON object a line on standard output:
// `{"ready":true}` once connected, `{"result":…}` or `{"error":…}` for each command, and `{"event":…}` for whatever the
// client noticed of its connection by itself.
import { createInterface } from 'node:readline';

export function report(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

export async function obey({ list, call, quit }) {
  report({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, name, ...rest] = line.split(' ');
    try {
      if (command === 'list') report({ result: await list() });
      else if (command === 'call') report({ result: await call(name, JSON.parse(rest.join(' '))) });
      else break;
    } catch (error) {
      report({ error: `${error}` });
    }
  }
  await quit();
  report({ result: 'bye' });
  process.exit(0);
}
