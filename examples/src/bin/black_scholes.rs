//! Prices of European calls and puts, their derivatives of first and second order, and implied
//! volatilities, all from one traced function and compared with the closed forms.
//!
//! `cargo run --release --bin black_scholes [-- --short]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::prelude::*;
use gradloom::while_loop;
use gradloom_examples::command::is_short;
use std::error::Error;
use std::f64::consts::PI;
use std::time::Instant;

const SPOT: f64 = 100.0;
const RATE: f64 = 0.03;
const TIME: f64 = 0.5;
const NAMES: [&str; 9] = [
    "price", "delta", "vega", "theta", "rho", "gamma", "vanna", "volga", "implied",
];
/// Largest error that is accepted, relative to numbers above 1.
const TOLERANCE: f64 = 1e-10;

/// The quantities that a price depends on.
#[derive(Clone, Tree)]
struct Market {
    spot: Tensor,
    strike: Tensor,
    rate: Tensor,
    volatility: Tensor,
    time: Tensor,
}

/// Returns the price of a call if `sign` is 1, and of a put if it is -1.
#[traced]
fn price(market: &Market, #[nodiff] sign: &Tensor) -> Tensor {
    let spread = &market.volatility * market.time.sqrt();
    let drift = (&market.rate + market.volatility.square() * 0.5) * &market.time;
    let d1 = ((&market.spot / &market.strike).log() + drift) / &spread;
    let d2 = &d1 - &spread;
    let discounted = &market.strike * (-(&market.rate * &market.time)).exp();
    sign * (&market.spot * (sign * &d1).ndtr() - discounted * (sign * &d2).ndtr())
}

fn market(strike: &Tensor, volatility: &Tensor) -> Market {
    Market {
        spot: Tensor::from(SPOT),
        strike: strike.clone(),
        rate: Tensor::from(RATE),
        volatility: volatility.clone(),
        time: Tensor::from(TIME),
    }
}

/// Returns the price and its derivatives for a strike, a volatility and a sign.
fn greeks((strike, volatility, sign): &(Tensor, Tensor, Tensor)) -> Tensor {
    let market = market(strike, volatility);
    let (value, gradient) = price::value_and_grad(&market, sign);
    let gradient = gradient.market;
    let bent = |(spot, volatility): &(Tensor, Tensor)| {
        let (spot, volatility) = (spot.clone(), volatility.clone());
        let moved = Market {
            spot,
            volatility,
            ..market.clone()
        };
        price(&moved, sign)
    };
    let at = (market.spot.clone(), market.volatility.clone());
    let ((gamma, vanna), (_, volga)) = hessian(bent)(&at);
    let theta = -gradient.time;
    let first = [
        value,
        gradient.spot,
        gradient.volatility,
        theta,
        gradient.rate,
    ];
    Tensor::concat(
        &[
            Tensor::stack(&first, 0),
            Tensor::stack(&[gamma, vanna, volga], 0),
        ],
        0,
    )
}

/// Returns the volatility at which the option has the price `target`, by Newton's method from the
/// volatility at which the price has its point of inflection.
fn implied((target, strike, sign): &(Tensor, Tensor, Tensor)) -> Tensor {
    let forward = (strike / SPOT).log() - RATE * TIME;
    let start = (forward.abs() * (2.0 / TIME)).sqrt().maximum(0.1);
    let (volatility, _, _) = while_loop(
        |(_, step, turn): &(Tensor, Tensor, Tensor)| step.abs().gt(1e-13) & turn.lt(50),
        |(volatility, _, turn): &(Tensor, Tensor, Tensor)| {
            let (value, gradient) = price::value_and_grad(&market(strike, volatility), sign);
            let step = (value - target) / gradient.market.volatility;
            (volatility - &step, step, turn + 1)
        },
        &(start, Tensor::from(1.0f64), Tensor::from(0i64)),
    );
    volatility
}

