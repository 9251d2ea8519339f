//! Tests of convolutions whose columns are several blocks, against sums over all terms.

use super::{Conv, DIRECT_PAIRS, Kernels, MIN_WINDOWS, Padded, conv, input_t, weights};
use crate::memory::{Data, DataMut};
use crate::windows::Windows;
use crate::windows::tests::axis;
use gradloom_ir::DType;
use gradloom_ir::op::windows::WindowAxis;

/// Returns integers that vary, so that all sums are exact.
fn numbers(n: usize, seed: usize) -> Vec<f64> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 13) as f64 - 6.0;
    (0..n).map(number).collect()
}

/// Calls `f` with the positions in `x`, `w` and `z` of each term.
fn each_term(of: &Conv, axes: [WindowAxis; 2], mut f: impl FnMut(usize, usize, usize)) {
    let [rows, columns] = axes;
    let n_taps = rows.window * columns.window;
    for member in 0..of.batch * of.groups {
        for outer in 0..of.outer {
            for inner in 0..of.inner {
                for tap in 0..n_taps {
                    for window in 0..rows.count * columns.count {
                        let row = rows.position(window / columns.count, tap / columns.window);
                        let column = columns.position(window % columns.count, tap % columns.window);
                        let (Some(row), Some(column)) = (row, column) else {
                            continue;
                        };
                        let plane = member * of.inner + inner;
                        let channel = member % of.groups * of.outer + outer;
                        f(
                            (plane * rows.len + row) * columns.len + column,
                            (channel * of.inner + inner) * n_taps + tap,
                            (member * of.outer + outer) * rows.count * columns.count + window,
                        );
                    }
                }
            }
        }
    }
}

fn run(kernels: Kernels, [x, w]: [&[f64]; 2], out: &mut [f64]) {
    let mut packed = w.to_vec();
    if let Some(pack) = kernels.weights {
        pack(&[Data::F64(w)], &mut [DataMut::F64(&mut packed)]).unwrap();
    }
    let args = [Data::F64(x), Data::F64(&packed)];
    (kernels.kernel)(&args, &mut [DataMut::F64(out)]).unwrap();
}

fn check(batch: usize, groups: usize, inner: usize, outer: usize, axes: [WindowAxis; 2]) {
    let of = Conv {
        batch,
        groups,
        inner,
        outer,
        windows: Windows::new(&axes),
    };
    let [n_x, n_w, n_z] = of.sizes();
    let [n_x, n_w, n_z] = [batch * groups * n_x, groups * n_w, batch * groups * n_z];
    let (x, w, z) = (numbers(n_x, 1), numbers(n_w, 2), numbers(n_z, 3));
    let [mut x_sums, mut w_sums, mut z_sums] = [n_x, n_w, n_z].map(|n| vec![0.0; n]);
    each_term(&of, axes, |i, k, o| {
        x_sums[i] += w[k] * z[o];
        w_sums[k] += x[i] * z[o];
        z_sums[o] += x[i] * w[k];
    });
    let [mut x_found, mut w_found, mut z_found] = [n_x, n_w, n_z].map(|n| vec![9.0; n]);
    run(conv(DType::F64, of), [&x, &w], &mut z_found);
    run(input_t(DType::F64, of), [&z, &w], &mut x_found);
    weights(&of, &Padded::of_results(&of.windows), &x, &z, &mut w_found);
    assert!(z_found == z_sums, "{of:?}");
    assert!(x_found == x_sums, "{of:?}");
    assert!(w_found == w_sums, "{of:?}");
}

#[test]
fn blocks_of_columns_give_the_sums_over_all_terms() {
    // The depth is large, so a block has the least number of windows.
    let axes = [axis(9, 4, 1, 1, 2), axis(31, 5, 1, 1, 1)];
    assert!(axes[0].count * axes[1].count > 2 * MIN_WINDOWS);
    check(2, 1, 60, 3, axes);
    check(9, 2, 55, 1, [axis(1, 1, 1, 1, 0), axis(300, 20, 2, 1, 3)]);
}

#[test]
fn groups_with_few_channels_give_the_sums_over_all_terms() {
    let axes = [axis(12, 3, 2, 1, 1), axis(40, 5, 1, 2, 4)];
    check(3, 6, 1, 1, axes);
    check(3, 2, 2, DIRECT_PAIRS / 2, axes);
    check(3, 2, 1, DIRECT_PAIRS + 1, axes);
    // Rows of several vectors, of one, and of less; padding that cuts the plane; large strides.
    for (len, stride, before) in [(200, 1, 1), (66, 3, -2), (19, 1, 0), (9, 5, 3), (5, 7, 2)] {
        let columns = axis(len, 3, stride, 1 + len % 2, before);
        check(2, 3, 2, 2, [axis(7, 2, 2, 3, -1), columns]);
        check(2, 3, 1, 1, [axis(3, 1, 4, 1, 0), columns]);
    }
}

#[test]
fn groups_with_many_channels_give_the_sums_over_all_terms() {
    // Rows of several stretches, and of results that fill no vector; channels that fill no tile.
    for (len, stride, before) in [(200, 1, 1), (66, 3, -2), (19, 1, 0), (14, 1, 1), (37, 2, 3)] {
        let columns = axis(len, 3, stride, 1 + len % 2, before);
        check(2, 2, 3, 7, [axis(7, 2, 1, 3, -1), columns]);
        check(1, 1, 5, 13, [axis(5, 3, 1, 1, 1), columns]);
        check(1, 1, 4, 16, [axis(1, 1, 1, 1, 0), columns]);
        check(9, 1, 6, 4, [axis(6, 3, 2, 1, 1), columns]);
    }
}

#[test]
fn windows_of_one_element_are_the_elements() {
    check(3, 2, 4, 5, [axis(6, 1, 1, 1, 0), axis(7, 1, 1, 1, 0)]);
    check(1, 1, 4, 5, [axis(6, 1, 2, 1, 0), axis(7, 1, 1, 1, 0)]);
}
