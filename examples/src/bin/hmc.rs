//! Hamiltonian Monte Carlo on a banana-shaped density: chains as lanes, draws by `scan`, leapfrog
//! steps by `fori_loop`. The moments of the density are known, and the draws have to agree.
//!
//! `cargo run --release --bin hmc [-- --short]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::prelude::*;
use gradloom::{fori_loop, scan};
use gradloom_examples::command::is_short;
use std::error::Error;
use std::time::Instant;

/// Standard deviation of the first coordinate.
const WIDTH: f64 = 2.0;
/// Curvature of the banana.
const BEND: f64 = 0.25;
const STEP: f64 = 0.25;
const LEAPFROG_STEPS: i64 = 12;

/// Returns the logarithm of the density, without its constant. `x` is normal with the standard
/// deviation [`WIDTH`], and `y - BEND (x^2 - WIDTH^2)` is standard normal.
#[traced]
fn log_density(q: &Tensor) -> Tensor {
    let [x, y] = q.unbind::<2>(0);
    let offset = y - (x.square() - WIDTH * WIDTH) * BEND;
    x.square() * (-0.5 / (WIDTH * WIDTH)) - offset.square() * 0.5
}

/// Returns a position and a momentum after the leapfrog steps, for the gradient at the start.
fn leapfrog(q: &Tensor, p: &Tensor) -> (Tensor, Tensor) {
    let start = (q.clone(), p.clone(), log_density::grad(q).q);
    let step = |_: &Tensor, (q, p, slope): &(Tensor, Tensor, Tensor)| {
        let p = p + slope * (0.5 * STEP);
        let q = q + &p * STEP;
        let slope = log_density::grad(&q).q;
        (q, p + &slope * (0.5 * STEP), slope)
    };
    let (q, p, _) = fori_loop(0..LEAPFROG_STEPS, step, &start);
    (q, p)
}

/// Runs a chain from its key. Returns its draws `[n, 2]` and whether each proposal was accepted.
fn chain(key: &Key, n: usize) -> (Tensor, Tensor) {
    let (start, turns) = key.duplicate().split();
    let draw = |(q, key): &(Tensor, Key), _: &Tensor| {
        let [momentum, uniform, next] = key.duplicate().split_n();
        let p = momentum.normal([2], DType::F64);
        let (new_q, new_p) = leapfrog(q, &p);
        let energy = |q: &Tensor, p: &Tensor| p.square().sum(..) * 0.5 - log_density(q);
        let log_ratio = energy(q, &p) - energy(&new_q, &new_p);
        let accepted = uniform.uniform([], DType::F64).log().lt(&log_ratio);
        let q = accepted.select(&new_q, q);
        ((q.clone(), next), (q, accepted.cast(DType::F64)))
    };
    let start = start.normal([2], DType::F64) * 3.0;
    let (_, draws) = scan(draw, &(start, turns), &Tensor::arange(n, DType::I64));
    draws
}

/// A quantity along all chains.
struct Quantity {
    name: &'static str,
    exact: f64,
    /// The values of each chain.
    chains: Vec<Vec<f64>>,
}

struct Summary {
    mean: f64,
    /// Square root of the variance between and within chains, over that within.
    r_hat: f64,
    effective_size: f64,
    /// Standard error of the mean, from the effective sample size.
    error: f64,
}

fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len() as f64
}

/// Returns the sum of products of deviations from `mean` at a distance of `lag`, divided by the length.
fn autocovariance(xs: &[f64], mean: f64, lag: usize) -> f64 {
    let products = xs
        .iter()
        .zip(&xs[lag..])
        .map(|(a, b)| (a - mean) * (b - mean));
    products.sum::<f64>() / xs.len() as f64
}