/// Returns the standard normal distribution up to `x` by its Taylor series, for `x` from -6 to 6.
fn normal_below(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, 0.0, 1.0);
    while f64::abs(term) > 1e-18 {
        sum += term;
        odd += 2.0;
        term *= x * x / odd;
    }
    0.5 + density(x) * sum
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// Returns the closed forms of everything in [`NAMES`].
fn closed_forms(strike: f64, volatility: f64, sign: f64) -> [f64; 9] {
    let root = TIME.sqrt();
    let drift = (RATE + 0.5 * volatility * volatility) * TIME;
    let d1 = ((SPOT / strike).ln() + drift) / (volatility * root);
    let d2 = d1 - volatility * root;
    let discounted = strike * (-RATE * TIME).exp();
    let (below1, below2) = (normal_below(sign * d1), normal_below(sign * d2));
    let vega = SPOT * density(d1) * root;
    let decay = SPOT * density(d1) * volatility / (2.0 * root);
    [
        sign * (SPOT * below1 - discounted * below2),
        sign * below1,
        vega,
        -decay - sign * RATE * discounted * below2,
        sign * TIME * discounted * below2,
        density(d1) / (SPOT * volatility * root),
        -density(d1) * d2 / volatility,
        vega * d1 * d2 / volatility,
        volatility,
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let n_strikes = match is_short()? {
        false => 50_000,
        true => 250,
    };

    // Strikes from 70 to 140, each for a call and a put. The volatilities form a smile.
    let strikes = Tensor::linspace(70.0, 140.0, n_strikes, DType::F64);
    let smile = (&strikes / SPOT).log().square() * 0.3 + 0.2;
    let both = |x: &Tensor| Tensor::concat(&[x, x], 0);
    let (strikes, smile) = (both(&strikes), both(&smile));
    let signs = Tensor::arange(2, DType::F64) * -2.0 + 1.0;
    let signs = signs.repeat(n_strikes, 0);
    evaluate((&strikes, &smile, &signs))?;

    let lanes = (strikes.clone(), smile.clone(), signs.clone());
    let start = Instant::now();
    let all = vmap(greeks)(&lanes);
    evaluate(&all)?;
    let greeks_time = start.elapsed();

    let lanes = (all.select_index(1, 0), strikes.clone(), signs.clone());
    let start = Instant::now();
    let volatilities = vmap(implied)(&lanes);
    evaluate(&volatilities)?;
    let implied_time = start.elapsed();
    // The derivative of the loop is that of the inverse function: 1 / vega.
    let slopes = vmap(grad(implied))(&lanes).0;
    let identity = &slopes * all.select_index(1, 2) - 1.0;
    let slope_error = identity.abs().max(..).item::<f64>();

    let found = Tensor::concat(&[all, volatilities.unsqueeze(1)], 1).to_vec::<f64>();
    let [strikes, smile, signs] = [strikes, smile, signs].map(|x| x.to_vec::<f64>());
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_header(["option", "strike"].iter().chain(&NAMES));
    let mut worst = [0f64; NAMES.len()];
    for (lane, row) in found.chunks(NAMES.len()).enumerate() {
        let expected = closed_forms(strikes[lane], smile[lane], signs[lane]);
        for ((worst, found), expected) in worst.iter_mut().zip(row).zip(expected) {
            // A NaN is an error too, so it is not lost in `max`.
            let error = (found - expected).abs() / expected.abs().max(1.0);
            *worst = if error.is_nan() {
                f64::INFINITY
            } else {
                worst.max(error)
            };
        }
        if lane % (n_strikes / 5) == n_strikes / 10 {
            let kind = if signs[lane] > 0.0 { "call" } else { "put" };
            let numbers = row.iter().map(|x| format!("{x:.4}"));
            let labels = [kind.to_owned(), format!("{:.2}", strikes[lane])];
            table.add_row(labels.into_iter().chain(numbers));
        }
    }
    println!("{table}");
    let n = 2 * n_strikes;
    let [greeks_time, implied_time] = [greeks_time, implied_time].map(|t| t.as_secs_f64() * 1e3);
    println!("{n} options, with the time to plan:");
    println!("prices and derivatives in {greeks_time:.0} ms");
    println!("implied volatilities in {implied_time:.0} ms");
    for (name, error) in NAMES.iter().zip(worst) {
        println!("largest error of {name}: {error:.1e}");
    }
    println!("largest error of the slope of the implied volatility: {slope_error:.1e}");
    if worst.iter().any(|&e| e > TOLERANCE) {
        Err(format!("an error is larger than {TOLERANCE:e}"))?;
    }
    if slope_error.is_nan() || slope_error > 1e-8 {
        Err("the derivative of the loop is not 1 / vega")?;
    }
    Ok(())
}
