//! Parts of larger models: generic activations, layers as an enum, batch norm with running state,
//! dropout, a map of adapters, an integer table, mixed dtypes, and files of weights.

use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};
use std::collections::BTreeMap;

#[traced]
trait Activation {
    fn apply(&self, x: &Tensor) -> Tensor;
}

#[derive(Clone, Tree)]
struct Tanh;

#[traced]
impl Activation for Tanh {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.tanh()
    }
}

/// `x * sigmoid(slope * x)`, with a slope that is learnt.
#[derive(Clone, Tree)]
struct Swish {
    slope: Tensor,
}

#[traced]
impl Activation for Swish {
    fn apply(&self, x: &Tensor) -> Tensor {
        x * (x * &self.slope).sigmoid()
    }
}

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Option<Tensor>,
}

#[traced]
impl Dense {
    fn new(key: Key, inputs: usize, outputs: usize, bias: bool) -> Self {
        let w = key.normal([inputs, outputs], DType::F64) / (inputs as f64).sqrt();
        let b = bias.then(|| Tensor::zeros([outputs], DType::F64));
        Dense { w, b }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.w);
        match &self.b {
            Some(b) => y + b,
            None => y,
        }
    }
}

#[derive(Clone, Tree)]
struct BatchNorm {
    scale: Tensor,
    shift: Tensor,
}

#[derive(Clone, Tree)]
struct Running {
    mean: Tensor,
    var: Tensor,
    /// The number of batches, an integer.
    count: Tensor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Train,
    Eval,
}

const EPS: f64 = 1e-5;

#[traced]
impl BatchNorm {
    fn new(width: usize) -> (Self, Running) {
        let (zeros, ones) = (
            Tensor::zeros([width], DType::F64),
            Tensor::ones([width], DType::F64),
        );
        let norm = BatchNorm {
            scale: ones.clone(),
            shift: zeros.clone(),
        };
        (
            norm,
            Running {
                mean: zeros,
                var: ones,
                count: Tensor::scalar(0i64),
            },
        )
    }

    fn forward(
        &self,
        x: &Tensor,
        #[nodiff] running: &Running,
        #[fixed] mode: Mode,
    ) -> (Tensor, Running) {
        let (mean, var, running) = match mode {
            Mode::Eval => (running.mean.clone(), running.var.clone(), running.clone()),
            Mode::Train => {
                let mean = x.mean(0);
                let var = (x - &mean).square().mean(0);
                let running = Running {
                    mean: &running.mean * 0.9 + mean.stop_gradient() * 0.1,
                    var: &running.var * 0.9 + var.stop_gradient() * 0.1,
                    count: &running.count + 1,
                };
                (mean, var, running)
            }
        };
        let y = (x - mean) / (var + EPS).sqrt() * &self.scale + &self.shift;
        (y, running)
    }
}

#[traced]
fn dropout(x: &Tensor, p: f64, key: Option<Key>) -> Tensor {
    let Some(key) = key else { return x.clone() };
    key.bernoulli(1.0 - p, x.shape())
        .select(&(x / (1.0 - p)), 0.0)
}

/// A layer of the body. A residual branch holds layers again.
#[derive(Clone, Tree)]
enum Layer<A> {
    Dense(Dense),
    Act(A),
    Dropout {
        #[tree(skip)]
        p: f64,
    },
    Residual(Vec<Dense>),
}

#[derive(Clone, Tree)]
struct Net<A> {
    /// The row of the embedding for each word.
    #[tree(skip)]
    buckets: Vec<i64>,
    embed: Tensor,
    groups: Vec<Vec<Layer<A>>>,
    norm: BatchNorm,
    adapters: BTreeMap<String, Tensor>,
    head: Dense,
}

#[traced]
impl<A: Activation + Tree> Layer<A> {
    fn forward(&self, x: &Tensor, key: Option<Key>) -> Tensor {
        match self {
            Layer::Dense(dense) => dense.forward(x),
            Layer::Act(activation) => activation.apply(x),
            Layer::Dropout { p } => dropout(x, *p, key),
            Layer::Residual(layers) => {
                x + layers
                    .iter()
                    .fold(x.clone(), |h, layer| layer.forward(&h).softplus())
            }
        }
    }
}

#[traced]
impl<A: Activation + Tree> Net<A> {
    fn new(key: Key, activation: A) -> (Self, Running) {
        let [a, b, c, d, e] = key.split_n();
        let (norm, running) = BatchNorm::new(WIDTH);
        let net = Net {
            buckets: vec![0, 0, 1, 1, 2],
            embed: a.normal([3, WIDTH], DType::F64),
            groups: vec![
                vec![
                    Layer::Dense(Dense::new(b, WIDTH, WIDTH, true)),
                    Layer::Act(activation),
                ],
                vec![
                    Layer::Dropout { p: 0.25 },
                    Layer::Residual(vec![
                        Dense::new(c, WIDTH, WIDTH, false),
                        Dense::new(d, WIDTH, WIDTH, true),
                    ]),
                ],
            ],
            norm,
            adapters: BTreeMap::from([
                ("add.shift".to_owned(), noise(&[WIDTH], 1)),
                ("mul.scale".to_owned(), noise(&[WIDTH], 2) + 1.0),
            ]),
            head: Dense::new(e, WIDTH, 2, false),
        };
        (net, running)
    }

