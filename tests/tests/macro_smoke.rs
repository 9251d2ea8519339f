//! The companions of traced functions against transforms of closures.

use gradloom::prelude::*;

#[traced]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    let h = x.matmul(w) + b;
    h.tanh()
}

fn inputs() -> (Tensor, Tensor, Tensor) {
    let x = Tensor::from_vec(vec![0.5f32, -1.0, 2.0, 0.25, 1.5, -0.75], [2, 3]);
    let w = Tensor::from_vec(
        (0..12).map(|i| i as f32 * 0.1 - 0.5).collect::<Vec<f32>>(),
        [3, 4],
    );
    let b = Tensor::from_vec(vec![0.1f32, -0.2, 0.3, 0.0], [4]);
    (x, w, b)
}

#[test]
fn a_straight_line_function_has_the_derivatives_of_its_closure() {
    let (x, w, b) = inputs();
    let (y, pullback) = dense::vjp(&x, &w, &b);
    let ct = y.ones_like();
    let (ct_x, ct_w, ct_b) = pullback(&ct);
    let args = (x.clone(), w.clone(), b.clone());
    let f = |(x, w, b): &(Tensor, Tensor, Tensor)| dense(x, w, b);
    let (z, reference) = vjp(f, &args);
    let (rx, rw, rb) = reference.call(&ct);
    assert_eq!(y.to_vec::<f32>(), z.to_vec::<f32>());
    assert_eq!(ct_x.to_vec::<f32>(), rx.to_vec::<f32>());
    assert_eq!(ct_w.to_vec::<f32>(), rw.to_vec::<f32>());
    assert_eq!(ct_b.to_vec::<f32>(), rb.to_vec::<f32>());
    let (dx, dw, db) = (x.sin(), w.cos(), b.exp());
    let (y, dy) = dense::jvp((&x, &w, &b), (&dx, &dw, &db));
    let (rz, rdy) = jvp(f, &args, &(dx, dw, db));
    assert_eq!(y.to_vec::<f32>(), rz.to_vec::<f32>());
    assert_eq!(dy.to_vec::<f32>(), rdy.to_vec::<f32>());
    let (y, saved) = dense::saved(&x, &w, &b);
    assert_eq!(y.shape(), [2, 4]);
    assert!(saved.bytes() > 0);
    println!("{}", dense::PROGRAM);
}
