//! A convolutional network, with convolutions as products of patches.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

/// Returns the patches of images `[n, c, h, w]` as `[n, c * size * size, positions]`.
#[traced]
fn im2col(x: &Tensor, size: usize) -> Tensor {
    let (n, c, h, w) = (x.dim(0), x.dim(1), x.dim(2), x.dim(3));
    let (oh, ow) = (h - size + 1, w - size + 1);
    let mut patches = Vec::new();
    for i in 0..size {
        for j in 0..size {
            patches.push(x.slice([0, 0, i, j], [n, c, i + oh, j + ow], [1, 1, 1, 1]));
        }
    }
    Tensor::stack(&patches, 2).reshape([n, c * size * size, oh * ow])
}

#[traced]
fn max_pool(x: &Tensor) -> Tensor {
    let (n, c, h, w) = (x.dim(0), x.dim(1), x.dim(2), x.dim(3));
    x.reshape([n, c, h / 2, 2, w / 2, 2]).max([3, 5])
}

/// Adds a border of zeros.
#[traced]
fn pad(x: &Tensor, by: usize) -> Tensor {
    let mut x = x.clone();
    for axis in [2, 3] {
        let mut shape = x.shape().to_vec();
        shape[axis] = by;
        let border = Tensor::zeros(shape, x.dtype());
        x = Tensor::concat(&[&border, &x, &border], axis);
    }
    x
}

#[derive(Clone, Tree)]
struct Conv {
    w: Tensor,
    b: Tensor,
    #[tree(skip)]
    size: usize,
}

