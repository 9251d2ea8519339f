//! Mesh axes in annotations of traced functions place arguments and results, and change no value.

use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{Speed, explain_sharding, shard_map, sharded, with_mesh};
use gradloom::trace::trace;
use gradloom_tests::noise;
use gradloom_tests::panics::panic_of;
use std::sync::Arc;

/// A layer that data and model divide.
#[traced(returns(f64; B@a, O@b))]
fn dense(#[shape(f64; B@a, I)] x: &Tensor, #[shape(I, O@b)] w: &Tensor) -> Tensor {
    x.matmul(w).tanh()
}

/// A result of two parts, an argument by value, and a name that the body binds again.
#[traced(returns((N@(a, b), _), (N@_, M)))]
fn pair(#[shape(N@(a, b), M@_)] mut x: Tensor) -> Result<(Tensor, Tensor)> {
    x = x.sin();
    Ok((x.clone(), x * 2.0))
}

#[traced]
fn outer(x: &Tensor, w: &Tensor) -> Tensor {
    dense(x, w) * 2.0
}

#[derive(Tree)]
struct Layer {
    scale: Tensor,
}

#[traced]
impl Layer {
    #[traced(returns(N@c))]
    fn scaled(&self, #[shape(N@a)] x: &Tensor) -> Result<Tensor> {
        Ok(x * &self.scale)
    }
}

fn specs(tensors: &[&Tensor]) -> Vec<String> {
    let spec = |x: &&Tensor| x.sharding().map_or("none".to_owned(), ToString::to_string);
    tensors.iter().map(spec).collect()
}

#[test]
fn without_a_mesh_annotations_place_nothing() {
    let (x, w) = (noise(&[4, 3], 1), noise(&[3, 6], 2));
    let y = dense(&x, &w);
    let (first, second) = pair(x.clone()).unwrap();
    assert_eq!(specs(&[&y, &first, &second]), ["none"; 3]);
    assert_near(&y, &x.matmul(&w).tanh(), "dense");
}

