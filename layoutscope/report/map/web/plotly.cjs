// The traces that the page draws, and no others: a third of all of Plotly.
const Plotly = require("plotly.js/lib/core");
Plotly.register([
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/lib/scattergl"),
  require("plotly.js/lib/treemap"),
]);
module.exports = Plotly;
