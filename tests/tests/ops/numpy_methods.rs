//! Methods beside those of NumPy and JAX: values and gradients of sums against those of JAX and
//! SciPy, in closures and in traced functions.

use gradloom::hvp;
use gradloom::prelude::*;
use gradloom_tests::{Scale, check_elements};

fn check(name: &str, found: &Tensor, expected: &[f64]) {
    check_elements(name, found, expected, Scale::Element);
}

macro_rules! rows {
    ($($name:ident |$x:ident, $y:ident| $body:block, $values:expr, $slopes:expr;)*) => {$(
        #[test]
        fn $name() {
            #[traced(allow(zero_gradient, unused_parameter))]
            fn lowered($x: &Tensor, $y: &Tensor) -> Tensor $body

            let x = Tensor::from([-2.5f64, -0.75, 0.25, 1.5, 6.0, 12.0]);
            let y = Tensor::from([0.5f64, -1.5, 2.0, 0.75, -3.0, 4.0]);
            assert_eq!(lowered::RECORDED, None);
            check("value", &lowered(&x, &y), $values);
            let (z, pullback) = lowered::vjp(&x, &y);
            check("traced slope", &pullback(&z.ones_like()).0, $slopes);
            let slopes = grad(|$x: &Tensor| {
                let $y = &y;
                let z = $body;
                z.sum(..)
            })(&x);
            check("slope", &slopes, $slopes);
        }
    )*};
}

