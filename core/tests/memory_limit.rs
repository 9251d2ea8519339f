//! Plans under a memory limit. The limit is one of the process, so this file has only one test.

use gradloom::prelude::*;
use gradloom::{explain, set_memory_limit, value_and_grad};

/// A function of an input and the weights of layers.
type Function = fn(&(Tensor, Vec<Tensor>)) -> Tensor;

/// Returns a matrix of small numbers.
fn matrix(seed: u64, shape: [usize; 2]) -> Tensor {
    Key::new(seed).normal(shape, DType::F32) * 0.1
}

/// A network of affine maps with norms, whose backward pass reads a value of each layer.
fn network((x, layers): &(Tensor, Vec<Tensor>)) -> Tensor {
    let layer = |h: Tensor, w: &Tensor| {
        let y = h.matmul(w);
        let centred = &y - y.mean_keepdims(-1);
        let scale = (centred.square().mean_keepdims(-1) + 1e-5).rsqrt();
        (centred * scale).gelu() + h
    };
    layers.iter().fold(x.clone(), layer).square().mean(..)
}

/// Values of the way down are read on the way up.
fn skips((x, layers): &(Tensor, Vec<Tensor>)) -> Tensor {
    let mut h = x.clone();
    let mut left = Vec::new();
    for w in layers {
        h = h.matmul(w).tanh();
        left.push(h.clone());
    }
    for (w, other) in layers.iter().zip(left.iter().rev()) {
        h = (h.matmul(w.t()) + other).sigmoid();
    }
    h.exp().sum(..)
}

/// Views, sorts, random numbers, softmax and slices.
fn mixed((x, layers): &(Tensor, Vec<Tensor>)) -> Tensor {
    let mut h = x.clone();
    for (i, w) in layers.iter().enumerate() {
        let noise = Key::new(i as u64).uniform(h.shape(), DType::F32);
        let shares = (h.matmul(w).t() * 2.0).softmax(0).t();
        let sorted = shares.i((.., ..32)).sort(-1);
        h = Tensor::concat(&[&sorted, &shares.i((.., 32..))], 1) + noise * &h;
    }
    h.cumsum(1).max(0).sum(..)
}

/// Returns the bytes that a plan holds, by its description.
fn held(text: &str) -> f64 {
    let size = |text: &str| -> f64 {
        let mut words = text.split_whitespace();
        let number: f64 = words.next().unwrap().parse().unwrap();
        match words.next().unwrap().trim_end_matches([',', ';', ':']) {
            "KiB" => number * 1024.0,
            "MiB" => number * 1_048_576.0,
            _ => number,
        }
    };
    let after = |mark: &str| text.split_once(mark).map(|(_, rest)| size(rest));
    match text.split_once("memory limit ") {
        Some((_, rest)) => size(rest.split_once(": ").unwrap().1),
        None => after("results ").unwrap() + after("in an arena of ").unwrap(),
    }
}

#[test]
fn a_limit_changes_the_memory_of_a_plan_and_no_bit_of_its_results() {
    let layers = (0..12).map(|i| matrix(i, [64, 64])).collect::<Vec<_>>();
    let args = (matrix(99, [512, 64]), layers);
    let functions: [(&str, Function); 3] =
        [("network", network), ("skips", skips), ("mixed", mixed)];
    for (name, f) in functions {
        let call = || value_and_grad(f)(&args);
        let bits = |(loss, (x, layers)): &(Tensor, (Tensor, Vec<Tensor>))| {
            let all = [loss, x].into_iter().chain(layers);
            all.flat_map(|t| t.to_vec::<f32>())
                .map(f32::to_bits)
                .collect::<Vec<_>>()
        };
        let expected = bits(&call());
        // A limit that is not reached: a long chain is one plan with any limit.
        set_memory_limit(Some(1 << 40));
        let free = call();
        let text = explain(&free).to_string();
        let most = held(&text);
        assert!(!text.contains("memory limit"), "{name}: {text}");
        assert!(bits(&free) == expected, "{name}: other bits");
        let mut before = most;
        for share in [0.8, 0.6, 0.5, 0.4] {
            let limit = (most * share) as usize;
            set_memory_limit(Some(limit));
            let found = call();
            let text = explain(&found).to_string();
            assert!(text.contains("computed again"), "{name}, {share}: {text}");
            let now = held(&text);
            println!(
                "{name}: {share} of {most}: {:.2}; {}",
                now / most,
                text.lines().nth(1).unwrap()
            );
            assert!(
                text.contains("out of reach") == (now > limit as f64 * 1.01),
                "{text}"
            );
            assert!(now <= before, "{name}, {share}: {now} after {before}");
            before = now;
            assert!(bits(&found) == expected, "{name}, {share}: other bits");
            // The plan is found again.
            assert!(bits(&call()) == expected);
        }
        assert!(before <= most * 0.6, "{name}: {before} of {most}");
        set_memory_limit(None);
        assert!(!explain(&call()).to_string().contains("memory limit"));
    }
    // The terms of this gradient are added at the end, so all are held.
    let repeated = |x: &Tensor| (0..16).fold(x.clone(), |h, _| h.matmul(x).tanh()).sum(..);
    set_memory_limit(Some(1));
    let text = explain(&gradloom::grad(repeated)(&matrix(0, [64, 64]))).to_string();
    assert!(
        text.contains("memory limit 1 B, which is out of reach"),
        "{text}"
    );
    set_memory_limit(None);
}