/// Summarises chains that are split in halves: Gelman and others, "Bayesian data analysis", 2013,
/// section 11.4, with the sum of correlations by Geyer's initial positive sequence.
fn summarise(quantity: &Quantity) -> Summary {
    let half = quantity.chains[0].len() / 2;
    let halves: Vec<&[f64]> = quantity
        .chains
        .iter()
        .flat_map(|c| c.chunks_exact(half))
        .collect();
    let means: Vec<f64> = halves.iter().map(|xs| mean(xs)).collect();
    let total = mean(&means);
    let (m, n) = (halves.len() as f64, half as f64);
    let between = means.iter().map(|x| (x - total).powi(2)).sum::<f64>() / (m - 1.0);
    let covariance = |lag: usize| {
        let each = halves
            .iter()
            .zip(&means)
            .map(|(xs, &mean)| autocovariance(xs, mean, lag));
        each.sum::<f64>() / m
    };
    let within = covariance(0) * n / (n - 1.0);
    let variance = within * (n - 1.0) / n + between;
    let correlation = |lag: usize| 1.0 - (within - covariance(lag)) / variance;
    let mut time = -1.0;
    for lag in (0..half - 1).step_by(2) {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair < 0.0 {
            break;
        }
        time += 2.0 * pair;
    }
    let effective_size = m * n / time;
    Summary {
        mean: total,
        r_hat: (variance / within).sqrt(),
        effective_size,
        error: (variance / effective_size).sqrt(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (n_chains, warm_up, n) = match is_short()? {
        false => (64, 200, 2000),
        true => (16, 100, 400),
    };
    let keys = Key::new(0).split_lanes(n_chains);
    let start = Instant::now();
    let (draws, accepted) = vmap(|key: &Key| chain(key, warm_up + n))(&keys);
    let rate = accepted.mean(..);
    evaluate((&draws, &rate))?;
    let seconds = start.elapsed().as_secs_f64();

    let draws = draws.i((.., warm_up as i64..));
    let per_chain = |coordinate: i64, power: i32| {
        let all = draws.select_index(2, coordinate).to_vec::<f64>();
        all.chunks(n)
            .map(|c| c.iter().map(|x| x.powi(power)).collect())
            .collect()
    };
    // The square of y has the mean 1 + BEND^2 var(x^2), and var(x^2) is 2 WIDTH^4.
    let y_square = 1.0 + 2.0 * BEND.powi(2) * WIDTH.powi(4);
    let quantities = [
        ("x", 0, 1, 0.0),
        ("y", 1, 1, 0.0),
        ("x^2", 0, 2, WIDTH * WIDTH),
        ("y^2", 1, 2, y_square),
    ];
    let quantities = quantities.map(|(name, coordinate, power, exact)| Quantity {
        name,
        exact,
        chains: per_chain(coordinate, power),
    });
    let mut table = Table::new();
    let header = [
        "mean of",
        "exact",
        "found",
        "standard error",
        "R-hat",
        "effective draws",
    ];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let mut faults = Vec::new();
    for quantity in &quantities {
        let found = summarise(quantity);
        table.add_row([
            quantity.name.to_owned(),
            format!("{:.2}", quantity.exact),
            format!("{:.4}", found.mean),
            format!("{:.4}", found.error),
            format!("{:.4}", found.r_hat),
            format!("{:.0}", found.effective_size),
        ]);
        // NaN fails, because no comparison with it is true.
        let agrees = (found.mean - quantity.exact).abs() < 4.0 * found.error;
        if !(agrees && found.r_hat < 1.05) {
            faults.push(quantity.name);
        }
    }
    println!("{table}");
    println!("accepted proposals: {:.3}", rate.item::<f64>());
    let total = n_chains * (warm_up + n);
    println!(
        "{n_chains} chains, {total} draws of {LEAPFROG_STEPS} steps: {seconds:.2} s, with the time to plan"
    );
    if !faults.is_empty() {
        Err(format!(
            "the draws of {} do not agree with the density",
            faults.join(", ")
        ))?;
    }
    Ok(())
}
