// Plotly with the traces and parts that the pages draw, and no others; none of them needs WebGL, or makes code of
// strings. It stands for `plotly.js/src/core.js`, which takes all parts.
require("native-promise-only");
require("plotly.js/build/plotcss");
const { register } = require("plotly.js/src/registry");
const methods = require("plotly.js/src/plot_api");

exports.register = register;
for (const [name, fn] of Object.entries(methods)) {
  if (!name.startsWith("_")) exports[name] = fn;
  register({ moduleType: "apiMethod", name, fn });
}
register([
  require("plotly.js/src/traces/scatter"),
  require("plotly.js/src/components/annotations"),
  require("plotly.js/src/components/shapes"),
  require("plotly.js/src/components/colorscale"),
  require("plotly.js/src/components/colorbar"),
  require("plotly.js/src/components/legend"),
  require("plotly.js/src/components/fx"),
  require("plotly.js/src/components/modebar"),
  require("plotly.js/src/locale-en"),
  require("plotly.js/src/locale-en-us"),
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/lib/treemap"),
]);
