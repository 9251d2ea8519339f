//! Trains a variational autoencoder on handwritten digits, and draws digits that it makes up.
//!
//! `cargo run --release --bin vae -- [--short]`
//!
//! The bound of the log-likelihood (ELBO) of the test images has to exceed that of a model without codes, whose
//! pixels are independent: it knows the mean of each pixel of the training images and nothing else. The
//! closed form of the divergence of the codes has to agree with its mean over samples.
//!
//! Kingma, Welling: Auto-Encoding Variational Bayes, 2014 (arXiv:1312.6114).

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_examples::chart;
use gradloom_examples::command::{exit_code, is_short};
use gradloom_examples::data::{Digits, PIXELS};
use gradloom_nn::{Layer, Linear};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const CODES: usize = 8;
const HIDDEN: usize = 256;
const BATCH: usize = 32;
/// Images in a row and in a column of a grid.
const GRID: usize = 8;
/// Pixels in a row and in a column of an image.
const SIDE: usize = 8;

/// The model.
#[derive(Clone, Tree)]
struct Vae {
    encoder: Linear,
    mean: Linear,
    log_var: Linear,
    decoder: Linear,
    pixels: Linear,
}

impl Vae {
    fn new(key: Key) -> Vae {
        let [a, b, c, d, e] = key.split_n();
        Vae {
            encoder: Linear::new(a, PIXELS, HIDDEN),
            mean: Linear::new(b, HIDDEN, CODES),
            log_var: Linear::new(c, HIDDEN, CODES),
            decoder: Linear::new(d, CODES, HIDDEN),
            pixels: Linear::new(e, HIDDEN, PIXELS),
        }
    }
}

#[traced]
impl Vae {
    /// Returns means and logarithms of variances of the codes of images, both `[batch, codes]`.
    fn encode(&self, x: &Tensor) -> (Tensor, Tensor) {
        let h = self.encoder.forward(x).silu();
        (self.mean.forward(&h), self.log_var.forward(&h))
    }

    /// Returns the logits of the pixels of codes, `[batch, pixels]`.
    fn decode(&self, codes: &Tensor) -> Tensor {
        self.pixels.forward(&self.decoder.forward(codes).silu())
    }
}

/// Returns codes `mean + deviation * noise`, so that derivatives reach the mean and the deviation.
#[traced]
fn sample(mean: &Tensor, log_var: &Tensor, key: Key) -> Tensor {
    let noise = key.normal(mean.shape(), DType::F32);
    mean + (log_var * 0.5).exp() * noise
}

/// Returns the divergence of the codes from the standard normal distribution: the mean over images.
#[traced]
fn divergence(mean: &Tensor, log_var: &Tensor) -> Tensor {
    let terms = mean.square() + log_var.exp() - log_var - 1.0;
    (terms.sum(1) * 0.5).mean(..)
}

/// Returns the negative ELBO of a batch, with one sample of the codes of each image: the mean over images.
#[traced]
fn loss(model: &Vae, #[nodiff] x: &Tensor, key: Key) -> Tensor {
    let (mean, log_var) = model.encode(x);
    let logits = model.decode(&sample(&mean, &log_var, key));
    let reconstruction = logits.bce_with_logits(x).sum(1).mean(..);
    reconstruction + divergence(&mean, &log_var)
}

/// Returns the divergence by the closed form, and by one sample of `log q(z | x) - log p(z)` of each image.
#[traced]
fn divergences(model: &Vae, #[nodiff] x: &Tensor, key: Key) -> (Tensor, Tensor) {
    let (mean, log_var) = model.encode(x);
    let z = sample(&mean, &log_var, key);
    let log_q = (&z - &mean).square() / log_var.exp() + &log_var;
    let by_sample = ((z.square() - log_q).sum(1) * 0.5).mean(..);
    (divergence(&mean, &log_var), by_sample)
}

/// Returns the ELBO of images: the mean over 20 samples of their codes.
fn bound(model: &Vae, x: &Tensor, key: Key) -> f32 {
    let keys = key.split_many(20);
    let n = keys.len() as f32;
    let losses = keys
        .into_iter()
        .map(|key| loss(model, x, key).item::<f32>());
    -losses.sum::<f32>() / n
}

/// Returns the log-likelihood of `test` by pixels that are independent, with the means in `train`.
fn bound_without_codes(train: &Tensor, test: &Tensor) -> f32 {
    let mean = train.mean(0).maximum(1e-3).minimum(1.0 - 1e-3);
    let mean = mean.broadcast_to([test.dim(0), PIXELS]);
    -mean.bce(test).sum(1).mean(..).item::<f32>()
}

