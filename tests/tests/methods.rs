//! Methods beside those of NumPy, SciPy and JAX: values and gradients of sums against those of JAX
//! 0.10, in closures and in traced functions.

use gradloom::prelude::*;
use gradloom::{AssociativeScan, associative_scan, fori_loop, vmap};
use gradloom_tests::panics::panic_of;
use gradloom_tests::{Scale, check_elements};

fn check(name: &str, found: &Tensor, expected: &[f64]) {
    check_elements(name, found, expected, Scale::Largest);
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
    flatten |x, _y| { x.reshape([2, 3]).flatten() },
        &[-2.5, -0.75, 0.25, 1.5, 6.0, 12.0],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    segment_max |x, _y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); x.segment_max(&ids, 4).tanh() },
        &[0.9999999999244973, -1.0, 0.9051482536448665, 0.9999877116507957],
        &[0.0, 0.0, 0.0, 0.1807066389236484, 2.4576547405080933e-05, 1.5100543037645552e-10];
    segment_min |x, _y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); x.segment_min(&ids, 4).tanh() },
        &[-0.9866142981514302, 1.0, -0.6351489523872874, 0.9999877116507957],
        &[0.026592226683160858, 0.5965858082813313, 0.0, 0.0, 2.4576547405080933e-05, 0.0];
    segment_mean |x, _y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); x.square().segment_mean(&ids, 4) },
        &[50.104166666666664, 0.0, 1.40625, 36.0],
        &[-1.6666666666666665, -0.75, 0.16666666666666666, 1.5, 12.0, 8.0];
    segment_prod |x, _y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); x.segment_prod(&ids, 4) },
        &[-7.5, 1.0, -1.125, 6.0],
        &[3.0, 1.5, -30.0, -0.75, 1.0, -0.625];
    segment_prod_of_zeros |x, _y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); (x - 0.25).relu().segment_prod(&ids, 4) },
        &[0.0, 1.0, 0.0, 5.75],
        &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    segment_prod_of_rows |x, y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); Tensor::stack(&[x, y], 1).segment_prod(&ids, 4) },
        &[-7.5, 4.0, 1.0, 1.0, -1.125, -1.125, 6.0, -3.0],
        &[3.0, 1.5, -30.0, -0.75, 1.0, -0.625];
    scatter_mul |x, y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); y.scatter_mul(&ids, x, 0) },
        &[-3.75, -1.5, -2.25, 4.5, -3.0, 4.0],
        &[1.5, 3.0, -15.0, -1.5, 0.75, -0.3125];
    scatter_mul_of_columns |x, y| { let ids = Tensor::from([0i64, -1, 0]); x.reshape([2, 3]).scatter_mul(&ids, y.reshape([2, 3]), 1) },
        &[-2.5, -0.75, -0.375, 4.5, 6.0, -36.0],
        &[1.0, 1.0, -1.5, 3.0, 1.0, -3.0];
    bincount_weighted |x, _y| { let ids = Tensor::from([0i64, 2, 0, 2, 3, 0]); ids.bincount_weighted(x, 3) },
        &[9.75, 0.0, 0.75],
        &[1.0, 1.0, 1.0, 1.0, 0.0, 1.0];
    convolve |x, y| { x.convolve(y.slice([0], [3], [1])) },
        &[-1.25, 3.375, -3.75, -1.125, 1.25, 0.0, -6.0, 24.0],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    convolve_same |x, y| { x.convolve_same(y.slice([0], [4], [1])) },
        &[3.375, -3.75, -3.0, 0.6875, 0.1875, -4.875],
        &[1.25, 1.75, 1.75, 1.75, 1.0, -1.0];
    convolve_same_of_a_longer_kernel |x, y| { x.slice([0], [3], [1]).convolve_same(y) },
        &[3.375, -3.75, -3.75, 7.4375, -7.5625, -3.75],
        &[2.25, 2.75, -1.25, 0.0, 0.0, 0.0];
    convolve_valid |x, y| { x.convolve_valid(y.slice([0], [4], [1])) },
        &[-3.0, 0.6875, 0.1875],
        &[0.75, 2.75, 1.25, 1.0, -1.0, 0.5];
    interp_at |x, y| { y.interp(x, y.square()) },
        &[3.3125, 1.3928571428571428, 1.5, 2.625, 0.25, 5.25],
        &[-0.4897959183673469, -0.6530612244897959, 3.8499999999999996, -0.8499999999999999, -1.2499999999999998, 0.0];
    interp_of_values |x, y| { (y * 2.0).interp(y.sort(0), x) },
        &[2.4, -2.5, 12.0, 4.2, -2.5, 12.0],
        &[2.0, 0.0, 0.0, 1.2000000000000002, 0.8, 2.0];
    interp_in_x |x, y| { x.interp(y.sort(0), y.square()) },
        &[0.9166666666666666, 2.90625, 3.78125, 5.625, 16.0, 16.0],
        &[1.3333333333333333, 0.875, 0.875, 6.75, 0.0, 0.0];
    trapezoid |x, _y| { x.square().trapezoid(0.5, 0) },
        &[57.0],
        &[-1.25, -0.75, 0.25, 1.5, 6.0, 6.0];
    trapezoid_at |x, y| { y.reshape([3, 2]).trapezoid_at(x.slice([0], [3], [1]), 0) },
        &[1.6875, 1.71875],
        &[-0.875, -1.0, 1.875, 0.0, 0.0, 0.0];
    polyval |x, y| { x.polyval(y) },
        &[15.28125, 20.71875, -60.0, 16.61865234375, 547.5, -2676.0],
        &[805.6748046875, 358.44140625, 42.171875, 32.0625, 2.75, 6.0];
    polyval_at |x, y| { y.polyval(x) },
        &[-122.484375, 5.23486328125, 3.32275390625, 4.140625, 2389.0, 96844.0],
        &[222.15625, 2.572265625, -2.333984375, 5.15625, 2166.0, 42351.0];
    vander |x, _y| { x.vander(4) },
        &[-15.625, 6.25, -2.5, 1.0, -0.421875, 0.5625, -0.75, 1.0, 0.015625, 0.0625, 0.25, 1.0, 3.375, 2.25, 1.5, 1.0, 216.0, 36.0, 6.0, 1.0, 1728.0, 144.0, 12.0, 1.0],
        &[14.75, 1.1875, 1.6875, 10.75, 121.0, 457.0];
    corrcoef |x, y| { Tensor::stack(&[x, y], 0).corrcoef().i((0, 1)) },
        &[0.35973676004942184],
        &[0.01376438575288809, -0.020671353325789912, 0.029424716408325967, 0.007511361266707194, -0.06010559160188524, 0.030076481499753907];
    nan_prod |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.nan_prod(0) },
        &[4.21875],
        &[-1.6875, -5.625, 16.875, 2.8125, 0.703125, 0.0];
    nan_var |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.nan_var(0, 1) },
        &[10.268749999999999],
        &[-1.7, -0.8249999999999998, -0.3249999999999999, 0.3000000000000001, 2.55, 0.0];
    nan_std |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.nan_std(0, 0) },
        &[2.8661821295933025],
        &[-0.23724940330169764, -0.11513573983758854, -0.045356503572383355, 0.04186754175912313, 0.3558741049525464, 0.0];
    nan_cumsum |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.nan_cumsum(0) },
        &[-2.5, -3.25, -3.0, -1.5, 4.5, 4.5],
        &[6.0, 5.0, 4.0, 3.0, 2.0, 0.0];
    nan_cumprod |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.nan_cumprod(0) },
        &[-2.5, 1.875, 0.46875, 0.703125, 4.21875, 4.21875],
        &[-3.59375, -15.3125, 38.4375, 6.09375, 1.40625, 0.0];
    logaddexp2 |x, y| { x.logaddexp2(y) },
        &[0.6699250014423124, -0.0768022071810459, 2.3755141188067475, 2.173197792818954, 6.002815015607054, 12.005624549193879],
        &[0.11111111111111113, 0.627115119175411, 0.2291693294654895, 0.627115119175411, 0.9980506822612084, 0.9961089494163419];
    multigammaln |x, _y| { (x.abs() + 1.5).multigammaln(3) },
        &[5.402975080909174, 1.6592935862241998, 1.7377028227630964, 2.694924879806964, 21.493272337400082, 61.69873299261713],
        &[-3.2820586441755104, -0.592565386794331, -1.065841959615877, 2.048725310842178, 5.612453149744487, 7.576386315858969];
    factorial |x, _y| { x.factorial() },
        &[0.0, 0.0, 0.906402477055477, 1.3293403881791377, 720.0000000000001, 479001599.9999993],
        &[0.0, 0.0, -0.20616444606726758, 0.9347345216260867, 1348.4047212708967, 1209955652.9671001];
    matrix_power_3 |x, _y| { x.slice([0], [4], [1]).reshape([2, 2]).matrix_power(3) },
        &[-14.96875, -3.421875, 1.140625, 3.28125],
        &[19.9375, 3.6875, 7.1875, 5.9375, 0.0, 0.0];
    matrix_power_minus_2 |x, _y| { x.slice([0], [4], [1]).reshape([2, 2]).matrix_power(-2) },
        &[0.16251154201292703, -0.05909510618651893, 0.019698368728839642, 0.4776854416743613],
        &[0.15136641233739934, 0.033867370796952366, 0.21357178727057716, -0.5674512535570998, 0.0, 0.0];
    expm |x, y| { (x.slice([0], [4], [1]).reshape([2, 2]) * y.row(5)).expm() },
        &[-4.053601333214027, -64.08931692830019, 21.36310564276673, 337.75608895105364],
        &[-25.345181652826387, 161.36463936074688, -142.28422779797262, 1189.2502869820523, 0.0, 0.0];
    expm_of_a_batch |x, y| { (x.outer(y).i((.., 2..)).reshape([6, 2, 2]) * 0.1).expm() },
        &[0.5705945328381992, -0.08741998645283021, 0.34967994581132095, 0.3374745689639852, 0.8555291386717259, -0.0448639192400059, 0.17945567696002365, 0.7358920206983767, 1.0505195346277867, 0.020207696378777226, -0.0808307855151089, 1.1044067249711926, 1.3121637789441092, 0.1756092434845484, -0.7024369739381938, 1.7804550949029052, 1.3751467574124578, 2.5227107935769264, -10.090843174307702, 8.102375540284257, -23.56525038769608, 23.909047796765474, -95.63619118706181, 40.19221040367846],
        &[0.2780809398797336, 0.3537236344445682, 0.3791258481409834, 0.3632813052153721, -1.3343078812600742, -26.3702706130139];
    ndtri |x, _y| { (x * 0.05 + 0.3).ndtri() },
        &[-0.9345892910734801, -0.6356570136975827, -0.4887764111146694, -0.3186393639643751, 0.2533471031358, 1.2815515655446015],
        &[0.19396740124560627, 0.15339119037302917, 0.14123324290158595, 0.13185819446412497, 0.1294188334570372, 0.28490299280585046];
    log_ndtr |x, y| { (x * y).log_ndtr() },
        &[-2.2476256772143173, -0.13960065009078873, -0.36894641528865635, -0.13960065009078873, -165.81237325071422, -0.0],
        &[0.8644083136655263, -0.36542826844928955, 1.018320867674067, 0.18271413422464478, -54.165653384425696, 0.0];
    erfcx |x, _y| { (x * 0.1).erfcx() },
        &[1.3586423701047219, 1.0905873593917177, 0.9724039592871391, 0.8509363086677635, 0.567804717386587, 0.37853741692923953],
        &[-0.18077003521478735, -0.12919672710042704, -0.10797589691311554, -0.08730982744951835, -0.044701350623160815, -0.02198893664653373];
    pinv_of_a_tall_matrix |x, _y| { x.reshape([3, 2]).pinv(1e-12) },
        &[-0.44545043005885016, -0.1068356722498868, -0.014486192847442257, 0.22017671813959735, 0.0642489479067116, 0.08906325972871917],
        &[-0.14188262018068903, 0.0903888315492719, 0.03622884061175009, -0.01066360830937729, 0.03383475575858635, -0.024141824137417296];
    pinv_of_a_wide_matrix |x, y| { (x * y).reshape([2, 3]).pinv(1e-12) },
        &[-0.4066932024997766, 0.000790405949706556, 0.3709467130731316, -0.007176683169379371, 0.14863688933601285, 0.01812355200536983],
        &[0.2060858479512315, -0.4666631985094746, 0.20930728434641926, 0.003649956162978662, 0.01251364724571816, -0.007691174375372831];
    pinv_of_rank_1 |x, _y| { x.slice([0], [2], [1]).outer(x.slice([3], [6], [1])).pinv(1e-12) },
        &[-0.0030203496054668345, -0.0009061048816400503, -0.012081398421867333, -0.0036244195265601998, -0.024162796843734666, -0.0072488390531203995],
        &[-0.021757601011124388, 0.004466792260561958, 0.0, -0.0017774073809948853, 0.0007432794502342255, 0.004104195225206373];
    lstsq |x, y| { x.reshape([3, 2]).lstsq(y.slice([0], [3], [1]), 1e-12) },
        &[-0.0914440923494794, 0.19184145666716962],
        &[0.022512522012386883, 0.0242414078806708, -0.18712231090212345, 0.08881547317431866, 0.032417662517662954, -0.025573634209845392];
    lstsq_of_several |x, _y| { x.reshape([3, 2]).lstsq(x.reshape([3, 2]).square(), 1e-12) },
        &[-3.3122453598913526, -2.5769578995020335, 4.5863973978505435, 13.093518937679185],
        &[0.35505138932617564, 4.076293587428895, -2.6323986479170767, 1.6640283294126332, 1.6638725784344164, 0.3261986197731064];
    qr_of_a_wide_matrix |x, y| { let (q, r) = (x * y).reshape([2, 3]).qr(); q.matmul(r.square()) },
        &[-2.102128757355267, -16.606252525951273, 118.83353564164182, 1.8919158816197406, 229.4418516663425, 1637.8603550584858],
        &[-420.11057351671667, 37.921707227738565, 143.10588811929276, -700.4645730288429, 75.68541311693136, 289.80094244753604];
    qr_factor_of_a_wide_matrix |x, _y| { let (_q, r) = x.reshape([2, 3]).qr(); r.square() },
        &[8.499999999999998, 13.91360294117647, 35.516544117647065, 0.0, 22.648897058823525, 108.54595588235294],
        &[-4.99999999999999, -1.500000000000004, 0.5000000000000014, 3.000000000000003, 11.999999999999998, 24.000000000000004];
    fract |x, _y| { x.fract() },
        &[-0.5, -0.75, 0.25, 0.5, 0.0, 0.0],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    nan_median |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.nan_median(0) },
        &[0.25],
        &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    nan_quantile |x, y| { let x = y.gt(3.0).select(f64::NAN, x); x.reshape([3, 2]).nan_quantile(0.3, 0) },
        &[-0.85, -0.07499999999999993],
        &[0.4, 0.7, 0.6, 0.3, 0.0, 0.0];
    gradient |x, _y| { x.square().gradient(0.5, 0) },
        &[-11.375, -6.1875, 1.6875, 35.9375, 141.75, 216.0],
        &[15.0, -1.5, 0.0, 0.0, -12.0, 72.0];
    gradient_of_columns |x, _y| { x.square().reshape([3, 2]).gradient(2.0, -1) },
        &[-2.84375, -2.84375, 1.09375, 1.09375, 54.0, 54.0],
        &[5.0, -1.5, -0.5, 3.0, -12.0, 24.0];
    insert_slice |x, y| { x.square().reshape([3, 2]).insert_slice(1, y.slice([0], [3], [1]), 1) },
        &[6.25, 0.5, 0.5625, 0.0625, -1.5, 2.25, 36.0, 2.0, 144.0],
        &[-5.0, -1.5, 0.5, 3.0, 12.0, 24.0];
    insert_a_number |x, _y| { x.square().insert_slice(-1, 7.0, 0) },
        &[6.25, 0.5625, 0.0625, 2.25, 36.0, 7.0, 144.0],
        &[-5.0, -1.5, 0.5, 3.0, 12.0, 24.0];
    delete_slice |x, _y| { x.square().reshape([2, 3]).delete_slice(1, -1) },
        &[6.25, 0.0625, 2.25, 144.0],
        &[-5.0, -0.0, 0.5, 3.0, 0.0, 24.0];
    delete_the_last |x, _y| { x.square().delete_slice(-1, 0) },
        &[6.25, 0.5625, 0.0625, 2.25, 36.0],
        &[-5.0, -1.5, 0.5, 3.0, 12.0, 0.0];
    fill_diagonal |x, _y| { x.square().reshape([2, 3]).fill_diagonal(9.0) },
        &[9.0, 0.5625, 0.0625, 2.25, 9.0, 144.0],
        &[-0.0, -1.5, 0.5, 3.0, 0.0, 24.0];
    hard_shrink |x, _y| { x.hard_shrink(1.0) },
        &[-2.5, 0.0, 0.0, 1.5, 6.0, 12.0],
        &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    soft_shrink |x, _y| { x.soft_shrink(1.0) },
        &[-1.5, -0.0, 0.0, 0.5, 5.0, 11.0],
        &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    threshold |x, y| { x.threshold(1.0, y) },
        &[0.5, -1.5, 2.0, 1.5, 6.0, 12.0],
        &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    exp1 |x, _y| { x.abs().exp1() },
        &[0.024914917870269736, 0.3403408129112301, 1.0442826344437381, 0.10001958240663265, 0.0003600824521626587, 4.7510818246724936e-07],
        &[0.03283399944955952, 0.629822070321353, -3.1152031322856195, -0.14875344009895322, -0.0004131253627777264, -5.120176961106842e-07];
    expi |x, _y| { x.expi() },
        &[-0.024914917870269736, -0.3403408129112301, -0.5425432646619137, 3.301285449129798, 85.98976214243922, 14959.532666397537],
        &[-0.03283399944955952, -0.629822070321353, 5.136101666750966, 2.9877927135587097, 67.23813224878919, 13562.899284916994];
    spence |x, _y| { x.abs().spence() },
        &[-1.1473806603755703, 0.2676526390827327, 0.9784693929303059, -0.4484142069236462, -2.7492791260608085, -4.43096251703983],
        &[0.6108604879161034, 1.1507282898071236, -1.8483924814931874, -0.8109302162163288, -0.358351893845611, -0.22590060452618185];
    beta |x, y| { x.beta(y * 0.7) },
        &[0.8024001894737033, -29.79065616785335, 3.573838894719872, 1.4817512638452115, -104.75509568068588, 0.001308692992804717],
        &[-4.848840894225857, -17.557544482005454, -15.709043344744085, -0.5960977155784252, -50.155706045381116, -0.00028503522137113426];
    rel_entr |x, y| { x.abs().rel_entr(y.abs()) },
        &[4.023594781085251, -0.5198603854199589, -0.5198603854199589, 1.0397207708399179, 4.1588830833596715, 13.183347464017316],
        &[-2.6094379124341005, -0.3068528194400547, -1.0794415416798357, 1.6931471805599454, 1.6931471805599454, 2.09861228866811];
    gammasgn |x, _y| { x.gammasgn() },
        &[-1.0, -1.0, 1.0, 1.0, 1.0, 1.0],
        &[-0.0, -0.0, 0.0, 0.0, 0.0, 0.0];
}

