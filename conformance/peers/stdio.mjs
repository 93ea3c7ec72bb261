// The gateway on standard input and output, where STEADFAST_CONNECT names the binary: what an SDK's stdio transport is to
// start. The key decides which agent it is.
export function connect(url, key) {
  const command = process.env.STEADFAST_CONNECT;
  if (!command) return undefined;
  const { origin, pathname } = new URL(url);
  const server = pathname.split('/')[2];
  return {
    command,
    args: ['connect', '--agent', 'peer', ...(server ? ['--server', server] : [])],
    env: { ...process.env, STEADFAST_URL: origin, STEADFAST_AGENT_KEY: key },
  };
}
