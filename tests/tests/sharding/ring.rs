//! A product of matrices whose weights travel around a ring: it sends as many bytes as an all-gather, and no device has
//! all weights at once.

use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{
    ShardingSpec, Speed, axis_index, axis_size, explain_sharding, ppermute, shard_map,
};
use gradloom::trace::trace;
use gradloom_ir::Op;
use gradloom_tests::noise;

/// Multiplies the rows of a device by all weights. At turn `t`, device `i` has the rows `i - t` of the weights.
fn ring((x, w): &(Tensor, Tensor)) -> Tensor {
    let (n, k) = (axis_size("a"), w.dim(0));
    let columns = x.reshape([-1, n as i64, k as i64]).moveaxis(1, 0);
    let next: Vec<(usize, usize)> = (0..n).map(|i| (i, (i + 1) % n)).collect();
    let (mut y, mut w) = (None, w.clone());
    for turn in 0..n {
        // A negative index counts from the end.
        let part = columns.take(axis_index("a") - turn as i64, 0).matmul(&w);
        y = Some(match y {
            Some(y) => y + part,
            None => part,
        });
        if turn + 1 < n {
            w = ppermute(&w, "a", &next);
        }
    }
    y.expect("a group has at least one device")
}

#[test]
fn weights_that_travel_send_what_an_all_gather_sends() {
    for n in [2, 4] {
        let grid = Grid::new(&[n]);
        let rows = ShardingSpec::split(&grid.mesh, &[&["a"], &[]]).unwrap();
        let args = (noise(&[64, 16], 1), noise(&[16, 8], 2));
        let product = |(x, w): &(Tensor, Tensor)| x.matmul(w);
        let f = shard_map(ring, &grid.mesh, &rows, &rows);
        assert_near(&f(&args), &product(&args), "value");
        let slopes = |f: &dyn Fn(&(Tensor, Tensor)) -> Tensor| {
            grad(|args: &(Tensor, Tensor)| f(args).square().sum(..))(&args)
        };
        let (found, expected) = (slopes(&f), slopes(&product));
        assert_near(&found.0, &expected.0, "gradient of x");
        assert_near(&found.1, &expected.1, "gradient of w");

        // The bytes of the book's table.
        let zeros = || Tensor::zeros([64, 64], DType::F32);
        let args = (zeros(), zeros());
        let traced = trace(&f, &args);
        let call = &traced.program().eqns[0];
        let body = &traced.program().attr(call.attrs[0]).programs().unwrap()[0];
        let moved = body.eqns.iter().filter(|eqn| eqn.op == Op::Ppermute);
        let lens = moved.map(|eqn| body.aval(eqn.args[0]).shape.known().unwrap());
        let sent: usize = lens.map(|shape| shape.iter().product::<usize>() * 4).sum();
        let whole = explain_sharding(product, &grid.mesh, &rows, &rows, &args, &Speed::default());
        let whole = whole.unwrap();
        assert_eq!(whole.by_kind()[0].0, "all_gather");
        assert_eq!((sent, whole.sent()), (4096 * 4 / n * (n - 1), sent as u128));
    }
}
