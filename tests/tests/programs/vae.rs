//! A variational autoencoder, whose traced methods take the random key.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Dense {
    fn new(key: Key, inputs: usize, outputs: usize) -> Self {
        let scale = (1.0 / inputs as f64).sqrt();
        Self {
            w: key.normal([inputs, outputs], DType::F64) * scale,
            b: Tensor::zeros([outputs], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
struct Vae {
    encoder: Vec<Dense>,
    mean: Dense,
    log_var: Dense,
    decoder: Vec<Dense>,
}

#[derive(Clone, Tree)]
struct Output {
    logits: Tensor,
    mean: Tensor,
    log_var: Tensor,
}

/// The parts of the loss.
#[derive(Clone, Tree)]
struct Elbo {
    reconstruction: Tensor,
    divergence: Tensor,
}

#[traced]
impl Vae {
    fn new(key: Key, pixels: usize, hidden: usize, latent: usize) -> Self {
        let [a, b, c, d, e] = key.split_n();
        Vae {
            encoder: vec![Dense::new(a, pixels, hidden)],
            mean: Dense::new(b, hidden, latent),
            log_var: Dense::new(c, hidden, latent),
            decoder: vec![Dense::new(d, latent, hidden), Dense::new(e, hidden, pixels)],
        }
    }

    fn encode(&self, x: &Tensor) -> (Tensor, Tensor) {
        let mut h = x.clone();
        for layer in &self.encoder {
            h = layer.forward(&h).tanh();
        }
        (self.mean.forward(&h), self.log_var.forward(&h))
    }

    fn decode(&self, z: &Tensor) -> Tensor {
        let (last, layers) = self.decoder.split_last().unwrap();
        let h = layers
            .iter()
            .fold(z.clone(), |h, layer| layer.forward(&h).tanh());
        last.forward(&h)
    }

    fn forward(&self, x: &Tensor, key: Key) -> Output {
        let (mean, log_var) = self.encode(x);
        let noise = key.normal(mean.shape(), mean.dtype());
        let z = &mean + (&log_var * 0.5).exp() * noise;
        Output {
            logits: self.decode(&z),
            mean,
            log_var,
        }
    }

    fn elbo(&self, x: &Tensor, key: Key) -> Elbo {
        let Output {
            logits,
            mean,
            log_var,
        } = self.forward(x, key);
        let reconstruction = (logits.softplus() - x * &logits).sum(-1);
        let divergence = (mean.square() + log_var.exp() - 1.0 - log_var).sum(-1) * 0.5;
        Elbo {
            reconstruction: reconstruction.mean(..),
            divergence: divergence.mean(..),
        }
    }

    fn loss(&self, #[nodiff] x: &Tensor, key: Key) -> Tensor {
        let elbo = self.elbo(x, key);
        elbo.reconstruction + elbo.divergence
    }

    fn sample(&self, key: Key, count: usize) -> Tensor {
        let z = key.normal([count, self.mean.b.dim(0)], DType::F64);
        self.decode(&z).sigmoid()
    }
}

const PIXELS: usize = 8;

/// Returns images of 8 pixels: one half is bright.
fn images() -> Tensor {
    let pixels = (0..6).flat_map(|i| (0..PIXELS).map(move |j| f64::from((j < 4) == (i % 2 == 0))));
    Tensor::from_vec(pixels.collect::<Vec<f64>>(), [6, PIXELS])
}

fn vae() -> Vae {
    let vae = Vae::new(Key::new(1), PIXELS, 5, 2);
    evaluate(&vae).unwrap();
    vae
}

fn dense_by_loops(layer: &Dense, x: &[f64]) -> Vec<f64> {
    let (w, b) = (entries(&layer.w), entries(&layer.b));
    let product = |j: usize| {
        x.iter()
            .enumerate()
            .map(|(i, x)| x * w[i * b.len() + j])
            .sum::<f64>()
    };
    (0..b.len()).map(|j| product(j) + b[j]).collect()
}

#[test]
fn the_loss_is_that_of_plain_loops() {
    let (vae, x) = (vae(), images());
    let found = vae.loss(&x, Key::new(5));
    let noise = entries(&Key::new(5).normal([6, 2], DType::F64));
    let tanh = |xs: Vec<f64>| xs.into_iter().map(f64::tanh).collect::<Vec<f64>>();
    let mut total = 0.0;
    for (x, noise) in entries(&x).chunks(PIXELS).zip(noise.chunks(2)) {
        let h = tanh(dense_by_loops(&vae.encoder[0], x));
        let (mean, log_var) = (
            dense_by_loops(&vae.mean, &h),
            dense_by_loops(&vae.log_var, &h),
        );
        let z: Vec<f64> = (0..2)
            .map(|i| mean[i] + (0.5 * log_var[i]).exp() * noise[i])
            .collect();
        let h = tanh(dense_by_loops(&vae.decoder[0], &z));
        let logits = dense_by_loops(&vae.decoder[1], &h);
        for (z, x) in logits.iter().zip(x) {
            let p = 1.0 / (1.0 + (-z).exp());
            total -= x * p.ln() + (1.0 - x) * (1.0 - p).ln();
        }
        for (m, l) in mean.iter().zip(&log_var) {
            total += 0.5 * (m * m + l.exp() - 1.0 - l);
        }
    }
    near("the loss", &entries(&found), &[total / 6.0], 1e-12).unwrap();
}

#[test]
fn the_derivative_of_the_loss_is_right() {
    let x = images();
    let key = || Key::new(5);
    Companions {
        call: &|vae: &Vae| vae.loss(&x, key()),
        vjp: &|vae, ct| {
            let (y, pullback) = vae.loss_vjp(&x, key());
            (y, pullback(ct))
        },
        jvp: &|vae, dvae| vae.loss_jvp((&x, key()), dvae),
    }
    .check(&vae());
}

#[test]
fn training_learns_the_images_and_a_step_with_another_key_plans_nothing() {
    let x = images();
    let adam = Adam {
        lr: 0.03,
        ..Adam::default()
    };
    let mut vae = vae();
    let mut state = adam.init(&vae);
    let mut losses = Vec::new();
    for (i, key) in Key::new(2).split_many(150).into_iter().enumerate() {
        let step = || {
            let (loss, grads) = vae.loss_value_and_grad(&x, key);
            (vae, state) = adam.step(&vae, &grads.this, &state);
            losses.push(loss.item::<f64>());
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert!(losses[149] < 0.5 * losses[0], "{losses:?}");
    let samples = entries(&vae.sample(Key::new(3), 20));
    let sharp = samples.iter().filter(|p| **p < 0.2 || **p > 0.8).count();
    assert!(
        sharp * 10 > samples.len() * 7,
        "{sharp} of {}",
        samples.len()
    );
}

#[test]
fn a_second_call_is_not_recorded() {
    let (vae, x) = (vae(), images());
    assert_eq!(Vae::ENCODE_RECORDED, None);
    assert_eq!(Vae::DECODE_RECORDED, None);
    assert_eq!(Vae::FORWARD_RECORDED, None);
    assert_eq!(Vae::ELBO_RECORDED, None);
    assert_eq!(Vae::LOSS_RECORDED, None);
    assert_eq!(Vae::SAMPLE_RECORDED, None);
    finds(|| vae.forward(&x, Key::new(1)));
    finds(|| vae.loss(&x, Key::new(1)));
    finds(|| vae.loss_grad(&x, Key::new(1)).this);
    finds(|| vae.sample(Key::new(1), 3));
}