    fn logits(
        &self,
        ids: &Tensor,
        #[nodiff] running: &Running,
        key: Option<Key>,
        #[fixed] mode: Mode,
    ) -> (Tensor, Running) {
        // The weights are f64, the embedding is looked up in f32.
        let table = Tensor::from(self.buckets.clone()).one_hot(3, DType::F32);
        let words = ids.one_hot(self.buckets.len(), DType::F32);
        let mut x = words
            .matmul(&table)
            .cast(self.embed.dtype())
            .matmul(&self.embed);
        let mut keys = key.map(|key| key.split_many(self.groups.len()));
        for group in &self.groups {
            let mut key = keys.as_mut().and_then(|keys| keys.pop());
            for layer in group {
                x = layer.forward(&x, key.take());
            }
        }
        let (mut x, running) = self.norm.forward(&x, running, mode);
        for (name, adapter) in &self.adapters {
            x = if name.starts_with("add") {
                x + adapter
            } else {
                x * adapter
            };
        }
        (self.head.forward(&x), running)
    }

    fn loss(
        &self,
        #[nodiff] ids: &Tensor,
        #[nodiff] labels: &Tensor,
        #[nodiff] running: &Running,
        key: Option<Key>,
    ) -> (Tensor, Running) {
        let (logits, running) = self.logits(ids, running, key, Mode::Train);
        (logits.cross_entropy(labels), running)
    }
}

/// Writes the leaves of a tree: the path, the shape, and the elements.
fn save(model: &impl Tree) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, leaf) in tree::leaves_with_paths(model) {
        let shape: Vec<String> = leaf.shape().iter().map(usize::to_string).collect();
        out.extend(format!("{path} {}\n", shape.join(",")).bytes());
        out.extend(leaf.to_vec::<f64>().iter().flat_map(|x| x.to_le_bytes()));
    }
    out
}

/// Reads what `save` has written into a model of the same structure.
fn load<T: Tree>(model: &T, mut bytes: &[u8]) -> T {
    let mut paths = tree::leaves_with_paths(model).into_iter();
    model.map(&mut |leaf| {
        let (path, _) = paths.next().unwrap();
        let end = bytes.iter().position(|b| *b == b'\n').unwrap();
        let line = std::str::from_utf8(&bytes[..end]).unwrap();
        let (name, shape) = line.rsplit_once(' ').unwrap();
        assert_eq!(name, path);
        let shape: Vec<usize> = shape
            .split(',')
            .filter(|n| !n.is_empty())
            .map(|n| n.parse().unwrap())
            .collect();
        assert_eq!(shape, leaf.shape());
        let (data, rest) = bytes[end + 1..].split_at(8 * leaf.numel());
        bytes = rest;
        let data = data
            .chunks(8)
            .map(|x| f64::from_le_bytes(x.try_into().unwrap()));
        Tensor::from_vec(data.collect::<Vec<f64>>(), shape)
    })
}

const WIDTH: usize = 3;

fn data() -> (Tensor, Tensor) {
    (
        Tensor::from([0i64, 1, 2, 3, 4, 2]),
        Tensor::from([0i64, 0, 1, 1, 0, 1]),
    )
}

fn swish() -> Swish {
    Swish {
        slope: Tensor::scalar(1.3),
    }
}

fn check_derivative<A: Activation + Tree>(activation: A) {
    let (ids, labels) = data();
    let (net, running) = Net::new(Key::new(6), activation);
    let key = || Some(Key::new(8));
    let no_change = tree::scale(
        &Running {
            count: Tensor::scalar(0.0),
            ..running.clone()
        },
        0.0,
    );
    Companions {
        call: &|net: &Net<A>| net.loss(&ids, &labels, &running, key()).0,
        vjp: &|net, ct| {
            let ((loss, state), pullback) = net.loss_vjp(&ids, &labels, &running, key());
            let no_change = Running {
                count: state.count,
                ..no_change.clone()
            };
            (loss, pullback(&(ct.clone(), no_change)))
        },
        jvp: &|net, dnet| {
            let ((loss, _), (change, _)) = net.loss_jvp((&ids, &labels, &running, key()), dnet);
            (loss, change)
        },
    }
    .check(&net);
}