#[test]
fn a_mesh_in_force_places_arguments_and_results() {
    let grid = Grid::new(&[2, 2]);
    let (x, w) = (noise(&[4, 3], 1), noise(&[3, 6], 2));
    // A plan of a call without a mesh is not used.
    assert_eq!(specs(&[&dense(&x, &w)]), ["none"]);
    let found = with_mesh(&grid.mesh, || {
        let (first, second) = pair(x.clone()).unwrap();
        specs(&[&dense(&x, &w), &first, &second])
    });
    insta::assert_snapshot!(found.join("\n"), @r#"
    sharding<@m, [{"a"}, {"b"}]>
    sharding<@m, [{"a", "b"}, {}]>
    sharding<@m, [{?}, {}]>
    "#);
    assert_eq!(specs(&[&dense(&x, &w)]), ["none"]);
}

#[test]
fn a_printed_program_has_the_constraints() {
    let grid = Grid::new(&[2, 2]);
    let args = (noise(&[4, 3], 1), noise(&[3, 6], 2));
    let f = |(x, w): &(Tensor, Tensor)| outer(x, w);
    let program = with_mesh(&grid.mesh, || trace(f, &args)).to_string();
    insta::assert_snapshot!(program, @r#"
    gradloom trace 1
    (x_0: f64[4, 3], x_1: f64[3, 6], v9: f64[4, 6]) {
      v2 = sharding_constraint[spec=mesh @m <["a"=2, "b"=2]> sharding<@m, [{"a"}, {}]>] x_0
      v3 = sharding_constraint[spec=mesh @m <["a"=2, "b"=2]> sharding<@m, [{}, {"b"}]>] x_1
      v6 = matmul v2, v3, like x_0, like x_1
      v7 = tanh v6
      v8 = sharding_constraint[spec=mesh @m <["a"=2, "b"=2]> sharding<@m, [{"a"}, {"b"}]>] v7
      v10 = scalar[value=2.0] like v9
      v11 = mul v8, v10
      return v11
    }
    "#);
    gradloom::trace::parse(&program).unwrap();
}

#[test]
fn a_function_with_mesh_axes_is_that_function() {
    for grid in [Grid::new(&[2, 2]), Grid::new(&[2, 3])] {
        let args = (noise(&[5, 3], 1), noise(&[3, 7], 2));
        let plain = |(x, w): &(Tensor, Tensor)| x.matmul(w).tanh() * 2.0;
        let f = |(x, w): &(Tensor, Tensor)| outer(x, w);
        let divided = sharded(f, &grid.mesh, None, None);
        assert_near(&divided(&args), &plain(&args), "value");
        let loss = |f: &dyn Fn(&(Tensor, Tensor)) -> Tensor| {
            grad(|args: &(Tensor, Tensor)| (f(args) * noise(&[5, 7], 3)).sum(..))(&args)
        };
        let (found, expected) = (loss(&divided), loss(&plain));
        assert_near(&found.0, &expected.0, "gradient of x");
        assert_near(&found.1, &expected.1, "gradient of w");
        let companion = |(x, w): &(Tensor, Tensor)| {
            let (y, pullback) = dense::vjp(x, w);
            let (ct_x, ct_w) = pullback(&y);
            (y, ct_x, ct_w)
        };
        let whole = companion(&args);
        let found = sharded(companion, &grid.mesh, None, None)(&args);
        for (found, expected) in [
            (&found.0, &whole.0),
            (&found.1, &whole.1),
            (&found.2, &whole.2),
        ] {
            assert_near(found, expected, "companion");
        }
        let lanes = (noise(&[3, 5, 3], 4), noise(&[3, 3, 7], 5));
        assert_near(&vmap(&divided)(&lanes), &vmap(plain)(&lanes), "vmap");
    }
}

#[test]
fn the_report_names_the_line_of_each_collective() {
    let grid = Grid::new(&[2, 2]);
    let args = (noise(&[4, 6], 1), noise(&[6, 8], 2), noise(&[8, 6], 3));
    let lines = |f: &dyn Fn(&(Tensor, Tensor, Tensor)) -> Tensor| {
        let explained = explain_sharding(f, &grid.mesh, None, None, &args, &Speed::default());
        let explained = explained.unwrap();
        let by_line = explained.by_line();
        assert_eq!(
            by_line.iter().map(|(_, n, _)| n).sum::<usize>(),
            explained.collectives.len()
        );
        assert_eq!(
            by_line.iter().map(|(.., sent)| sent).sum::<u128>(),
            explained.sent()
        );
        let source: Vec<&str> = include_str!("annotations.rs").lines().collect();
        let line = |(line, n, sent): &(Option<&std::panic::Location<'_>>, usize, u128)| {
            let text = line.map(|at| source[at.line() as usize - 1].trim());
            format!("{}: {n}, {sent} B", text.unwrap_or("unknown"))
        };
        let printed = explained.to_string();
        for of in &explained.collectives {
            assert!(
                printed.contains(&format!("; for {}", of.line.unwrap())),
                "{printed}"
            );
        }
        by_line.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let forward = lines(&|(x, u, w)| mlp(x, u, w));
    let backward = lines(&|args| grad(|(x, u, w): &(Tensor, Tensor, Tensor)| mlp(x, u, w))(args).1);
    let all = lines(&|(x, u, w)| vmap(|x: &Tensor| mlp(&x.unsqueeze(0), u, w))(x).sum(0));
    insta::assert_snapshot!([forward, backward, all].join("\n\n"), @r"
    let y = h.matmul(w);: 1, 96 B
    z.square().mean(..): 1, 8 B

    let y = h.matmul(w);: 1, 96 B
    let h = x.matmul(u).tanh();: 2, 160 B

    let h = x.matmul(u).tanh();: 1, 96 B
    let y = h.matmul(w);: 1, 96 B
    let all = lines(&|(x, u, w)| vmap(|x: &Tensor| mlp(&x.unsqueeze(0), u, w))(x).sum(0));: 1, 8 B
    ");
}

#[traced]
fn mlp(
    #[shape(B@a, I)] x: &Tensor,
    #[shape(I, H@b)] u: &Tensor,
    #[shape(H@b, O)] w: &Tensor,
) -> Tensor {
    let h = x.matmul(u).tanh();
    let y = h.matmul(w);
    let z = y.sin();
    z.square().mean(..)
}

#[test]
fn mesh_axes_that_do_not_fit_are_errors_at_the_line_of_the_call() {
    let grid = Grid::new(&[2]);
    let x = noise(&[4, 3], 1);
    let layer = Layer {
        scale: Tensor::from(2.0f64),
    };
    let result = |x: &Tensor| layer.scaled(x);
    let mut all = vec![
        sharded(result, &grid.mesh, None, None)(&noise(&[4], 1))
            .unwrap_err()
            .to_string(),
        sharded(|x: &Tensor| Ok(pair(x.clone())?.0), &grid.mesh, None, None)(&x)
            .map(drop)
            .map_err(|error: Error| error.to_string())
            .unwrap_err(),
    ];
    let inside = |x: &Tensor| -> Result<Tensor> { layer.scaled(x) };
    let rows = grid.rows();
    all.push(
        shard_map(inside, &grid.mesh, &rows, &rows)(&noise(&[4], 1))
            .unwrap_err()
            .to_string(),
    );
    let mesh = Arc::new(gradloom::sharding::Mesh::new("other", &[("a", 2)]).unwrap());
    let line = line!() + 1;
    let panic = panic_of(|| drop(with_mesh(&mesh, || dense(&x, &noise(&[3, 6], 2)))));
    assert_eq!((panic.1.ends_with("annotations.rs"), panic.2), (true, line));
    all.push(panic.0);
    insta::assert_snapshot!(all.join("\n"), @r#"
    `scaled`: the annotation of the result splits dim 0 over `c`, and there is no such axis in mesh @m <["a"=2]>
    `pair`: the annotation of `x` splits dim 0 over `b`, and there is no such axis in mesh @m <["a"=2]>
    `scaled`: the annotation of `x` has mesh axes, which split a whole tensor, and inside of `shard_map` `x` is the part of a device; call a function without mesh axes there
    `dense`: the annotation of `w` splits dim 1 over `b`, and there is no such axis in mesh @other <["a"=2]>
    "#);
}
