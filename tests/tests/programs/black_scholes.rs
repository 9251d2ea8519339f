//! The Black-Scholes price, its greeks up to the third order, and the implied volatility.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::observe::{finds, plans_nothing};
use std::f64::consts::{PI, SQRT_2};

#[derive(Clone, Tree)]
struct Market {
    spot: Tensor,
    rate: Tensor,
    vol: Tensor,
    time: Tensor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Call,
    Put,
}

#[derive(Clone, Tree)]
struct Greeks {
    price: Tensor,
    delta: Tensor,
    gamma: Tensor,
    speed: Tensor,
    vega: Tensor,
    theta: Tensor,
    rho: Tensor,
}

/// The normal distribution.
#[traced]
fn cdf(x: &Tensor) -> Tensor {
    (x / -SQRT_2).erfc() * 0.5
}

#[traced]
impl Market {
    fn new(spot: &[f64], rate: f64, vol: f64, time: f64) -> Self {
        let spot = Tensor::from(spot.to_vec());
        Market {
            rate: spot.full_like(rate),
            vol: spot.full_like(vol),
            time: spot.full_like(time),
            spot,
        }
    }

    fn with_spot(&self, spot: &Tensor) -> Self {
        Market {
            spot: spot.clone(),
            ..self.clone()
        }
    }

    fn with_vol(&self, vol: Tensor) -> Self {
        Market {
            vol,
            ..self.clone()
        }
    }

    fn d1_d2(&self, strike: &Tensor) -> (Tensor, Tensor) {
        let width = &self.vol * self.time.sqrt();
        let drift = (&self.rate + self.vol.square() * 0.5) * &self.time;
        let d1 = ((&self.spot / strike).log() + drift) / &width;
        (d1.clone(), d1 - width)
    }

    fn price(&self, strike: &Tensor, #[fixed] kind: Kind) -> Tensor {
        let (d1, d2) = self.d1_d2(strike);
        let discounted = strike * (-&self.rate * &self.time).exp();
        match kind {
            Kind::Call => &self.spot * cdf(&d1) - discounted * cdf(&d2),
            Kind::Put => discounted * cdf(&-d2) - &self.spot * cdf(&-d1),
        }
    }

    fn greeks(&self, strike: &Tensor, #[fixed] kind: Kind) -> Greeks {
        let (price, pullback) = self.price_vjp(strike, kind);
        let (first, _) = pullback(&price.ones_like());
        let by_spot = |spot: &Tensor| self.with_spot(spot).price(strike, kind);
        let one = self.spot.ones_like();
        let delta = |spot: &Tensor| jvp(by_spot, spot, &one).1;
        let gamma = |spot: &Tensor| jvp(delta, spot, &one).1;
        let (gamma, speed) = jvp(gamma, &self.spot, &one);
        Greeks {
            price,
            delta: first.spot,
            gamma,
            speed,
            vega: first.vol,
            theta: -first.time,
            rho: first.rate,
        }
    }

    /// Finds the volatility for given prices by Newton's method.
    fn implied_vol(&self, strike: &Tensor, prices: &Tensor, #[fixed] kind: Kind) -> Tensor {
        let mut vol = self.vol.full_like(0.3);
        for _ in 0..12 {
            let (price, pullback) = self.with_vol(vol.clone()).price_vjp(strike, kind);
            let vega = pullback(&price.ones_like()).0.vol;
            vol = vol - (price - prices) / vega;
        }
        vol
    }
}

#[traced(order = 2)]
fn total(market: &Market, strike: &Tensor, #[fixed] kind: Kind) -> Tensor {
    market.price(strike, kind).sum(..)
}

const SPOTS: [f64; 3] = [80.0, 100.0, 125.0];
const STRIKE: f64 = 105.0;
const RATE: f64 = 0.03;
const VOL: f64 = 0.25;
const TIME: f64 = 0.75;

fn market() -> Market {
    let market = Market::new(&SPOTS, RATE, VOL, TIME);
    evaluate(&market).unwrap();
    market
}

fn strike() -> Tensor {
    Tensor::from([STRIKE; 3])
}

