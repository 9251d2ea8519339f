//! Reference values from JAX 0.10.2 on the CPU with `jax_enable_x64`.
//!
//! They are from `jax.random.PRNGKey(seed)`, then `bits`, `split`, `fold_in`, `uniform`, `normal`,
//! `bernoulli(key, np.float32(0.3), (12,))` and `permutation(key, n)`. The value for a 64-bit
//! counter is from `jax.extend.random.threefry_2x32`.

use super::Key;
use gradloom_ir::DType;
use gradloom_kernels::random::threefry;

struct KnownValues {
    seed: u64,
    bits32: [u32; 6],
    bits64: [u64; 3],
    split: [[u32; 2]; 3],
    fold_in_7: [u32; 2],
    uniform32: [u32; 5],
    uniform64: [u64; 3],
    normal32: [f32; 6],
    normal64: [f64; 4],
    flips: [u8; 12],
    order_10: [i64; 10],
    /// First elements of a permutation of 1,797, and the sum of `i * order[i]`.
    order_1797: ([i64; 6], i64),
}

const KNOWN: [KnownValues; 3] = [
    KnownValues {
        seed: 0,
        bits32: [
            4070199207, 4202968722, 1427181096, 2012915765, 2447653815, 710830403,
        ],
        bits64: [
            7719171245655871230,
            3989946895414531357,
            17807037942121513089,
        ],
        split: [
            [1797259609, 2579123966],
            [928981903, 3453687069],
            [4146024105, 2718843009],
        ],
        fold_in_7: [2716826189, 292468403],
        uniform32: [0x3f729a4e, 0x3f7a8436, 0x3eaa221c, 0x3eeff550, 0x3f11e43a],
        uniform64: [0x3fdac80056666e90, 0x3fcbaf91c7e6ed88, 0x3feee3e9d53441c8],
        normal32: [
            1.6226422,
            2.0252647,
            -0.43359444,
            -0.07861735,
            0.1760909,
            -0.972_089_23,
        ],
        normal64: [
            -0.2058421394796434,
            -0.7847657764467411,
            1.8160866726679836,
            0.1878440128937887,
        ],
        flips: [0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1],
        order_10: [0, 1, 8, 5, 6, 4, 3, 2, 7, 9],
        order_1797: ([577, 1385, 940, 1302, 716, 992], 1442675543),
    },
    KnownValues {
        seed: 42,
        bits32: [
            2098992034, 2919706841, 2646866425, 2409546199, 1935504149, 2516274904,
        ],
        bits64: [
            7871734211187709741,
            276886910877598708,
            10591095138341673235,
        ],
        split: [
            [1832780943, 270669613],
            [64467757, 2916123636],
            [2465931498, 255383827],
        ],
        fold_in_7: [2547012911, 1371500959],
        uniform32: [0x3efa3824, 0x3f2e0730, 0x3f1dc3f8, 0x3f0f9ec0, 0x3ee6bae4],
        uniform64: [0x3fdb4f8123c40884, 0x3f8ebd996d6e8400, 0x3fe25f641d41e71a],
        normal32: [
            -0.028304616,
            0.46713185,
            0.29570296,
            0.15354592,
            -0.12403282,
            0.21692315,
        ],
        normal64: [
            -0.18471174528191162,
            -2.169824560397754,
            0.18693555179382582,
            0.6122653570510959,
        ],
        flips: [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
        order_10: [7, 4, 2, 5, 3, 6, 8, 9, 0, 1],
        order_1797: ([1212, 684, 1208, 1427, 406, 1698], 1458789049),
    },
    KnownValues {
        seed: 0xDEAD_BEEF_1234_5678,
        bits32: [
            770492398, 3389375180, 2038293921, 2038975802, 2788790137, 2377837273,
        ],
        bits64: [
            16751531476114580209,
            5691494159546449156,
            7996230895017505795,
        ],
        split: [
            [3900269855, 3314918129],
            [1325154248, 2230975748],
            [1861767586, 394638339],
        ],
        fold_in_7: [1444719153, 1094698322],
        uniform32: [0x3e37b318, 0x3f4a05c2, 0x3ef2fbc8, 0x3ef31098, 0x3f26398e],
        uniform64: [0x3fed0f2ca3f8b2b4, 0x3fd3bf0ff2213e7c, 0x3fdbbe146885e16c],
        normal32: [
            -0.91767627,
            0.8034767,
            -0.06376865,
            -0.06336983,
            0.3834738,
            0.13484645,
        ],
        normal64: [
            1.3291596074956205,
            -0.5000029031637316,
            -0.16752994113167702,
            0.9490297186294403,
        ],
        flips: [1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1],
        order_10: [7, 3, 2, 9, 5, 6, 4, 0, 8, 1],
        order_1797: ([1211, 14, 1035, 1086, 1652, 990], 1442821367),
    },
];

#[test]
fn bits_equal_those_of_jax() {
    for k in KNOWN {
        let words: Vec<i64> = k.bits32.iter().map(|&b| i64::from(b)).collect();
        assert_eq!(Key::new(k.seed).bits([6]).to_vec::<i64>(), words);
        assert_eq!(Key::new(k.seed).bits([2, 3]).to_vec::<i64>(), words);
        let key = threefry::seed(k.seed);
        assert_eq!([0, 1, 2].map(|i| threefry::bits64(key, i)), k.bits64);
    }
}

#[test]
fn split_keys_equal_those_of_jax() {
    for k in KNOWN {
        let (a, b) = Key::new(k.seed).split();
        assert_eq!([a.into_words(), b.into_words()], k.split[..2]);
        let keys: [Key; 3] = Key::new(k.seed).split_n();
        assert_eq!(keys.map(Key::into_words), k.split);
        let keys = Key::new(k.seed).split_many(3);
        assert!(keys.into_iter().map(Key::into_words).eq(k.split));
        assert_eq!(Key::new(k.seed).fold_in(7).into_words(), k.fold_in_7);
    }
}

#[test]
fn uniform_numbers_equal_those_of_jax() {
    for k in KNOWN {
        let x = Key::new(k.seed).uniform([5], DType::F32).to_vec::<f32>();
        assert_eq!(
            x.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            k.uniform32
        );
        let x = Key::new(k.seed).uniform([3], DType::F64).to_vec::<f64>();
        assert_eq!(
            x.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            k.uniform64
        );
    }
}

#[test]
fn normal_numbers_equal_those_of_jax_up_to_rounding() {
    for k in KNOWN {
        let x = Key::new(k.seed).normal([6], DType::F32).to_vec::<f32>();
        for (x, want) in x.iter().zip(k.normal32) {
            assert!(
                x.to_bits().abs_diff(want.to_bits()) <= 3,
                "{x} is not {want}"
            );
        }
        let x = Key::new(k.seed).normal([4], DType::F64).to_vec::<f64>();
        for (x, want) in x.iter().zip(k.normal64) {
            assert!((x - want).abs() <= 5e-15 * want.abs(), "{x} is not {want}");
        }
    }
}

#[test]
fn normal_numbers_have_the_moments_and_tails_of_the_distribution() {
    // The extremes of a million numbers and their positions are from JAX.
    let x = Key::new(1).normal([1000, 1000], DType::F32).to_vec::<f32>();
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e6;
    let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e6;
    assert!((mean - 0.000_689_806).abs() < 1e-7, "{mean}");
    assert!(
        ((square - mean * mean).sqrt() - 0.999_640_95).abs() < 1e-7,
        "{square}"
    );
    assert!((x[409_836] - -4.733_631_6).abs() < 2e-6, "{}", x[409_836]);
    assert!((x[745_684] - 4.797_158).abs() < 2e-6, "{}", x[745_684]);
}

#[test]
fn coin_flips_equal_those_of_jax() {
    for k in KNOWN {
        let x = Key::new(k.seed).bernoulli(0.3, [12]).to_vec::<bool>();
        assert!(x.into_iter().map(u8::from).eq(k.flips));
    }
    assert!(
        !Key::new(0)
            .bernoulli(0.0, [100])
            .to_vec::<bool>()
            .contains(&true)
    );
    assert!(
        !Key::new(0)
            .bernoulli(1.0, [100])
            .to_vec::<bool>()
            .contains(&false)
    );
}

#[test]
fn permutations_equal_those_of_jax() {
    for k in KNOWN {
        assert_eq!(Key::new(k.seed).permutation(10).to_vec::<i64>(), k.order_10);
        let order = Key::new(k.seed).permutation(1797).to_vec::<i64>();
        assert_eq!(order[..6], k.order_1797.0);
        let sum: i64 = order.iter().zip(0..).map(|(&x, i)| x * i).sum();
        assert_eq!(sum, k.order_1797.1);
    }
    assert_eq!(Key::new(0).permutation(0).to_vec::<i64>(), [0i64; 0]);
    assert_eq!(Key::new(0).permutation(1).to_vec::<i64>(), [0]);
}

#[test]
fn counters_have_64_bits() {
    let [x, y] = [2575172198, 1223413151];
    assert_eq!(threefry::hash([0, 42], [1, 5]), [x, y]);
    assert_eq!(threefry::bits32([0, 42], (1 << 32) + 5), x ^ y);
}

#[test]
#[should_panic(expected = "uniform: the dtype is i32, expected `f32` or `f64`")]
fn drawing_uniform_integers_names_the_dtype() {
    Key::new(0).uniform([2], DType::I32);
}
