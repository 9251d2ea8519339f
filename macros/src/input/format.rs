//! Names in format strings.

use proc_macro2::Ident;

/// Returns the locals that a format string mentions: `x` and `width` in `{x:width$}`.
pub(crate) fn format_names(format: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if syn::parse_str::<Ident>(name).is_ok() && names.iter().all(|n| n != name) {
            names.push(name.to_owned());
        }
    };
    let plain = format.replace("{{", "");
    for part in plain.split('{').skip(1) {
        let Some((inner, _)) = part.split_once('}') else {
            continue;
        };
        let (name, spec) = inner.split_once(':').unwrap_or((inner, ""));
        add(name.trim());
        for before in spec.split('$').rev().skip(1) {
            let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_');
            add(&before[start.map_or(0, |i| i + 1)..]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_a_format_string_are_found() {
        let names = |format| format_names(format).join(" ");
        assert_eq!(
            names("{x} of {n:?}, {{y}}, {0} {:>width$} {z:.prec$}"),
            "x n width z prec"
        );
    }
}
