// One command a line on standard input, one JSON object a line on standard output: `{"ready":true}` once connected,
// `{"result":…}` or `{"error":…}` for each command, and `{"event":…}` for whatever the client noticed of its connection
// by itself.
//
// | command | what it does |
// | --- | --- |
// | `list`, `resources` | lists |
// | `call TOOL JSON`, `read URI` | requests |
// | `progress TOOL JSON` | a call; its result is the list of its progress |
// | `begin TOOL JSON`, `cancel` | begins a call, and cancels it |
// | `subscribe URI`, `updated`, `unsubscribe` | subscribes, waits for the next update, ends the subscription |
// | `quit` | ends |
import { createInterface } from 'node:readline';

export function report(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

// What every peer answers to `elicitation/create` and to `sampling/createMessage`.
export const ELICITED = { action: 'accept', content: { username: 'peer', email: 'peer@example.com' } };
export const SAMPLED = {
  role: 'assistant',
  content: { type: 'text', text: 'the peer says so' },
  model: 'peer',
  stopReason: 'endTurn',
};

// Updates of resources, in the order in which they come; each is waited for once.
export class Updates {
  #come = [];
  #waiting = [];

  add(uri) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting({ uri });
    else this.#come.push({ uri });
  }

  next() {
    const come = this.#come.shift();
    return come ?? new Promise((resolve) => this.#waiting.push(resolve));
  }
}

// `request(name, args, options)` calls a tool; `options` are the ones that the SDKs know: `onprogress` and `signal`.
export async function obey({ request, quit, ...commands }) {
  let begun;
  const all = {
    ...commands,
    call: (name, args) => request(name, args, {}),
    async progress(name, args) {
      const seen = [];
      await request(name, args, { onprogress: ({ progress }) => seen.push(progress) });
      return seen;
    },
    begin(name, args) {
      const controller = new AbortController();
      const call = request(name, args, { signal: controller.signal }).then(
        (result) => ({ result }),
        () => ({ cancelled: true }),
      );
      begun = { controller, call };
      return 'begun';
    },
    cancel() {
      begun.controller.abort('the peer has changed its mind');
      return begun.call;
    },
  };
  report({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, name, ...rest] = line.split(' ');
    if (command === 'quit') break;
    try {
      report({ result: await all[command](name, rest.length > 0 ? JSON.parse(rest.join(' ')) : undefined) });
    } catch (error) {
      report({ error: `${error}` });
    }
  }
  await quit();
  report({ result: 'bye' });
  process.exit(0);
}
