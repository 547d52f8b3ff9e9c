// Nothing leaves the page: no chart is sent to a cloud, and no button does nothing.
const made = JSON.parse(document.getElementById("payload").textContent);
const config = {
  ...{ displaylogo: false, responsive: true, showTips: false },
  ...{ showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: "" },
  modeBarButtonsToRemove: ["lasso2d", "select2d", "sendDataToCloud", "editInChartStudio"],
};
await Plotly.newPlot("plot", made.data, made.layout, config);
document.documentElement.dataset.ready = "yes";
