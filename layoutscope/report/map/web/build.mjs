// Builds the page's scripts. `node build.mjs` writes them to ../assets, with `--check` it says whether what stands there
// is what it would write, with `--tests` it writes the tests as node's test runner reads them.

import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { build } from "esbuild";

/** Plotly's style sheets go with its script: the page is one file. */
const styles = {
  name: "styles",
  setup(context) {
    context.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const text = JSON.stringify(await readFile(path, "utf8"));
      const contents = `document.head.append(Object.assign(document.createElement("style"), { textContent: ${text} }));`;
      return { contents, loader: "js" };
    });
  },
};

/** What Plotly says of its attributes is for its manual. */
const descriptions = {
  name: "descriptions",
  setup(context) {
    const said = [
      /\bdescription: '(?:[^'\\]|\\.)*'(?=\s*[,}]),?/g,
      /\bdescription: \[[^[\]]*?\]\s*\.join\('[^']*'\),?/g,
    ];
    context.onLoad({ filter: /plotly\.js\/src\/.*\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      return { contents: said.reduce((left, one) => left.replace(one, ""), text), loader: "js" };
    });
  },
};

const common = { bundle: true, format: "iife", target: "es2022", charset: "utf8", logLevel: "warning" };

const scripts = [
  { ...common, entryPoints: ["src/page.ts"], outfile: "../assets/page.js" },
  { ...common, entryPoints: ["src/curves.ts"], outfile: "../assets/curves.js" },
  { ...common, entryPoints: ["src/boot.ts"], outfile: "../assets/boot.js", treeShaking: true },
  {
    ...common,
    entryPoints: ["plotly.cjs"],
    outfile: "../assets/plotly.js",
    globalName: "Plotly",
    footer: { js: "globalThis.Plotly = Plotly;" }, // the page evaluates the script, where a strict one keeps its names
    minify: true,
    legalComments: "inline",
    define: { global: "window", "define.amd": "false" },
    plugins: [styles, descriptions],
  },
];

async function check(script) {
  const { outputFiles } = await build({ ...script, write: false });
  const same = outputFiles[0].text === (await readFile(script.outfile, "utf8"));
  if (!same) console.error(`${script.outfile} is not what its source makes: run "npm run build"`);
  return same;
}

if (process.argv.includes("--tests")) {
  const entryPoints = readdirSync("test").map((name) => `test/${name}`);
  const names = { outdir: ".tests", outExtension: { ".js": ".mjs" } };
  await build({ ...common, ...names, entryPoints, format: "esm", platform: "node" });
} else if (process.argv.includes("--check")) {
  const same = await Promise.all(scripts.map(check));
  process.exitCode = same.every(Boolean) ? 0 : 1;
} else await Promise.all(scripts.map(build));