#[test]
fn derivatives_with_either_activation_are_right() {
    check_derivative(Tanh);
    check_derivative(swish());
}

/// Computes the logits without dropout, in plain loops.
fn logits_by_loops(net: &Net<Swish>, ids: &[i64]) -> Vec<f64> {
    let dense = |layer: &Dense, x: &[f64]| -> Vec<f64> {
        let w = entries(&layer.w);
        let outputs = layer.w.dim(1);
        let b = layer.b.as_ref().map_or(vec![0.0; outputs], entries);
        (0..outputs)
            .map(|j| (0..x.len()).map(|i| x[i] * w[i * outputs + j]).sum::<f64>() + b[j])
            .collect()
    };
    let Layer::Dense(first) = &net.groups[0][0] else {
        unreachable!()
    };
    let Layer::Residual(branch) = &net.groups[1][1] else {
        unreachable!()
    };
    let embed = entries(&net.embed);
    let (shift, scale) = (
        entries(&net.adapters["add.shift"]),
        entries(&net.adapters["mul.scale"]),
    );
    let row = |id: &i64| {
        let bucket = net.buckets[*id as usize] as usize;
        let x = dense(first, &embed[bucket * WIDTH..(bucket + 1) * WIDTH]);
        let x: Vec<f64> = x.iter().map(|x| x / (1.0 + (-1.3 * x).exp())).collect();
        let h = branch.iter().fold(x.clone(), |h, layer| {
            dense(layer, &h)
                .into_iter()
                .map(|x| x.exp().ln_1p())
                .collect()
        });
        // The running mean is 0, the running variance 1.
        let x: Vec<f64> = (0..WIDTH)
            .map(|i| ((x[i] + h[i]) / (1.0 + EPS).sqrt() + shift[i]) * scale[i])
            .collect();
        dense(&net.head, &x)
    };
    ids.iter().flat_map(row).collect()
}

#[test]
fn logits_are_those_of_plain_loops() {
    let (net, running) = Net::new(Key::new(6), swish());
    let ids = data().0;
    let (found, same) = net.logits(&ids, &running, None, Mode::Eval);
    near(
        "the logits",
        &entries(&found),
        &logits_by_loops(&net, &ids.to_vec()),
        1e-12,
    )
    .unwrap();
    assert_eq!(entries(&same.mean), [0.0; WIDTH]);
    assert_eq!(same.count.item::<i64>(), 0);
}

#[test]
fn dropout_keeps_the_mean() {
    let x = Tensor::ones([40, 50], DType::F64);
    let y = entries(&dropout(&x, 0.25, Some(Key::new(0))));
    assert!(y.iter().all(|y| *y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-15));
    let mean = y.iter().sum::<f64>() / 2000.0;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    assert_eq!(entries(&dropout(&x, 0.25, None)), entries(&x));
}

#[test]
fn a_saved_model_loads_with_the_same_bits() {
    let (net, running) = Net::new(Key::new(6), swish());
    let (other, _) = Net::new(Key::new(7), swish());
    let loaded = load(&other, &save(&net));
    let bits = |net: &Net<Swish>| {
        entries(&net.logits(&data().0, &running, None, Mode::Eval).0)
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(&loaded), bits(&net));
    assert_ne!(bits(&other), bits(&net));
}

#[test]
fn training_makes_the_loss_smaller_and_a_step_plans_nothing() {
    let (ids, labels) = data();
    let adam = gradloom::optim::Adam {
        lr: 0.05,
        ..Default::default()
    };
    let (mut net, mut running) = Net::new(Key::new(6), swish());
    let mut state = adam.init(&net);
    let mut losses = Vec::new();
    for (i, key) in Key::new(3).split_many(40).into_iter().enumerate() {
        let step = || {
            let ((loss, next), pullback) = net.loss_vjp(&ids, &labels, &running, Some(key));
            let no_change = next.map(&mut |leaf| leaf.zeros_like());
            let grads = pullback(&(loss.ones_like(), no_change));
            (net, state) = adam.step(&net, &grads, &state);
            running = next;
            losses.push(loss.item::<f64>());
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert_eq!(running.count.item::<i64>(), 40);
    assert!(losses[39] < 0.5 * losses[0], "{losses:?}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(dropout::RECORDED, None);
    assert_eq!(Dense::FORWARD_RECORDED, None);
    assert_eq!(BatchNorm::FORWARD_RECORDED, None);
    assert_eq!(Net::<Swish>::LOGITS_RECORDED, None);
    assert_eq!(Net::<Swish>::LOSS_RECORDED, None);
    let (net, running) = Net::new(Key::new(6), swish());
    let (ids, labels) = data();
    finds(|| net.logits(&ids, &running, None, Mode::Eval));
    finds(|| net.loss(&ids, &labels, &running, Some(Key::new(1))));
}
