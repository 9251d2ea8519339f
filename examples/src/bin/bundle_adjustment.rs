//! Bundle adjustment: finds the places of cameras and points from the noisy images of the points, by
//! the method of Levenberg and Marquardt. Its linear systems are solved by conjugate gradients, with
//! products of the Jacobian and its transpose instead of the matrix.
//!
//! `cargo run --release --bin bundle_adjustment [-- --short]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::prelude::*;
use gradloom::{linearize, tree, while_loop};
use gradloom_examples::command::is_short;
use std::error::Error;
use std::time::Instant;

const CAMERAS: usize = 4;
/// Focal length in pixels.
const FOCAL: f64 = 500.0;
/// Standard deviation of the image coordinates, in pixels.
const NOISE: f64 = 0.5;
/// Number of dimensions along which a scene can move without a change of the images: a rotation, a
/// translation and a scale.
const FREE: usize = 7;

#[derive(Clone, Tree)]
struct Scene {
    /// A row for each camera: its rotation, as axis times angle, and its translation.
    cameras: Tensor,
    /// A row for each point.
    points: Tensor,
}

/// Returns the image of a point in pixels. The rotation is Rodrigues' formula.
#[traced]
fn project(camera: &Tensor, point: &Tensor) -> Tensor {
    let rotation = camera.i(0..3);
    let angle = rotation.square().sum(..).sqrt();
    let axis = rotation / &angle;
    let along = &axis * (&axis * point).sum(..);
    let turned =
        point * angle.cos() + axis.cross(point, 0) * angle.sin() + along * (1.0 - angle.cos());
    let place = turned + camera.i(3..6);
    place.i(0..2) / place.i(2) * FOCAL
}

/// Returns the images of all points in all cameras, `[cameras, points, 2]`.
fn images(scene: &Scene) -> Tensor {
    let image = |camera: &Tensor| vmap(|point: &Tensor| project(camera, point))(&scene.points);
    vmap(image)(&scene.cameras)
}

/// Returns the sum of the squared residuals.
#[traced(pure, record)]
fn cost(scene: &Scene, #[nodiff] observed: &Tensor) -> Tensor {
    (images(scene) - observed).square().sum(..)
}

/// State of conjugate gradients: the solution, its residual, the direction, the square of the residual,
/// and the number of turns.
type State = (Scene, Scene, Scene, Tensor, Tensor);

/// Returns the change `x` with `(J^T J + damping) x = -J^T r` for the residuals `r` and their Jacobian
/// `J`, and the number of turns of conjugate gradients.
#[traced(pure, record)]
fn solve(
    scene: &Scene,
    #[nodiff] observed: &Tensor,
    #[nodiff] damping: &Tensor,
) -> (Scene, Tensor) {
    let residuals = |scene: &Scene| images(scene) - observed;
    let (r, pushforward) = linearize(residuals, scene);
    let (_, pullback) = vjp(residuals, scene);
    let normal = |v: &Scene| {
        let product = pullback.call(&pushforward.call(v));
        tree::add(&product, &tree::scale(v, damping))
    };
    let start = tree::scale(&pullback.call(&r), -1.0);
    let square = tree::dot(&start, &start);
    let limit = &square * 1e-16;
    let (x, _, _, _, turns) = while_loop(
        |(_, _, _, square, turn): &State| square.gt(&limit) & turn.lt(500),
        |(x, rest, direction, square, turn): &State| {
            let product = normal(direction);
            let length = square / tree::dot(direction, &product);
            let x = tree::add(x, &tree::scale(direction, &length));
            let rest = tree::sub(rest, &tree::scale(&product, &length));
            let next = tree::dot(&rest, &rest);
            let direction = tree::add(&rest, &tree::scale(direction, &(&next / square)));
            (x, rest, direction, next, turn + 1)
        },
        &(
            tree::scale(scene, 0.0),
            start.clone(),
            start.clone(),
            square,
            Tensor::from(0i64),
        ),
    );
    (x, turns)
}

/// Returns the distances of all pairs of points, divided by their mean.
fn shape(points: &Tensor) -> Tensor {
    let apart = points.unsqueeze(1) - points.unsqueeze(0);
    let distances = apart.square().sum(-1).sqrt();
    let mean = distances.mean(..);
    distances / mean
}

fn main() -> Result<(), Box<dyn Error>> {
    let n_points = match is_short()? {
        false => 60,
        true => 20,
    };
    let clock = Instant::now();

    // The cameras stand on an arc around a cube of points and look at its middle.
    let [points, noise, shift_cameras, shift_points] = Key::new(1).split_n();
    let cameras =
        Tensor::from([-0.6f64, -0.2, 0.2, 0.6].map(|turn| [0.0, turn, 0.0, 0.0, 0.0, 5.0]));
    let truth = Scene {
        cameras,
        points: points.uniform([n_points, 3], DType::F64) * 2.0 - 1.0,
    };
    let observed = images(&truth) + noise.normal([CAMERAS, n_points, 2], DType::F64) * NOISE;
    let mut scene = Scene {
        cameras: &truth.cameras + shift_cameras.normal([CAMERAS, 6], DType::F64) * 0.05,
        points: &truth.points + shift_points.normal([n_points, 3], DType::F64) * 0.2,
    };
    evaluate((&truth, &observed, &scene))?;

    let n_residuals = 2 * CAMERAS * n_points;
    let rms = |cost: f64| (cost / n_residuals as f64).sqrt();
    let mut table = Table::new();
    let header = ["iteration", "residual in pixels", "damping", "turns"];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let mut current = cost(&scene, &observed).item::<f64>();
    let (mut damping, mut converged) = (1e3, false);
    table.add_row([
        "0".to_owned(),
        format!("{:.4}", rms(current)),
        String::new(),
        String::new(),
    ]);
    for iteration in 1..=30 {
        let (change, turns) = solve(&scene, &observed, &Tensor::from(damping));
        let moved = tree::add(&scene, &change);
        let next = cost(&moved, &observed).item::<f64>();
        table.add_row([
            iteration.to_string(),
            format!("{:.4}", rms(next)),
            format!("{damping:.0e}"),
            turns.item::<i64>().to_string(),
        ]);
        if next < current {
            converged = current - next < 1e-9 * current;
            (scene, current, damping) = (moved, next, damping * 0.1);
        } else {
            damping *= 10.0;
        }
        if converged {
            break;
        }
    }
    println!("{table}");
    println!(
        "time: {:.2} s, with the time to plan",
        clock.elapsed().as_secs_f64()
    );

    // With `n` residuals and `m` unknowns, the sum of squares has the mean `n - m` times the variance of
    // the noise, and this relative deviation.
    let freedom = (n_residuals - (6 * CAMERAS + 3 * n_points - FREE)) as f64;
    let level = (current / freedom).sqrt();
    let deviation = 1.0 / (2.0 * freedom).sqrt();
    let wrong = (shape(&scene.points) - shape(&truth.points))
        .square()
        .mean(..)
        .sqrt()
        .item::<f64>();
    println!(
        "noise from the residuals: {level:.4} pixels, of {NOISE} (deviation {:.4})",
        NOISE * deviation
    );
    println!(
        "error of the distances of points: {:.2} % of their mean",
        wrong * 100.0
    );
    if !converged {
        Err("the iterations do not converge")?;
    }
    if (level / NOISE - 1.0).abs() > 4.0 * deviation || wrong > 0.02 {
        Err("the scene is not the one of the images")?;
    }
    Ok(())
}
