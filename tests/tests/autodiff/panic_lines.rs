//! Panics of transforms, companions and pullbacks name the user's line.

use gradloom::prelude::*;
use gradloom_tests::panics::panic_of;
use insta::assert_snapshot;

#[traced(order = 2)]
fn product(x: &Tensor, w: &Tensor) -> Tensor {
    x * w
}

#[traced]
fn fallible(x: &Tensor) -> Result<Tensor> {
    Ok(x.sin())
}

#[traced(record)]
fn recorded(x: &Tensor) -> Tensor {
    x.sin()
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

/// Returns a line of this file without spaces.
fn code_at(line: u32) -> String {
    let source = include_str!("panic_lines.rs");
    let found = source.lines().nth(line as usize - 1);
    let code = found.expect("the line is in this file").split_whitespace();
    code.collect::<String>().trim_end_matches(',').to_owned()
}

/// Returns the messages of expressions that panic, without lines, which are those of the user.
///
/// A function that a transform made cannot know its caller. Its panic is elsewhere, and its message
/// has the place of the transform.
macro_rules! mistakes {
    ($($e:expr),* $(,)?) => {
        [$({
            let (text, file, line) = panic_of(|| {
                let _ = $e;
            });
            let expr: String = stringify!($e).split_whitespace().collect();
            let (message, line) = match text.split_once(" made at ") {
                None => {
                    assert!(file.ends_with("panic_lines.rs"), "{text}: {expr} at {file}:{line}");
                    (text.clone(), line)
                }
                Some((message, place)) => {
                    let parts: Vec<&str> = place.rsplitn(3, ':').collect();
                    assert!(parts[2].ends_with("panic_lines.rs"), "{text}");
                    (format!("{message} made"), parts[1].parse().unwrap())
                }
            };
            assert!(expr.contains(&code_at(line)), "{text}: {} in {expr}", code_at(line));
            message
        }),*].join("\n")
    };
}

#[test]
fn panics_of_derivatives_name_the_line_of_the_user() {
    let (x, n) = (&Tensor::from([1.0f32, 2.0]), &Tensor::from([1i64, 2]));
    let (bad, layer) = (&Tensor::from([1.0f32]), &Layer { w: x.clone() });
    let sin = |x: &Tensor| x.sin();
    let sum = |x: &Tensor| x.sum(..);
    let pullback = vjp(sin, x).1;
    assert_snapshot!(mistakes![
        grad(sin)(x),
        grad(sum)(n),
        value_and_grad(sin)(x),
        value_and_grad(sum)(n),
        jacfwd(|x: &Tensor| x.sin())(n),
        jacrev(|x: &Tensor| x.sin())(n),
        jacrev(|x: &Tensor| x.argmax(0))(x),
        hessian(sin)(x),
        grad(|x: &Tensor| grad(sin)(x))(x),
        vjp(sin, n),
        pullback.call(bad),
        vjp(sin, x).1.call(bad),
        jvp(sin, x, bad),
        jvp(sin, n, n),
        hvp(sum, x, bad),
        hvp(sin, x, x),
        product::grad(x, x),
        product::value_and_grad(x, x),
        product::vjp(n, n),
        product::vjp(x, x).1(bad),
        product::jvp((x, x), (bad, x)),
        product::hvp((x, x), (x, x)),
        product::hvp((x, x), (bad, x)),
        fallible::vjp(x).unwrap().1(bad),
        recorded::grad(x),
        recorded::vjp(x).1(bad),
        recorded::jvp(x, bad),
        layer.forward_grad(x),
        layer.forward_vjp(x).1(bad),
        layer.forward_jvp(x, (&Layer { w: bad.clone() }, x)),
        layer.forward_jvp(n, (layer, n)),
        layer.forward_vmap(0, bad),
        recorded::vmap(1, x),
        recorded::vmap(None, x),
    ], @r"
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`; in the function that `grad` made
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`; in the function that `grad` made
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`; in the function that `value_and_grad` made
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`; in the function that `value_and_grad` made
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`; in the function that `jacfwd` made
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`; in the function that `jacrev` made
    `result` is i64[], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`; in the function that `jacrev` made
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`; in the function that `hessian` made
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`; in the function that `grad` made
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    the cotangent of `result` is f32[1], expected f32[2]
    the cotangent of `result` is f32[1], expected f32[2]
    the tangent of `argument` is f32[1], expected f32[2]
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    the tangent of `argument` is f32[1], expected f32[2]
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`
    `x` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    the cotangent of `result` is f32[1], expected f32[2]; in the function that `product::vjp` made
    the tangent of `x` is f32[1], expected f32[2]
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`
    the tangent of `x` is f32[1], expected f32[2]
    the cotangent of `result` is f32[1], expected f32[2]; in the function that `fallible::vjp` made
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`
    the cotangent of `result` is f32[1], expected f32[2]; in the function that `recorded::vjp` made
    the tangent of `x` is f32[1], expected f32[2]
    a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`
    the cotangent of `result` is f32[1], expected f32[2]; in the function that `forward_vjp` made
    the tangent of `self.w` is f32[1], expected f32[2]
    `x` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `vmap`: the numbers of lanes differ: 2 in `self.w`, 1 in `x`
    `vmap`: `x` is f32[2], which has no axis 1 for the lanes
    `vmap`: the lanes share all arguments, so give their number with `axis_size(n)`
    ");
}

#[test]
fn panics_of_ops_in_closures_are_at_the_op() {
    let (x, bad) = (&Tensor::from([1.0f32, 2.0]), &Tensor::from([1.0f32; 3]));
    assert_snapshot!(mistakes![
        grad(|x: &Tensor| (x + bad).sum(..))(x),
        jacfwd(|x: &Tensor| x.sum(1))(x),
        jvp(|x: &Tensor| x.matmul(bad), x, x),
        hessian(|x: &Tensor| (x * bad).sum(..))(x),
        hvp(|x: &Tensor| (x - bad).sum(..), x, x),
        grad(|x: &Tensor| grad(|x: &Tensor| (x / bad).sum(..))(x).sum(..))(x),
    ], @r"
    add: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2], the right operand is f32[3]
    sum: axis 1 is out of range for rank 1: the operand is f32[2]
    matmul: inner dimensions differ: the left operand is f32[2], the right operand is f32[3]
    mul: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2], the right operand is f32[3]
    sub: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2], the right operand is f32[3]
    div: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2], the right operand is f32[3]
    ");
}
