// Compiles the grammars given as JSON on standard input ({id: parsed .ksy}) to Python; see build.py.
const ksc = require('kaitai-struct-compiler');
const specs = JSON.parse(require('fs').readFileSync(0, 'utf8'));
(async () => {
  const out = {};
  for (const spec of Object.values(specs)) {
    Object.assign(out, await ksc.compile('python', spec, { importYaml: async name => specs[name] }, true));
  }
  process.stdout.write(JSON.stringify(out));
})().catch(error => { console.error(String(error.message ?? error)); process.exit(1); });