// The values of mpmath 1.4, with 60 digits. JAX has no derivatives of `betainc` in its parameters, nor of
// `zeta` in its exponent.
rows! {
    gammainc |x, y| { x.abs().gammainc(y.abs()) },
        &[0.03743422675270363, 0.8524004456352495, 0.9827139881404833, 0.3177296696637874, 0.08391794203130346, 0.000915229147270063],
        &[0.06885559236096406, 0.28224836530791836, -0.09036859462438904, -0.35535578248184513, -0.07180878915273921, -0.0010713127563062616];
    gammainc_of_its_argument |x, y| { y.abs().gammainc(x.abs()) },
        &[0.9746526813225317, 0.3177296696637874, 0.026499021160743916, 0.8524004456352495, 0.938031195583341, 0.9977082087922086],
        &[-0.029289965123852974, -0.4615989684163658, 0.19470019576785122, 0.16453248872020834, 0.044617539179994455, 0.0017695331577585243];
    gammaincc |x, y| { x.abs().gammaincc(y.abs()) },
        &[0.9625657732472964, 0.14759955436475045, 0.017286011859516774, 0.6822703303362125, 0.9160820579686966, 0.99908477085273],
        &[-0.06885559236096406, -0.28224836530791836, 0.09036859462438904, 0.35535578248184513, 0.07180878915273921, 0.0010713127563062616];
    betainc |x, y| { x.abs().betainc(y.abs(), (y / 5.0).abs()) },
        &[0.0011144375415074218, 0.5256703032273711, 0.9145613380821083, 0.041382140438253646, 0.31539456, 0.648162104573952],
        &[0.0027622845564714846, 0.4915486500121872, -0.36084164055483114, -0.08364352624122418, -0.09392698284440018, -0.05016681982216918];
    betainc_of_its_second_parameter |x, y| { y.abs().betainc(x.abs(), (y / 5.0).abs()) },
        &[0.5104102554355725, 0.12026894454768333, 0.03187708952726726, 0.32423208956295924, 0.95019264, 0.999998988746752],
        &[-0.09528227952320324, -0.1747723270941428, 0.1424972949070227, 0.15226359323170083, 0.03359578234711952, 1.414644697736657e-06];
    betainc_of_its_argument |x, y| { y.abs().betainc(y.abs() + 1.0, x.abs() / 13.0) },
        &[0.5399011495661348, 0.0446319770882196, 0.0021624494502993593, 0.2999054670710555, 0.5816613004575072, 0.9998763108984343],
        &[-0.10036017637056943, -0.08607456127886877, 0.017075294982668673, 0.14209960883458556, 0.15349271123013153, 0.0005931369109243098];
    zeta |x, y| { (x.abs() + 1.0).zeta(y.abs()) },
        &[11.620804663441895, 1.2745259883695843, 3.5951118258429435, 2.491542385511935, 0.0005367773819228268, 1.5809604102839835e-08],
        &[-7.669242250689649, 1.8043952402596581, -15.929665002879242, 0.16307962111121316, -0.000618304612751065, -2.213810255752834e-08];
    zeta_of_its_argument |x, y| { (y.abs() + 1.0).zeta(x.abs()) },
        &[1.4037797688568259, 2.491542385511935, 64.66386996876847, 1.2745259883695843, 0.0019713046987925127, 1.4204585445878725e-05],
        &[0.3410535236628296, 7.318593803849884, -769.3910720045942, -0.8578099671776812, -0.0010638652236854666, -4.925345437950621e-06];
    expn |x, y| { x.abs().expn(y.abs().ceil()) },
        &[0.024914917870269736, 0.2171109430575922, 0.5177301244604703, 0.10001958240663265, 0.0002846036972619598, 3.89586007095526e-07],
        &[0.03283399944955952, 0.34034081291123003, -1.0442826344437381, -0.14875344009895322, -0.00031825746369040645, -4.146211943368026e-07];
    poch |x, y| { (x - 0.125).poch(y.abs()) },
        &[4.101105252578104, -0.16660654660232074, 0.140625, 1.1918600121455851, 318.076171875, 31555.191650390625],
        &[35.73343083298853, -0.9651395215143772, 1.25, 0.7004902259544141, 140.796875, 9503.7734375];
}