/// The Greeks of a call by their formulas, in the order of the fields.
fn by_formulas(spot: f64) -> [f64; 7] {
    let width = VOL * TIME.sqrt();
    let d1 = ((spot / STRIKE).ln() + (RATE + VOL * VOL / 2.0) * TIME) / width;
    let d2 = d1 - width;
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    // Simpson's rule from 0.
    let cdf = |x: f64| {
        let h = x / 2000.0;
        let sum: f64 = (0..1000)
            .map(|i| 2.0 * f64::from(i) * h)
            .map(|a| density(a) + 4.0 * density(a + h) + density(a + 2.0 * h))
            .sum();
        0.5 + sum * h / 3.0
    };
    let discounted = STRIKE * (-RATE * TIME).exp();
    let gamma = density(d1) / (spot * width);
    [
        spot * cdf(d1) - discounted * cdf(d2),
        cdf(d1),
        gamma,
        -gamma / spot * (d1 / width + 1.0),
        spot * density(d1) * TIME.sqrt(),
        -spot * density(d1) * VOL / (2.0 * TIME.sqrt()) - RATE * discounted * cdf(d2),
        discounted * TIME * cdf(d2),
    ]
}

#[test]
fn greeks_are_those_of_the_formulas() {
    let greeks = market().greeks(&strike(), Kind::Call);
    let expected = SPOTS.map(by_formulas);
    for (i, found) in entries(&greeks).chunks(3).enumerate() {
        let expected = expected.map(|greeks| greeks[i]);
        near(&format!("greek {i}"), found, &expected, 1e-11).unwrap();
    }
}

#[test]
fn call_and_put_differ_by_the_forward() {
    let (market, strike) = (market(), strike());
    let difference = market.price(&strike, Kind::Call) - market.price(&strike, Kind::Put);
    let forward = SPOTS.map(|spot| spot - STRIKE * (-RATE * TIME).exp());
    near("the parity", &entries(&difference), &forward, 1e-13).unwrap();
}

#[test]
fn the_product_of_the_hessian_is_gamma() {
    let (market, strike) = (market(), strike());
    let no_change = gradloom::tree::scale(&market, 0.0);
    let direction = no_change.with_spot(&market.spot.ones_like());
    let (_, change) = total::hvp(
        (&market, &strike, Kind::Call),
        (&direction, &strike.zeros_like()),
    );
    let gamma = SPOTS.map(|spot| by_formulas(spot)[2]);
    near("gamma", &entries(&change.market.spot), &gamma, 1e-11).unwrap();
}

#[test]
fn implied_volatility_gives_the_prices_and_its_derivative_is_one_over_vega() {
    let (market, strike) = (market(), strike());
    for kind in [Kind::Call, Kind::Put] {
        let prices = market.price(&strike, kind);
        let vol = market.implied_vol(&strike, &prices, kind);
        near("the volatility", &entries(&vol), &[VOL; 3], 1e-12).unwrap();
        let (vol, pullback) = market.implied_vol_vjp(&strike, &prices, kind);
        let (_, _, by_price) = pullback(&vol.ones_like());
        let vega = SPOTS.map(|spot| 1.0 / by_formulas(spot)[4]);
        near("by the price", &entries(&by_price), &vega, 1e-9).unwrap();
    }
}

#[test]
fn the_derivative_of_the_price_is_right() {
    let market = Market {
        spot: Tensor::from([0.9f64, 1.0, 1.2]),
        ..market()
    };
    let strike = Tensor::from([1.1f64, 0.95, 1.0]);
    for kind in [Kind::Call, Kind::Put] {
        Companions {
            call: &|(market, strike): &(Market, Tensor)| market.price(strike, kind),
            vjp: &|(market, strike), ct| {
                let (y, pullback) = market.price_vjp(strike, kind);
                (y, pullback(ct))
            },
            jvp: &|(market, strike), (dmarket, dstrike)| {
                market.price_jvp((strike, kind), (dmarket, dstrike))
            },
        }
        .check(&(market.clone(), strike.clone()));
    }
}

#[test]
fn a_second_call_records_and_plans_nothing() {
    assert_eq!(Market::WITH_SPOT_RECORDED, None);
    assert_eq!(Market::PRICE_RECORDED, None);
    assert_eq!(Market::GREEKS_RECORDED, None);
    assert_eq!(Market::IMPLIED_VOL_RECORDED, None);
    let (market, strike) = (market(), strike());
    let prices = market.price(&strike, Kind::Call);
    evaluate(&prices).unwrap();
    finds(|| market.greeks(&strike, Kind::Call));
    finds(|| market.implied_vol(&strike, &prices, Kind::Call));
    let quote = || evaluate(&market.greeks(&strike, Kind::Put)).unwrap();
    quote();
    plans_nothing(quote);
}
