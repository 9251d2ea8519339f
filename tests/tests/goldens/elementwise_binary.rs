//! Functions of several tensors, element by element.

use gradloom::Tensor;

crate::goldens! {
    add(x, y) { x + y }
    mul(x, y) { x * y }
    div(x, y) { x / y }
    div_by_zero(x, y) { x / y }
    rem_trunc(x, y) { x.rem(y) }
    mod_floor(x, y) { x.mod_floor(y) }
    pow_zero_base(x, y) { x.pow(y) }
    pow_int(x) { x.pow(3.0) }
    pow_int_zero(x) { x.pow(0.0) + x.pow(1.0) }
    maximum(x, y) { x.maximum(y) }
    minimum(x, y) { x.minimum(y) }
    minimum_ties(x, y) { x.minimum(y) }
    atan2_axes(x, y) { x.atan2(y) }
    r#where(#[nodiff] c, x, y) { c.select(x, y) }
    clamp(x, lo, hi) { x.maximum(lo).minimum(hi) }
    lerp(a, b, t) { a + t * (b - a) }
    compare_bool(x, y) -> [Tensor; 6] {
        [x.lt(y), x.le(y), x.gt(y), x.ge(y), x.eq(y), x.ne(y)]
    }
    compare_nan(x, y) -> [Tensor; 6] {
        [x.lt(y), x.le(y), x.gt(y), x.ge(y), x.eq(y), x.ne(y)]
    }
}
