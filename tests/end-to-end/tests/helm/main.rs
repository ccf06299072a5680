//! A real Helm, with a chart of every feature and with the charts of CobaltCore.

mod charts;
mod garden;