/// Row S1.57 of the requirements.
#[test]
fn flat_and_split_tensors_have_the_lengths_of_pytorch() {
    let x = Tensor::arange(0..12, DType::I64).reshape([2, 6]);
    assert_eq!(x.flatten().to_vec::<i64>(), x.to_vec::<i64>());
    assert_eq!(Tensor::from(3.0f32).flatten().shape(), [1]);
    assert_eq!(Tensor::zeros([2, 0], DType::F32).flatten().shape(), [0]);
    let lens = |n: usize, of: usize| -> Vec<usize> {
        let parts = Tensor::arange(of, DType::F64).chunks(n, -1);
        parts.iter().map(|part| part.numel()).collect()
    };
    assert_eq!(lens(3, 6), [2, 2, 2]);
    assert_eq!(lens(4, 6), [2, 2, 2]);
    assert_eq!(lens(6, 9), [2, 2, 2, 2, 1]);
    assert_eq!(lens(3, 2), [1, 1]);
    assert_eq!(lens(3, 0), [0, 0, 0]);
    let slopes =
        grad(|x: &Tensor| x.chunks(2, 0)[1].square().sum(..))(&Tensor::from([1.0f64, 2.0, 3.0]));
    assert_eq!(slopes.to_vec::<f64>(), [0.0, 0.0, 6.0]);
}

