//! A report as one HTML page that needs no network.

use super::{counts, details, name, title};
use crate::{Diff, Status};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24}\
code,td.name{font-family:ui-monospace,monospace}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee4;vertical-align:top}\
.first{border-left:4px solid #cf222e;background:#ffebe9;padding:.6rem 1rem}\
.none{border-left:4px solid #1a7f37;background:#dafbe1;padding:.6rem 1rem}\
tr.equal td{color:#6e7781}tr.different td.status{color:#cf222e}tr.missing td.status,tr.extra td.status{color:#9a6700}";

/// Returns a page with the first divergence and a table of all records.
pub fn html(diff: &Diff) -> String {
    let (a, b) = (diff.a.display().to_string(), diff.b.display().to_string());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Comparison of two traces</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Comparison of two traces</h1>\n\
         <p>a: <code>{}</code><br>b: <code>{}</code></p>\n<p>{}</p>\n",
        escape(&a),
        escape(&b),
        counts(diff)
    );
    match diff.first() {
        None => page.push_str("<p class=\"none\">No difference.</p>\n"),
        Some(first) => {
            let title = escape(&title(first));
            let _ = writeln!(
                page,
                "<div class=\"first\"><strong>First divergence: {title}</strong><ul>"
            );
            for line in details(first) {
                let _ = writeln!(page, "<li>{}</li>", escape(&line));
            }
            page.push_str("</ul></div>\n");
        }
    }
    page.push_str(
        "<table>\n<tr><th>record</th><th>status</th><th>layer</th><th>source</th><th>difference</th></tr>\n",
    );
    for item in &diff.items {
        let status = match item.status {
            Status::Equal => "equal",
            Status::Different => "different",
            Status::Missing => "missing",
            Status::Extra => "extra",
        };
        let layer = item
            .layer
            .map_or_else(String::new, |layer| layer.to_string());
        let source = escape(item.source.as_deref().unwrap_or_default());
        let details: Vec<String> = details(item).iter().map(|line| escape(line)).collect();
        let _ = writeln!(
            page,
            "<tr class=\"{status}\"><td class=\"name\">{}</td><td class=\"status\">{status}</td><td>{layer}</td><td>{source}</td><td>{}</td></tr>",
            escape(&name(item)),
            details.join("<br>")
        );
    }
    page + "</table>\n</body>\n</html>\n"
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