#[traced]
impl Conv {
    fn new(key: Key, inputs: usize, outputs: usize, size: usize) -> Self {
        let fan_in = inputs * size * size;
        Conv {
            w: key.normal([outputs, fan_in], DType::F64) * (2.0 / fan_in as f64).sqrt(),
            b: Tensor::zeros([outputs], DType::F64),
            size,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = pad(x, self.size / 2);
        let y = self.w.matmul(&im2col(&x, self.size)) + self.b.unsqueeze(-1);
        let (h, w) = (x.dim(2) - self.size + 1, x.dim(3) - self.size + 1);
        y.reshape([x.dim(0), self.w.dim(0), h, w])
    }
}

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Dense {
    fn new(key: Key, inputs: usize, outputs: usize) -> Self {
        Dense {
            w: key.normal([inputs, outputs], DType::F64) / (inputs as f64).sqrt(),
            b: Tensor::zeros([outputs], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
struct Cnn {
    convs: Vec<Conv>,
    head: Dense,
}

#[traced]
impl Cnn {
    fn new(key: Key, channels: &[usize], pixels: usize, classes: usize) -> Self {
        let (convs, head) = key.split();
        let keys = convs.split_many(channels.len() - 1);
        let convs: Vec<Conv> = keys
            .into_iter()
            .zip(channels.windows(2))
            .map(|(key, pair)| Conv::new(key, pair[0], pair[1], 3))
            .collect();
        let left = pixels >> convs.len();
        let features = channels.last().unwrap() * left * left;
        Cnn {
            convs,
            head: Dense::new(head, features, classes),
        }
    }

    fn logits(&self, images: &Tensor) -> Tensor {
        let mut x = images.clone();
        for conv in &self.convs {
            x = max_pool(&conv.forward(&x).relu());
        }
        self.head.forward(&x.reshape((x.dim(0), -1)))
    }

    fn loss(&self, #[nodiff] images: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
        self.logits(images).cross_entropy(labels)
    }

    fn accuracy(&self, images: &Tensor, labels: &Tensor) -> Tensor {
        self.logits(images)
            .argmax(-1)
            .eq(labels)
            .cast(DType::F64)
            .mean(..)
    }
}

const PIXELS: usize = 8;

/// Returns images of a horizontal or a vertical bar with noise, and their labels.
fn images(count: usize, seed: u64) -> (Tensor, Tensor) {
    let mut pixels = entries(&(noise(&[count, PIXELS, PIXELS], seed) * 0.3));
    let mut labels = Vec::new();
    for (n, image) in pixels.chunks_mut(PIXELS * PIXELS).enumerate() {
        let (label, at) = ((n % 2) as i64, (n / 2 * 3 + seed as usize) % PIXELS);
        for i in 0..PIXELS {
            image[if label == 0 {
                at * PIXELS + i
            } else {
                i * PIXELS + at
            }] += 1.0;
        }
        labels.push(label);
    }
    (
        Tensor::from_vec(pixels, [count, 1, PIXELS, PIXELS]),
        Tensor::from(labels),
    )
}

fn cnn() -> Cnn {
    let cnn = Cnn::new(Key::new(4), &[1, 3, 4], PIXELS, 2);
    evaluate(&cnn).unwrap();
    cnn
}

#[test]
fn a_convolution_is_that_of_plain_loops() {
    const N: usize = 2;
    const C: usize = 2;
    const H: usize = 4;
    const W: usize = 5;
    const O: usize = 3;
    let conv = Conv {
        b: noise(&[O], 3),
        ..Conv::new(Key::new(1), C, O, 3)
    };
    let x = noise(&[N, C, H, W], 2);
    let (w, b, xs) = (entries(&conv.w), entries(&conv.b), entries(&x));
    let pixel = |n: usize, c: usize, i: usize, j: usize| -> f64 {
        let inside = (1..=H).contains(&i) && (1..=W).contains(&j);
        if inside {
            xs[((n * C + c) * H + i - 1) * W + j - 1]
        } else {
            0.0
        }
    };
    let mut expected = Vec::new();
    for n in 0..N {
        for o in 0..O {
            for (i, j) in (0..H).flat_map(|i| (0..W).map(move |j| (i, j))) {
                let mut sum = b[o];
                for c in 0..C {
                    for k in 0..9 {
                        sum += w[(o * C + c) * 9 + k] * pixel(n, c, i + k / 3, j + k % 3);
                    }
                }
                expected.push(sum);
            }
        }
    }
    let found = conv.forward(&x);
    assert_eq!(found.shape(), [N, O, H, W]);
    near("the convolution", &entries(&found), &expected, 1e-13).unwrap();
}

#[test]
fn pooling_takes_the_largest_of_four() {
    let x = Tensor::arange(16, DType::F64).reshape([1, 1, 4, 4]);
    assert_eq!(entries(&max_pool(&x)), [5.0, 7.0, 13.0, 15.0]);
}

#[test]
fn the_derivative_of_the_loss_is_right() {
    let (x, labels) = images(3, 1);
    Companions {
        call: &|cnn: &Cnn| cnn.loss(&x, &labels),
        vjp: &|cnn, ct| {
            let (y, pullback) = cnn.loss_vjp(&x, &labels);
            (y, pullback(ct))
        },
        jvp: &|cnn, dcnn| cnn.loss_jvp((&x, &labels), dcnn),
    }
    .check(&cnn());
}

#[test]
fn training_tells_the_bars_apart_and_a_step_plans_nothing() {
    let (x, labels) = images(16, 1);
    let adam = Adam {
        lr: 0.02,
        ..Adam::default()
    };
    let mut cnn = cnn();
    let mut state = adam.init(&cnn);
    for i in 0..25 {
        let mut step = || {
            let (loss, grads) = cnn.loss_value_and_grad(&x, &labels);
            (cnn, state) = adam.step(&cnn, &grads.this, &state);
            loss.item::<f64>();
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    let (x, labels) = images(24, 2);
    let accuracy = cnn.accuracy(&x, &labels).item::<f64>();
    assert!(accuracy > 0.9, "{accuracy}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(im2col::RECORDED, None);
    assert_eq!(pad::RECORDED, None);
    assert_eq!(Conv::FORWARD_RECORDED, None);
    assert_eq!(Cnn::LOSS_RECORDED, None);
    assert_eq!(Cnn::ACCURACY_RECORDED, None);
    let (cnn, (x, labels)) = (cnn(), images(4, 1));
    finds(|| cnn.logits(&x));
    finds(|| cnn.accuracy(&x, &labels));
    finds(|| cnn.loss_grad(&x, &labels).this);
}