/// Draws grids of images, `[grid * grid, pixels]`, side by side.
fn draw(path: &Path, grids: &[&Tensor]) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let tile = SIDE + 1;
    let (width, height) = ((GRID * tile + 4) * grids.len(), GRID * tile);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{}" shape-rendering="crispEdges">"#,
        5 * width
    );
    for (g, grid) in grids.iter().enumerate() {
        for (i, pixel) in grid.to_vec::<f32>().into_iter().enumerate() {
            let (image, place) = (i / PIXELS, i % PIXELS);
            let x = g * (GRID * tile + 4) + image % GRID * tile + place % SIDE;
            let y = image / GRID * tile + place / SIDE;
            let shade = 255 - (pixel * 255.0).round() as u8;
            write!(
                svg,
                r#"<rect x="{x}" y="{y}" width="1" height="1" fill="rgb({shade},{shade},{shade})"/>"#
            )?;
        }
    }
    fs::write(path, svg + "</svg>\n")?;
    Ok(())
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let (blocks, epochs) = match is_short()? {
        false => (10, 20),
        true => (3, 4),
    };
    let digits = Digits::bundled();
    let [split, init, mut shuffle, noise, evaluation, drawn] = Key::new(0).split_n();
    let (train, test) = digits.split(split);
    let ((train_x, _), (test_x, _)) = (digits.batch(&train), digits.batch(&test));
    let mut model = Vae::new(init);
    evaluate(&model)?;
    let adam = Adam::default();
    let mut state = adam.init(&model);

    let before = bound(&model, &test_x, evaluation.duplicate());
    let mut table = Table::new();
    let header = ["epochs", "training ELBO", "test ELBO", "seconds"];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let mut curves = [("training", Vec::new()), ("test", Vec::new())];
    let (start, mut step) = (Instant::now(), 0u32);
    for block in 1..=blocks {
        let mut total = 0.0;
        for _ in 0..epochs {
            let (this, next) = shuffle.split();
            shuffle = next;
            let order = this.permutation(train.len()).to_vec::<i64>();
            let order: Vec<i64> = order.iter().map(|&i| train[i as usize]).collect();
            for indices in order.chunks(BATCH) {
                let (x, _) = digits.batch(indices);
                let key = noise.duplicate().fold_in(step);
                step += 1;
                let (value, gradients) = loss::value_and_grad(&model, &x, key);
                (model, state) = adam.step(&model, &gradients.model, &state);
                total += value.item::<f32>() * indices.len() as f32;
            }
        }
        let elbo = bound(&model, &test_x, evaluation.duplicate());
        curves[0].1.push(total / (epochs * train.len()) as f32);
        curves[1].1.push(-elbo);
        table.add_row([
            (block * epochs).to_string(),
            format!("{:.2}", -curves[0].1[block - 1]),
            format!("{elbo:.2}"),
            format!("{:.1}", start.elapsed().as_secs_f64()),
        ]);
    }
    println!("{table}");
    let title = format!("Negative ELBO in nats (a point is {epochs} epochs)");
    let path = Path::new("target/vae-elbo.svg");
    chart::curves(path, &title, &curves)?;
    println!("curves: {}", path.display());

    let codes = drawn.normal([GRID * GRID, CODES], DType::F32);
    let samples = model.decode(&codes).sigmoid();
    let path = Path::new("target/vae-samples.svg");
    draw(path, &[&test_x.i(..GRID * GRID), &samples])?;
    println!("test images and samples: {}", path.display());

    let without = bound_without_codes(&train_x, &test_x);
    let after = bound(&model, &test_x, evaluation.duplicate());
    println!("ELBO of the test images: {before:.2} before, {after:.2} after");
    println!("without codes: {without:.2}");
    let mut sums = [0.0; 2];
    for key in evaluation.split_many(50) {
        let (closed, by_sample) = divergences(&model, &test_x, key);
        evaluate((&closed, &by_sample))?;
        sums[0] += closed.item::<f32>() / 50.0;
        sums[1] += by_sample.item::<f32>() / 50.0;
    }
    let [closed, by_sample] = sums;
    println!("divergence: {closed:.3} by its closed form, {by_sample:.3} by samples");
    if after <= without {
        Err(format!(
            "the ELBO is {after:.2}, expected more than {without:.2}"
        ))?;
    }
    if (closed - by_sample).abs() > 0.01 * closed {
        Err("the divergences differ by more than 1 percent")?;
    }
    Ok(())
}