rows! {
    i0 |x, _y| { x.i0() },
        &[3.289839144050123, 1.1456467780440012, 1.015686141223608, 1.6467231897728907, 67.23440697647797, 18948.925349296307],
        &[-2.516716245288698, -0.40199246158092217, 0.12597910894546804, 0.9816664285779074, 61.34193677764021, 18141.348781638833];
    i0e |x, _y| { x.i0e() },
        &[0.27004644161220276, 0.5411652192034953, 0.7910171621397194, 0.36743360905415834, 0.16665743263981656, 0.11642622121344043],
        &[0.06346179208093622, 0.35127742589864025, -0.6929045334423511, -0.14839422163323268, -0.014605973331310751, -0.004961921923259449];
    i1 |x, _y| { x.i1() },
        &[-2.5167162452886984, -0.40199246158092217, 0.12597910894546793, 0.9816664285779074, 61.34193677764021, 18141.34878163883],
        &[2.2831526459346443, 0.6096568292694384, 0.5117697054417363, 0.992278904054286, 57.01075084687126, 17437.14628415974];
    i1e |x, _y| { x.i1e() },
        &[-0.20658464953126654, -0.189887793304855, 0.09811262869736825, 0.21903938742092566, 0.1520514593085058, 0.11146429929018098],
        &[-0.019172067731570375, 0.09809370149216695, 0.30045401865287813, 0.002367963352615632, -0.01073593655344024, -0.004326769684255619];
    copysign |x, y| { x.copysign(y) },
        &[2.5, -0.75, 0.25, 1.5, -6.0, 12.0],
        &[-1.0, 1.0, 1.0, 1.0, -1.0, 1.0];
    heaviside |x, y| { x.heaviside(y) },
        &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0],
        &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    floor_divide |x, y| { x.floor_divide(y) },
        &[-5.0, -0.0, 0.0, 2.0, -2.0, 3.0],
        &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    to_radians |x, _y| { x.to_radians() },
        &[-0.04363323129985824, -0.013089969389957472, 0.004363323129985824, 0.026179938779914945, 0.10471975511965978, 0.20943951023931956],
        &[0.017453292519943295, 0.017453292519943295, 0.017453292519943295, 0.017453292519943295, 0.017453292519943295, 0.017453292519943295];
    to_degrees |x, _y| { x.to_degrees() },
        &[-143.2394487827058, -42.97183463481174, 14.32394487827058, 85.94366926962348, 343.77467707849394, 687.5493541569879],
        &[57.29577951308232, 57.29577951308232, 57.29577951308232, 57.29577951308232, 57.29577951308232, 57.29577951308232];
    sinc |x, _y| { x.sinc() },
        &[0.12732395447351627, 0.3001054387190354, 0.9003163161571061, -0.2122065907891938, -3.8981718325193755e-17, -3.8981718325193755e-17],
        &[0.05092958178940639, 1.3429496265407772, -0.7728381398822333, 0.14147106052612904, 0.16666666666666666, 0.08333333333333333];
    diff |x, _y| { x.diff(0) },
        &[1.75, 1.0, 1.25, 4.5, 6.0],
        &[-1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    fmax |x, y| { x.fmax(y) },
        &[0.5, -0.75, 2.0, 1.5, 6.0, 12.0],
        &[0.0, 1.0, 0.0, 1.0, 1.0, 1.0];
    fmin |x, y| { x.fmin(y) },
        &[-2.5, -1.5, 0.25, 0.75, -3.0, 4.0],
        &[1.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    log1mexp |x, _y| { x.abs().log1mexp() },
        &[-0.08565048374203818, -0.639353465040354, -1.5086915494460322, -0.25248245892545396, -0.002481829368959528, -6.144231229078249e-06],
        &[-0.08942548983385201, -0.8952551344023434, 3.5208116641877987, 0.2872169167888683, 0.0024849116568445855, 6.144250104905606e-06];
    logmeanexp |x, _y| { x.logmeanexp(0) },
        &[10.210754951583692],
        &[5.030811132949901e-07, 2.895031920815293e-06, 7.869512663161096e-06, 2.7467298102521112e-05, 0.0024725273797652166, 0.997488737696435];
    sparse_plus |x, _y| { x.sparse_plus() },
        &[0.0, 0.015625, 0.390625, 1.5, 6.0, 12.0],
        &[0.0, 0.125, 0.625, 1.0, 1.0, 1.0];
    sparse_sigmoid |x, _y| { x.sparse_sigmoid() },
        &[0.0, 0.125, 0.625, 1.0, 1.0, 1.0],
        &[0.0, 0.5, 0.5, 0.0, 0.0, 0.0];
    ndtr |x, _y| { x.ndtr() },
        &[0.006209665325776132, 0.22662735237686815, 0.5987063256829237, 0.9331927987311419, 0.9999999990134123, 1.0],
        &[0.01752830049356853, 0.30113743215480443, 0.38666811680284924, 0.12951759566589172, 6.0758828498232646e-09, 2.1463837356630298e-32];
    entr |x, _y| { x.abs().entr() },
        &[-2.2907268296853878, 0.21576155433883568, 0.34657359027997264, -0.6081976621622466, -10.75055681536833, -29.818879797456006],
        &[1.916290731874155, 0.7123179275482191, 0.3862943611198906, -1.4054651081081644, -2.791759469228055, -3.4849066497880004];
    betaln |x, y| { x.abs().betaln(y.abs()) },
        &[0.1639006328376739, -0.04237300109634664, 1.1631508098056809, -0.04237300109634664, -5.123963979403259, -8.605204068738951],
        &[0.21962769445322394, 1.6584073464102067, -4.8, -0.5360564926451581, -0.4345238095238093, -0.2983516483516482];
    kron |x, y| { x.kron(y) },
        &[-1.25, 3.75, -5.0, -1.875, 7.5, -10.0, -0.375, 1.125, -1.5, -0.5625, 2.25, -3.0, 0.125, -0.375, 0.5, 0.1875, -0.75, 1.0, 0.75, -2.25, 3.0, 1.125, -4.5, 6.0, 3.0, -9.0, 12.0, 4.5, -18.0, 24.0, 6.0, -18.0, 24.0, 9.0, -36.0, 48.0],
        &[2.75, 2.75, 2.75, 2.75, 2.75, 2.75];
    vdot |x, y| { x.vdot(y) },
        &[31.5],
        &[0.5, -1.5, 2.0, 0.75, -3.0, 4.0];
    ptp |x, _y| { x.ptp(0) },
        &[14.5],
        &[-1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    cov |x, y| { Tensor::stack(&[x, y], 0).cov() },
        &[28.75, 4.7875, 4.7875, 6.160416666666666],
        &[-2.0833333333333335, -2.1833333333333336, -0.3833333333333334, -0.38333333333333347, -0.08333333333333358, 5.116666666666667];
    nan_mean |x, _y| { x.nan_mean(0) },
        &[2.75],
        &[0.16666666666666666, 0.16666666666666666, 0.16666666666666666, 0.16666666666666666, 0.16666666666666666, 0.16666666666666666];
    nan_sum |x, _y| { x.nan_sum(0) },
        &[16.5],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    nan_max |x, _y| { x.nan_max(0) },
        &[12.0],
        &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    nan_min |x, _y| { x.nan_min(0) },
        &[-2.5],
        &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    nan_to_num |x, _y| { x.nan_to_num() },
        &[-2.5, -0.75, 0.25, 1.5, 6.0, 12.0],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
}

#[test]
fn special_elements_are_those_of_numpy() {
    let x = Tensor::from([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
    let next =
        Tensor::from([1.0f32, 0.0, -1.0, 2.0]).nextafter(Tensor::from([2.0f32, 1.0, -2.0, 2.0]));
    let expected = [
        1.0f32.next_up(),
        f32::from_bits(1),
        (-1.0f32).next_down(),
        2.0,
    ];
    assert_eq!(next.to_vec::<f32>(), expected);
    assert!(x.nextafter(1.0).to_vec::<f64>()[0].is_nan());
    assert_eq!(x.signbit().to_vec::<bool>()[1..], [false, true, true]);
    assert_eq!(x.fmax(1.0).to_vec::<f64>(), [1.0, f64::INFINITY, 1.0, 1.0]);
    assert_eq!(
        x.nan_to_num().to_vec::<f64>(),
        [0.0, f64::MAX, f64::MIN, -0.0]
    );
    assert_eq!(x.count_nonzero(..).item::<i64>(), 3);
    assert_eq!(
        x.is_close(&x, 1e-3, 1.0).to_vec::<bool>(),
        [false, true, true, true]
    );
    assert_eq!(
        Tensor::from([1.0f64])
            .is_close(&x, 1e-3, 1.0)
            .to_vec::<bool>(),
        [false, false, false, true]
    );
    assert!(x.heaviside(0.5).to_vec::<f64>()[0].is_nan());
    assert_eq!(x.heaviside(0.5).to_vec::<f64>()[1..], [1.0, 0.0, 0.5]);
    assert_eq!(
        x.i0().to_vec::<f64>()[1..],
        [f64::INFINITY, f64::INFINITY, 1.0]
    );
    assert_eq!(x.i0e().to_vec::<f64>()[1..], [0.0, 0.0, 1.0]);
    assert_eq!(
        x.i1().to_vec::<f64>()[1..],
        [f64::INFINITY, f64::NEG_INFINITY, 0.0]
    );
    assert!(
        Tensor::from([f64::NAN, f64::NAN])
            .nan_mean(..)
            .item::<f64>()
            .is_nan()
    );
    assert!(
        Tensor::from([f64::NAN, f64::NAN])
            .nan_max(..)
            .item::<f64>()
            .is_nan()
    );
    assert_eq!(
        Tensor::from([-7i64, 7]).floor_divide(2).to_vec::<i64>(),
        [-4, 3]
    );
    assert_eq!(
        Tensor::from([true, false]).count_nonzero(0).item::<i64>(),
        1
    );
}

#[test]
fn slopes_at_zero_are_finite_and_right() {
    let zero = Tensor::from([0.0f64]);
    let slope = |f: fn(&Tensor) -> Tensor| grad(|x: &Tensor| f(x).sum(..))(&zero).item::<f64>();
    assert_eq!(slope(|x| x.i1()), 0.5);
    assert_eq!(slope(|x| x.i1e()), 0.5);
    assert_eq!(slope(|x| x.i0()), 0.0);
    assert_eq!(slope(|x| x.sinc()), 0.0);
    let bend = |f: fn(&Tensor) -> Tensor| {
        let of = |x: &Tensor| f(x).sum(..);
        hvp(of, &zero, &zero.ones_like()).item::<f64>()
    };
    assert!((bend(|x| x.sinc()) + std::f64::consts::PI.powi(2) / 3.0).abs() < 1e-12);
    assert_eq!(bend(|x| x.i0()), 0.5);
    let x = Tensor::from([1e-20f64, 40.0]);
    let slopes = grad(|x: &Tensor| x.log1mexp().sum(..))(&x).to_vec::<f64>();
    assert!((slopes[0] * 1e-20 - 1.0).abs() < 1e-12, "{slopes:?}");
    assert!(
        (slopes[1] / (-40f64).exp() - 1.0).abs() < 1e-12,
        "{slopes:?}"
    );
}

#[test]
fn special_operands_of_methods_have_the_values_of_numpy() {
    let sorted = Tensor::from([1.0f32, 2.0, f32::NAN]);
    let found = sorted.searchsorted(Tensor::from([f32::NAN, 5.0, 0.0]));
    assert_eq!(found.to_vec::<i64>(), [2, 2, 0]);
    let quotients = Tensor::from([1.0f32, -1.0]).floor_divide(0.0);
    assert_eq!(
        quotients.to_vec::<f32>(),
        [f32::INFINITY, f32::NEG_INFINITY]
    );
    let x = Tensor::from([1e15f32, 3e38]);
    let slopes = grad(|x: &Tensor| x.gelu_tanh().sum(..))(&x);
    assert_eq!(slopes.to_vec::<f32>(), [1.0, 1.0]);
    let outside = grad(|x: &Tensor| x.acosh().sum(..))(&Tensor::from([-2.0f64]));
    assert!(outside.item::<f64>().is_nan());
    assert_eq!(Tensor::zeros((), DType::F32).shape(), [0; 0]);
}

#[test]
fn a_logarithm_of_the_beta_function_keeps_its_digits() {
    // log(beta(x, 2)) = -log(x (x + 1)), and values of mpmath with 50 digits.
    for x in [1e5f64, 1e8, 1e15] {
        let expected = -(x.ln() + (x + 1.0).ln());
        for found in [
            Tensor::from([x]).betaln(2.0),
            Tensor::from([2.0f64]).betaln(Tensor::from([x])),
        ] {
            assert!(
                (found.item::<f64>() - expected).abs() < 1e-13 * expected.abs(),
                "{x}"
            );
        }
    }
    let cases = [
        (0.5, 0.5, 1.1447298858494002),
        (3.0, 4.0, -4.094344562222101),
        (10.0, 20.0, -19.115327299887045),
        (8.0, 8.0, -10.848948661710063),
        (1e4, 1e4, -13866.28325676141),
        (0.001, 50.0, 6.903276885609827),
    ];
    for (x, y, expected) in cases {
        let found = Tensor::from([x]).betaln(y).item::<f64>();
        assert!(
            (found - expected).abs() < 1e-13 * f64::abs(expected),
            "{x}, {y}: {found}"
        );
    }
}