#[traced]
fn ranges(x: &Tensor, n: i64) -> Tensor {
    x * Tensor::arange(-1..2, DType::F64) + Tensor::arange(n..n + 3, DType::F64)
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // A range that runs down has no elements.
fn ranges_and_windows_are_those_of_numpy() {
    let y = ranges(&Tensor::from([10.0f64, 10.0, 10.0]), 5);
    assert_eq!(y.to_vec::<f64>(), [-5.0, 6.0, 17.0]);
    assert_eq!(ranges::RECORDED, None);
    assert_eq!(
        Tensor::arange(2usize..5, DType::I32).to_vec::<i32>(),
        [2, 3, 4]
    );
    assert_eq!(
        Tensor::arange(2..=4u32, DType::I64).to_vec::<i64>(),
        [2, 3, 4]
    );
    let (start, end) = (5, 2);
    assert_eq!(Tensor::arange(start..end, DType::I64).shape(), [0]);
    check(
        "logspace",
        &Tensor::logspace(-1.0, 2.0, 4, DType::F64),
        &[0.1, 1.0, 10.0, 100.0],
    );
    check(
        "hann",
        &Tensor::hann(5, DType::F64),
        &[0.0, 0.5, 1.0, 0.5, 0.0],
    );
    check(
        "hamming",
        &Tensor::hamming(6, DType::F64),
        &[
            0.08,
            0.39785218258752425,
            0.9121478174124759,
            0.9121478174124759,
            0.39785218258752425,
            0.08,
        ],
    );
    check(
        "blackman",
        &Tensor::blackman(6, DType::F64),
        &[
            0.0,
            0.2007701432625305,
            0.8492298567374694,
            0.8492298567374694,
            0.2007701432625305,
            0.0,
        ],
    );
    check(
        "bartlett",
        &Tensor::bartlett(6, DType::F64),
        &[0.0, 0.4, 0.8, 0.8, 0.4, 0.0],
    );
    for window in [
        Tensor::hann,
        Tensor::hamming,
        Tensor::blackman,
        Tensor::bartlett,
    ] {
        assert_eq!(window(1, DType::F32).to_vec::<f32>(), [1.0]);
        assert_eq!(window(0, DType::F32).shape(), [0]);
        let refused = panic_of(|| drop(window(4, DType::I64))).0;
        assert!(refused.contains("expected a float"), "{refused}");
    }
    let geometric = Tensor::geomspace(-0.1, -2e5, 5, DType::F64);
    let expected = [
        -0.1,
        -3.760603093086394,
        -141.4213562373095,
        -5318.295896944989,
        -200000.0,
    ];
    check_elements("geomspace", &geometric, &expected, Scale::Element);
    let ends = geometric.to_vec::<f64>();
    assert_eq!((ends[0], ends[4]), (-0.1, -2e5));
    assert_eq!(
        Tensor::geomspace(3.0, 5.0, 1, DType::F64).item::<f64>(),
        3.0
    );
    for (start, stop, reason) in [
        (
            0.0,
            1.0,
            "`start` is 0, expected a finite number other than 0",
        ),
        (
            1.0,
            f64::NAN,
            "`stop` is NaN, expected a finite number other than 0",
        ),
        (
            1.0,
            -2.0,
            "`start` is 1 and `stop` is -2, expected one sign",
        ),
    ] {
        let refused = panic_of(|| drop(Tensor::geomspace(start, stop, 3, DType::F64))).0;
        assert!(
            refused.contains(&format!("geomspace: {reason}")),
            "{refused}"
        );
    }
}

#[test]
fn triangles_and_their_indices_are_those_of_numpy() {
    let tri = |diagonal| Tensor::tri(2, 3, diagonal, DType::I64).to_vec::<i64>();
    assert_eq!(tri(1), [1, 1, 0, 1, 1, 1]);
    assert_eq!(tri(-1), [0, 0, 0, 1, 0, 0]);
    for (rows, columns) in [(3, 2), (3, 4), (1, 1), (0, 3), (2, 0)] {
        let ones = Tensor::ones([rows, columns], DType::I64);
        for diagonal in [-5, -1, 0, 1, 2, 5, i64::MIN, i64::MAX] {
            let n = (rows * columns) as i64;
            let numbers = Tensor::arange(n, DType::I64).to_vec::<i64>();
            let clipped = diagonal.clamp(-9, 9);
            let low = Tensor::tril_indices(rows, columns, diagonal);
            let high = Tensor::triu_indices(rows, columns, diagonal);
            for (found, mask) in [(low, ones.tril(clipped)), (high, ones.triu(clipped))] {
                let mask = mask.to_vec::<i64>();
                let kept = numbers.iter().filter(|i| mask[**i as usize] == 1);
                let kept: Vec<i64> = kept.copied().collect();
                let places = found.row(0) * columns as i64 + found.row(1);
                assert_eq!(places.to_vec::<i64>(), kept, "{rows} {columns} {diagonal}");
            }
        }
    }
}

#[test]
fn elements_that_are_nan_or_infinite_have_the_results_of_numpy() {
    let nan = f64::NAN;
    let infinity = f64::INFINITY;
    let x = Tensor::from([-3.0f64, -0.0, infinity, -infinity, 2.5, nan]);
    let parts = x.fract().to_vec::<f64>();
    assert_eq!(parts[..5], [-0.0, -0.0, 0.0, -0.0, 0.5]);
    let signs = x.fract().signbit().to_vec::<bool>();
    assert_eq!(signs[..5], [true, true, false, true, false]);
    assert!(parts[5].is_nan());
    let slopes = grad(|x: &Tensor| x.fract().sum(..))(&x).to_vec::<f64>();
    assert_eq!(slopes[..5], [1.0, 1.0, 0.0, 0.0, 1.0]);
    let x = Tensor::from([[nan, 4.0, nan], [nan, nan, nan], [nan, -infinity, infinity]]);
    check("median", &x.nan_median(1), &[4.0, nan, nan]);
    check("lowest", &x.nan_quantile(0.0, 1), &[4.0, nan, -infinity]);
    check("highest", &x.nan_quantile(1.0, -1), &[4.0, nan, infinity]);
    assert_eq!(x.nan_argmax(1).to_vec::<i64>(), [1, -1, 2]);
    assert_eq!(x.nan_argmin(1).to_vec::<i64>(), [1, -1, 1]);
    assert_eq!(x.nan_argmax(..).item::<i64>(), 8);
    // NumPy gives 0, the index of NaN.
    assert_eq!(
        Tensor::from([nan, -infinity]).nan_argmax(0).item::<i64>(),
        1
    );
    let slopes =
        grad(|x: &Tensor| x.nan_median(0).sum(..))(&Tensor::from([nan, 1.0, infinity, 2.0]));
    assert_eq!(slopes.to_vec::<f64>(), [0.0, 0.0, 0.0, 1.0]);
    let x = Tensor::from([nan, 1.0, 0.0]);
    assert_eq!(
        x.isin(Tensor::from([[nan, -0.0]])).to_vec::<bool>(),
        [false, false, true]
    );
    let none = Tensor::zeros([0], DType::F64);
    assert_eq!(x.isin(&none).to_vec::<bool>(), [false; 3]);
    for y in [
        x.hard_shrink(0.5),
        x.soft_shrink(0.5),
        x.threshold(0.5, 7.0),
    ] {
        let y = y.to_vec::<f64>();
        assert!(y[0].is_nan() && !y[1].is_nan(), "{y:?}");
    }
}

#[test]
fn special_functions_have_the_limits_of_scipy() {
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let x = Tensor::from([-1.0, -0.0, 0.0, infinity, -infinity, nan]);
    check("exp1", &x.exp1(), &[nan, infinity, infinity, 0.0, nan, nan]);
    let expi = [
        -0.21938393439552029,
        -infinity,
        -infinity,
        infinity,
        0.0,
        nan,
    ];
    check("expi", &x.expi(), &expi);
    let zeta_2 = std::f64::consts::PI.powi(2) / 6.0;
    // SciPy gives NaN at infinity.
    let spence = [nan, zeta_2, zeta_2, -infinity, nan, nan];
    check("spence", &x.spence(), &spence);
    let x = Tensor::from([-2.5, -1.0, -0.0, 0.0, -3.5, -infinity, infinity, nan]);
    let signs = [-1.0, nan, -1.0, 1.0, 1.0, nan, 1.0, nan];
    check("gammasgn", &x.gammasgn(), &signs);
    let x = Tensor::from([-1.0, -2.0, 0.0, -3.0, -2.0, -1.5, -0.5, 1e-3, 200.0]);
    let y = Tensor::from([2.0, 1.0, 1.0, 2.0, 3.0, 1.5, 2.0, 1e3, 300.0]);
    let beta = [
        infinity,
        -0.5,
        infinity,
        1.0 / 6.0,
        infinity,
        0.0,
        -4.0,
        992.5442834860535,
        1.648549160866475e-147,
    ];
    check_elements("beta", &x.beta(&y), &beta, Scale::Element);
    let swapped = y.beta(&x);
    check_elements("beta", &swapped, &beta, Scale::Element);
    // Magnitudes below 1e-3 count as 1e-3 there.
    assert!((swapped.to_vec::<f64>()[8] / beta[8] - 1.0).abs() < 1e-12);
    let x = Tensor::from([0.0, 0.0, 1.0, 1.0, -1.0, nan, infinity, 0.0, 1e300, 1e-300]);
    let y = Tensor::from([0.0, 2.0, 0.0, 2.0, 1.0, 1.0, 1.0, -1.0, 1e-300, 1e300]);
    let terms = [
        0.0,
        0.0,
        infinity,
        -std::f64::consts::LN_2,
        infinity,
        nan,
        infinity,
        infinity,
        1.3815510557964275e303,
        -1.3815510557964274e-297,
    ];
    let found = x.rel_entr(&y);
    check_elements("rel_entr", &found, &terms, Scale::Element);
    // Magnitudes below 1e-3 count as 1e-3 there.
    assert!((found.to_vec::<f64>()[9] / terms[9] - 1.0).abs() < 1e-15);
}

#[test]
fn slices_are_inserted_and_deleted_at_each_place() {
    let x = Tensor::arange(4, DType::I64);
    for at in -4..=4i64 {
        let place = if at < 0 { at + 4 } else { at };
        let mut expected = vec![0, 1, 2, 3];
        expected.insert(place as usize, 9);
        assert_eq!(x.insert_slice(at, 9, 0).to_vec::<i64>(), expected, "{at}");
    }
    assert_eq!(x.delete_slice(-4, 0).to_vec::<i64>(), [1, 2, 3]);
    let wide = Tensor::zeros([2, 0, 3], DType::F64).insert_slice(0, 1.0, 1);
    assert_eq!(
        (wide.shape(), wide.to_vec::<f64>()),
        (&[2, 1, 3][..], vec![1.0; 6])
    );
    let tall = Tensor::zeros([3, 2], DType::I64).fill_diagonal(Tensor::from([5i64, 6]));
    assert_eq!(tall.to_vec::<i64>(), [5, 0, 0, 6, 0, 0]);
    let pair = Tensor::from([1.0f64, 4.0]).gradient(2.0, 0);
    assert_eq!(pair.to_vec::<f64>(), [1.5, 1.5]);
    type Refused = Box<dyn Fn() -> Tensor>;
    let refusals: [(Refused, &str); 6] = [
        (
            Box::new(|| Tensor::arange(4, DType::I64).insert_slice(5, 9, 0)),
            "insert_slice: the index 5 is out of range for axis 0 of i64[4]",
        ),
        (
            Box::new(|| Tensor::arange(4, DType::I64).delete_slice(4, 0)),
            "delete_slice: the index 4 is out of range for axis 0 of i64[4]",
        ),
        (
            Box::new(|| Tensor::zeros([3, 1], DType::F64).gradient(1.0, 1)),
            "gradient: axis 1 of f64[3, 1] has length 1, expected at least 2",
        ),
        (
            Box::new(|| Tensor::zeros([3], DType::F64).fill_diagonal(1.0)),
            "fill_diagonal: f64[3] has less than two axes",
        ),
        (
            Box::new(|| Tensor::zeros([3], DType::F64).soft_shrink(-1.0)),
            "soft_shrink: the bound is -1, expected a number that is not negative",
        ),
        (
            Box::new(|| Tensor::zeros([3], DType::F64).nan_quantile(1.5, 0)),
            "nan_quantile: 1.5 is not from 0 to 1",
        ),
    ];
    for (call, reason) in refusals {
        let refused = panic_of(|| drop(call())).0;
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn a_loop_takes_ranges_of_all_integer_types() {
    let step = |i: &Tensor, x: &Tensor| x + i;
    let zero = Tensor::from(0i64);
    for sum in [
        fori_loop(0..5usize, step, &zero),
        fori_loop(0..5i32, step, &zero),
        fori_loop(0..5u32, step, &zero),
        fori_loop(0..5i64, step, &zero),
    ] {
        assert_eq!(sum.item::<i64>(), 10);
    }
}

#[test]
fn a_key_folds_in_the_index_of_a_loop_as_a_number() {
    let key = Key::new(7);
    let start = Tensor::zeros([3], DType::F64);
    let step = |i: &Tensor, x: &Tensor| x + key.duplicate().fold_in(i).normal([3], DType::F64);
    let looped = fori_loop(0..4, step, &start);
    let mut expected = start.clone();
    for i in 0..4 {
        expected += key.duplicate().fold_in(i).normal([3], DType::F64);
    }
    assert_eq!(looped.to_vec::<f64>(), expected.to_vec::<f64>());
    // Under `vmap`, each lane has its own number.
    let draw = |i: &Tensor| key.duplicate().fold_in(i).uniform([2], DType::F32);
    let lanes = vmap(draw)(&Tensor::from([1i32, 9]));
    let expected = Tensor::stack(
        &[1u32, 9].map(|i| key.duplicate().fold_in(i).uniform([2], DType::F32)),
        0,
    );
    assert_eq!(lanes.to_vec::<f32>(), expected.to_vec::<f32>());
    let refused = panic_of(|| drop(key.duplicate().fold_in(Tensor::from([1i64])))).0;
    assert!(
        refused.contains("fold_in: the number is i64[1], expected i32[] or i64[]"),
        "{refused}"
    );
}

#[test]
fn segments_of_integers_and_empty_segments_are_those_of_jax() {
    let (x, ids) = (Tensor::from([3i32, -5, 4]), Tensor::from([1i32, 1, -1]));
    assert_eq!(x.segment_max(&ids, 3).to_vec::<i32>(), [i32::MIN, 3, 4]);
    assert_eq!(x.segment_min(&ids, 3).to_vec::<i32>(), [i32::MAX, -5, 4]);
    assert_eq!(x.segment_prod(&ids, 3).to_vec::<i32>(), [1, -15, 4]);
    let none = Tensor::zeros([0, 2], DType::F64);
    let ids = Tensor::zeros([0], DType::I64);
    assert_eq!(none.segment_prod(&ids, 2).to_vec::<f64>(), [1.0; 4]);
    assert_eq!(none.segment_mean(&ids, 2).to_vec::<f64>(), [0.0; 4]);
    assert_eq!(
        none.segment_max(&ids, 1).to_vec::<f64>(),
        [f64::NEG_INFINITY; 2]
    );
    let pairs = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let ids = Tensor::from([[0i64, 1], [1, 0]]);
    assert_eq!(pairs.segment_max(&ids, 2).to_vec::<f64>(), [4.0, 3.0]);
    let refused = panic_of(|| drop(pairs.segment_max(Tensor::from([0i64]), 2))).0;
    assert!(
        refused.contains("segment_max: the axes of the segments are [1]"),
        "{refused}"
    );
}

#[test]
fn counts_and_bins_are_those_of_jax() {
    let x = Tensor::from([4i32, -2, 1, 1, 9]);
    assert_eq!(x.bincount(5).to_vec::<i64>(), [1, 2, 0, 0, 1]);
    assert_eq!(x.bincount(0).shape(), [0]);
    let bins = Tensor::from([0.0f64, 1.0, 1.0, 3.0]);
    let x = Tensor::from([[-1.0f64, 0.0], [1.0, 5.0]]);
    assert_eq!(x.digitize(&bins).to_vec::<i64>(), [0, 1, 3, 4]);
}

#[test]
fn bits_of_integers_are_counted_and_shifted() {
    let x = [0i64, 1, -1, i64::MIN, i64::MAX, 0x1234_5678_9abc_def0, -77];
    let t = Tensor::from(x);
    assert_eq!(
        t.bitwise_count().to_vec::<i64>(),
        x.map(|x| i64::from(x.count_ones()))
    );
    assert_eq!(
        t.clz().to_vec::<i64>(),
        x.map(|x| i64::from(x.leading_zeros()))
    );
    let y = x.map(|x| x as i32 ^ 0x40);
    let t32 = Tensor::from(y);
    assert_eq!(
        t32.bitwise_count().to_vec::<i64>(),
        y.map(|y| i64::from(y.count_ones()))
    );
    assert_eq!(
        t32.clz().to_vec::<i64>(),
        y.map(|y| i64::from(y.leading_zeros()))
    );
    for n in [0i64, 1, 31, 63] {
        let expected = x.map(|x| ((x as u64) >> n) as i64);
        assert_eq!(t.shift_right_logical(n).to_vec::<i64>(), expected);
    }
    for n in [0i32, 5, 31] {
        let expected = y.map(|y| ((y as u32) >> n) as i32);
        assert_eq!(t32.shift_right_logical(n).to_vec::<i32>(), expected);
    }
    assert_eq!(t.shift_right_logical(64).to_vec::<i64>(), [0; 7]);
    assert_eq!(t.shift_right_logical(-1).to_vec::<i64>(), [0; 7]);
}

#[test]
fn powers_and_exponentials_of_matrices_have_their_limits() {
    let x = Tensor::from([[2.0f64, 1.0], [1.0, 1.0]]);
    assert_eq!(x.matrix_power(0).to_vec::<f64>(), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(x.matrix_power(1).to_vec::<f64>(), x.to_vec::<f64>());
    let ints = Tensor::from([[1i64, 1], [1, 0]]).matrix_power(10);
    assert_eq!(ints.to_vec::<i64>(), [89, 55, 55, 34]);
    let zeros = Tensor::zeros([3, 2, 2], DType::F64).expm();
    assert_eq!(zeros.to_vec::<f64>(), [1.0, 0.0, 0.0, 1.0].repeat(3));
    // A rotation by 1000.
    let turn = (Tensor::from([[0.0f64, -1.0], [1.0, 0.0]]) * 1000.0).expm();
    let (sin, cos) = 1000f64.sin_cos();
    for (found, expected) in turn.to_vec::<f64>().into_iter().zip([cos, -sin, sin, cos]) {
        assert!(
            (found - expected).abs() < 1e-10,
            "{found}, expected {expected}"
        );
    }
    assert!((&x * 1e7).expm().to_vec::<f64>().iter().all(|x| x.is_nan()));
    let refused = panic_of(|| drop(Tensor::zeros([2, 3], DType::F64).expm())).0;
    assert!(
        refused.contains("expm: f64[2, 3] does not consist of square matrices"),
        "{refused}"
    );
}

fn product(a: &Tensor, b: &Tensor) -> Tensor {
    a.matmul(b)
}

#[test]
fn an_associative_scan_equals_cumulative_ops_in_values_and_gradients() {
    for n in 0..18usize {
        let x = Tensor::arange(n, DType::F64).sin().unsqueeze(-1) + Tensor::from([0.5f64, 1.5]);
        let sums = associative_scan(|a: &Tensor, b: &Tensor| a + b, &x);
        check("sums", &sums, &x.cumsum(0).to_vec::<f64>());
        let loss = |x: &Tensor| {
            associative_scan(|a: &Tensor, b: &Tensor| a * b, x)
                .cos()
                .sum(..)
        };
        let expected = grad(|x: &Tensor| x.cumprod(0).cos().sum(..))(&x);
        check("products", &grad(loss)(&x), &expected.to_vec::<f64>());
        let back = AssociativeScan::new(|a: &Tensor, b: &Tensor| a + b)
            .axis(-1)
            .reverse();
        let expected = x.t().cumsum_reverse(-1);
        check("reverse", &back.call(&x.t()), &expected.to_vec::<f64>());
    }
}

#[test]
fn an_associative_scan_of_matrices_keeps_their_order() {
    let x = Tensor::arange(28, DType::F64).cos().reshape([7, 2, 2]);
    let by_hand = |x: &Tensor| {
        let mut all = vec![x.row(0)];
        for i in 1..7 {
            all.push(all[i - 1].matmul(x.row(i)));
        }
        Tensor::stack(&all, 0)
    };
    let scanned = |x: &Tensor| associative_scan(product, x);
    check("products", &scanned(&x), &by_hand(&x).to_vec::<f64>());
    let slopes = grad(|x: &Tensor| scanned(x).sin().sum(..))(&x);
    let expected = grad(|x: &Tensor| by_hand(x).sin().sum(..))(&x);
    check("slopes", &slopes, &expected.to_vec::<f64>());
    let last = AssociativeScan::new(product).reverse().call(&x);
    let from_end = associative_scan(product, &x.flip(0)).flip(0);
    check("reverse", &last, &from_end.to_vec::<f64>());
    let lanes = vmap(|x: &Tensor| associative_scan(|a: &Tensor, b: &Tensor| a * b, x));
    let rows = x.reshape([4, 7]);
    check("lanes", &lanes(&rows), &rows.cumprod(1).to_vec::<f64>());
}

#[test]
fn an_associative_scan_reports_leaves_and_results_that_do_not_fit() {
    let of = |x: &(Tensor, Tensor)| -> Result<(Tensor, Tensor)> {
        associative_scan(
            |a: &(Tensor, Tensor), _: &(Tensor, Tensor)| Ok((a.0.sum(..), a.1.clone())),
            x,
        )
    };
    let (x, y) = (Tensor::ones([3], DType::F32), Tensor::ones([2], DType::F32));
    let error = of(&(x.clone(), y))
        .expect_err("the lengths differ")
        .to_string();
    assert_eq!(
        error,
        "`associative_scan`: the numbers of turns differ: 3 in `xs.0`, 2 in `xs.1`"
    );
    let error = of(&(x.clone(), x))
        .expect_err("the shape changes")
        .to_string();
    assert!(error.contains("`xs.0`"), "{error}");
}

#[test]
fn divisors_and_multiples_are_those_of_numpy() {
    let x = Tensor::from([12i64, -18, 0, 0, i64::MIN]);
    let y = Tensor::from([8i64, 27, -5, 0, -1]);
    assert_eq!(x.gcd(&y).to_vec::<i64>(), [4, 9, 5, 0, 1]);
    assert_eq!(x.lcm(&y).to_vec::<i64>()[..4], [24, 54, 0, 0]);
    assert_eq!(Tensor::from([6i32, 4]).lcm(4).to_vec::<i32>(), [12, 4]);
}

#[test]
fn ranks_and_solutions_are_those_of_the_singular_values() {
    let x = Tensor::from([[[1.0f64, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1e-8]]]);
    assert_eq!(x.matrix_rank(1e-9).to_vec::<i64>(), [1, 2]);
    assert_eq!(x.matrix_rank(1e-7).to_vec::<i64>(), [1, 1]);
    // Of several solutions, that with the least norm.
    let solution = Tensor::from([[1.0f64, 2.0]]).lstsq(Tensor::from([5.0f64]), 1e-12);
    check("solution", &solution, &[1.0, 2.0]);
    let nan = Tensor::from([[f32::NAN, 1.0]]).pinv(1e-6).to_vec::<f32>();
    assert!(nan.iter().all(|x| x.is_nan()));
    let zeros = Tensor::zeros([2, 3], DType::F64).pinv(1e-6);
    assert_eq!(
        (zeros.shape(), zeros.to_vec::<f64>()),
        (&[3, 2][..], vec![0.0; 6])
    );
}

#[test]
fn the_logarithm_of_the_normal_distribution_is_accurate_in_both_tails() {
    // Computed by mpmath.
    let x = Tensor::from([-1e10f64, -40.0, -1.0, -0.999, 0.0, 8.0, 40.0]);
    let expected = [
        -5e+19,
        -804.6084420137538,
        -1.8410216450092636,
        -1.839496910164778,
        -std::f64::consts::LN_2,
        -6.220960574271786e-16,
        -0.0,
    ];
    for (found, expected) in x.log_ndtr().to_vec::<f64>().into_iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 1e-14 * expected.abs(),
            "{found}, expected {expected}"
        );
    }
    let slopes = grad(|x: &Tensor| x.log_ndtr().sum(..))(&x).to_vec::<f64>();
    for (found, expected) in slopes.into_iter().zip([
        10000000000.0,
        40.02496884720726,
        1.525135276160981,
        1.5243344323053472,
        0.7978845608028654,
        5.052271083536895e-15,
        0.0,
    ]) {
        assert!(
            (found - expected).abs() <= 1e-13 * expected.abs(),
            "{found}, expected {expected}"
        );
    }
    let single = x.cast(DType::F32).log_ndtr().to_vec::<f32>();
    assert_eq!(single[1], expected[1] as f32);
    let ends = Tensor::from([f64::NEG_INFINITY, f64::INFINITY]).log_ndtr();
    assert_eq!(ends.to_vec::<f64>(), [f64::NEG_INFINITY, 0.0]);
}

#[traced]
fn recurrence(a: &Tensor, b: &Tensor) -> Tensor {
    let step = |(a, b): &(Tensor, Tensor), (c, d): &(Tensor, Tensor)| (a * c, c * b + d);
    let (_, h) = associative_scan(step, &(a.clone(), b.clone()));
    h.sin()
}

#[test]
fn a_traced_function_calls_an_associative_scan() {
    let (a, b) = (
        Tensor::arange(5, DType::F64).cos(),
        Tensor::arange(5, DType::F64),
    );
    let mut h = Tensor::from(0.0f64);
    let mut all = Vec::new();
    for i in 0..5 {
        h = h * a.row(i) + b.row(i);
        all.push(h.sin());
    }
    let expected = Tensor::stack(&all, 0).to_vec::<f64>();
    check("values", &recurrence(&a, &b), &expected);
    let (y, pullback) = recurrence::vjp(&a, &b);
    let slopes = pullback(&y.ones_like()).1;
    let loss = |b: &Tensor| recurrence(&a, b).sum(..);
    check("slopes", &slopes, &grad(loss)(&b).to_vec::<f64>());
}
