//! The types of the parameters of a program, read from its text.

use crate::Element;

/// The element type and the shape of a parameter.
pub(crate) type Type = (Element, Vec<usize>);

/// Returns the types of the parameters of the function `@main`, or `None` if the text is not as expected.
///
/// The plugin checks the text; this only serves clear errors about arguments.
pub(crate) fn parameters(text: &str) -> Option<Vec<Type>> {
    let (_, list) = text.split_once("@main(")?;
    let mut depth = 1;
    let mut quoted = false;
    let end = list.char_indices().find_map(|(i, c)| {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(i)
    })?;
    // Each parameter begins with its name.
    let params = list[..end].split('%').skip(1);
    params
        .map(|param| tensor(param.split_once("tensor<")?.1.split_once('>')?.0))
        .collect()
}

/// Returns the type `2x3xf32`.
fn tensor(text: &str) -> Option<Type> {
    let mut parts: Vec<&str> = text.split('x').collect();
    let element = Element::named(parts.pop()?)?;
    let shape = parts.into_iter().map(|len| len.parse().ok());
    Some((element, shape.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::parameters;
    use crate::Element;

    #[test]
    fn parameters_have_the_types_of_the_text() {
        let text = "module @m { func.func public @main(%x: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@m, [{\"a)\"}, {}]>}, \
                    %n: tensor<i64>, %b: tensor<0xi1>) -> tensor<2x3xf32> {";
        let expected = vec![
            (Element::F32, vec![2, 3]),
            (Element::I64, vec![]),
            (Element::Bool, vec![0]),
        ];
        assert_eq!(parameters(text), Some(expected));
        assert_eq!(parameters("@main() -> tensor<f32>"), Some(vec![]));
        assert_eq!(parameters("@main(%x: tensor<?xf32>)"), None);
        assert_eq!(parameters("@main(%x: tensor<2xcomplex<f32>>)"), None);
        assert_eq!(parameters("a program"), None);
    }
}
