//! Prometheus' text format, version 0.0.4. OpenMetrics would force `_total` on counters whose
//! established names have none.

use std::fmt::Write;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// A page of metrics in the making.
#[derive(Default)]
pub struct Page(String);

impl Page {
    pub fn family(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub fn sample<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: impl std::fmt::Display,
    ) {
        self.0.push_str(name);
        let mut open = false;
        for (label, text) in labels {
            self.0.push(if open { ',' } else { '{' });
            open = true;
            self.0.push_str(label);
            self.0.push_str("=\"");
            escape(&mut self.0, text);
            self.0.push('"');
        }
        if open {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    pub fn text(self) -> String {
        self.0
    }
}

/// Names of buckets and users come from outside.
fn escape(into: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            other => into.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_cannot_break_out_of_their_quotes() {
        let mut page = Page::default();
        page.family("a", Type::Counter, "Help.");
        page.sample("a", [("bucket", "x\"} 9\n\\")], 3);
        page.sample("b", [], 0.5);
        assert_eq!(
            page.text(),
            "# HELP a Help.\n# TYPE a counter\na{bucket=\"x\\\"} 9\\n\\\\\"} 3\nb 0.5\n"
        );
    }
}
