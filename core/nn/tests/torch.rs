//! Layers give the results and the gradients that PyTorch gives, with its weights.

use gradloom::prelude::*;
use gradloom::{defaults, tree, vjp};
use gradloom_files::TensorFile;
use gradloom_nn::{
    Activation, BatchNorm, Conv, ConvTranspose, DecoderLayer, EncoderLayer, GroupNorm, Gru, Layer,
    LayerNorm, Linear, Lstm, LstmState, MultiHeadAttention, NormPlace, RmsNorm, Windows,
};

const TOLERANCE: f64 = 1e-12;

struct Case {
    file: TensorFile,
    name: &'static str,
}

impl Case {
    fn new(name: &'static str) -> Case {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/torch_layers.safetensors"
        );
        Case {
            file: TensorFile::open(path).unwrap(),
            name,
        }
    }

    fn tensor(&self, part: &str, name: &str) -> Tensor {
        self.file
            .tensor(&format!("{}/{part}/{name}", self.name))
            .unwrap()
    }

    fn inputs(&self) -> Vec<Tensor> {
        let prefix = format!("{}/input/", self.name);
        let n = self
            .file
            .names()
            .filter(|name| name.starts_with(&prefix))
            .count();
        (0..n)
            .map(|i| self.tensor("input", &i.to_string()))
            .collect()
    }

    /// Returns the weights `part` of PyTorch in the places of a layer.
    fn weights<L: Tree>(&self, layer: &L, part: &str) -> L {
        let mut leaves = tree::leaves_with_paths(layer).into_iter();
        layer.map(&mut |_| {
            let (path, leaf) = leaves.next().unwrap();
            let x = self.of_path(part, &path);
            assert_eq!(x.shape(), leaf.shape(), "{} {path}", self.name);
            x
        })
    }

    fn of_path(&self, part: &str, path: &str) -> Tensor {
        let rnn = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"];
        if rnn.contains(&path) {
            return self.tensor(part, &format!("{path}_l0"));
        }
        if path.starts_with("running_") && part == "grad" {
            return self.tensor("module", path).zeros_like();
        }
        let path = path
            .replace("memory_attention.", "multihead_attn.")
            .replace("feed_forward.up", "linear1")
            .replace("feed_forward.down", "linear2");
        let norms = match self.name {
            "decoder" => ["attention_norm", "memory_norm", "feed_forward_norm"],
            _ => ["attention_norm", "feed_forward_norm", "none"],
        };
        let mut path = path;
        for (i, norm) in norms.iter().enumerate() {
            path = path.replace(&format!("{norm}."), &format!("norm{}.", i + 1));
        }
        let path = match path.strip_prefix("attention.") {
            Some(rest) => format!("self_attn.{rest}"),
            None => path,
        };
        let (block, leaf) = path.rsplit_once('.').unwrap_or(("", &path));
        let (module, projection) = block.rsplit_once('.').unwrap_or(("", block));
        let prefix = if module.is_empty() {
            String::new()
        } else {
            format!("{module}.")
        };
        match ["query", "key", "value"]
            .iter()
            .position(|name| *name == projection)
        {
            Some(i) => {
                let all = self.tensor(part, &format!("{prefix}in_proj_{leaf}"));
                all.chunks(3, 0).swap_remove(i)
            }
            None if projection == "output" => {
                self.tensor(part, &format!("{prefix}out_proj.{leaf}"))
            }
            None => self.tensor(part, &path),
        }
    }

    fn near(&self, what: &str, found: &Tensor, expected: &Tensor) {
        assert_eq!(found.shape(), expected.shape(), "{} {what}", self.name);
        let gap = (found - expected).abs().max(..).item::<f64>();
        let size = expected.abs().max(..).item::<f64>().max(1.0);
        assert!(
            gap <= TOLERANCE * size,
            "{} {what} differs by {gap:e}",
            self.name
        );
    }

    /// Compares results, and the gradients of layer and inputs.
    fn check<L: Tree + Clone>(&self, layer: &L, f: impl Fn(&L, &[Tensor]) -> Vec<Tensor>) {
        let layer = self.weights(layer, "module");
        let inputs = self.inputs();
        let call = |(layer, inputs): &(L, Vec<Tensor>)| f(layer, inputs);
        let (outputs, pullback) = vjp(call, &(layer.clone(), inputs));
        let cts = (0..outputs.len()).map(|i| self.tensor("ct", &i.to_string()));
        let (ct_layer, ct_inputs) = pullback.call(&cts.collect::<Vec<_>>());
        for (i, y) in outputs.iter().enumerate() {
            self.near(
                &format!("output {i}"),
                y,
                &self.tensor("output", &i.to_string()),
            );
        }
        for (i, ct) in ct_inputs.iter().enumerate() {
            self.near(
                &format!("gradient {i}"),
                ct,
                &self.tensor("input_grad", &i.to_string()),
            );
        }
        let found = tree::leaves_with_paths(&ct_layer);
        let expected = tree::leaves_with_paths(&self.weights(&layer, "grad"));
        for ((path, found), (_, expected)) in found.iter().zip(&expected) {
            self.near(path, found, expected);
        }
    }

    /// As [`check`](Case::check), for a layer of one input.
    fn check_layer<L: Layer + Tree + Clone>(&self, layer: &L) {
        self.check(layer, |layer, x| vec![layer.forward(&x[0])]);
    }
}

#[test]
fn maps_and_norms_agree() {
    let _f64 = defaults::set_dtype(DType::F64);
    let key = || Key::new(0);
    Case::new("linear").check_layer(&Linear::new(key(), 3, 4));
    let windows = Windows::default();
    let strided = Windows {
        stride: 2,
        padding: 1,
        groups: 2,
        ..windows
    };
    Case::new("conv1d").check_layer(&Conv::new(key(), 4, 6, [3], strided));
    let dilated = Windows {
        padding: 1,
        dilation: 2,
        ..windows
    };
    Case::new("conv2d").check_layer(&Conv::new(key(), 3, 4, [3, 3], dilated));
    Case::new("conv3d").check_layer(&Conv::new(key(), 2, 3, [2, 2, 2], windows));
    Case::new("conv_transpose2d").check_layer(&ConvTranspose::new(key(), 4, 6, [3, 3], strided));
    Case::new("layer_norm").check_layer(&LayerNorm::new(6, 1e-5));
    Case::new("rms_norm").check_layer(&RmsNorm::new(6, 1e-6));
    Case::new("group_norm").check_layer(&GroupNorm::new(2, 4, 1e-5));
    Case::new("batch_norm").check_layer(&BatchNorm::new(3, 0.1, 1e-5));

    let train = Case::new("batch_norm_train");
    let norm = BatchNorm::new(3, 0.1, 1e-5);
    train.check(&norm, |norm, x| vec![norm.train(&x[0]).0]);
    let (_, next) = norm.train(&train.inputs()[0]);
    train.near(
        "mean",
        &next.running_mean,
        &train.tensor("after", "running_mean"),
    );
    train.near(
        "variance",
        &next.running_var,
        &train.tensor("after", "running_var"),
    );
}

#[test]
fn recurrent_layers_agree() {
    let _f64 = defaults::set_dtype(DType::F64);
    Case::new("lstm").check(&Lstm::new(Key::new(0), 3, 5), |lstm, x| {
        let start = LstmState {
            hidden: x[1].squeeze(0),
            cell: x[2].squeeze(0),
        };
        let (all, last) = lstm.run(&x[0], &start);
        vec![all, last.hidden.unsqueeze(0), last.cell.unsqueeze(0)]
    });
    Case::new("gru").check(&Gru::new(Key::new(0), 3, 5), |gru, x| {
        let (all, last) = gru.run(&x[0], &x[1].squeeze(0));
        vec![all, last.unsqueeze(0)]
    });
}

#[test]
fn attention_and_transformers_agree() {
    let _f64 = defaults::set_dtype(DType::F64);
    let attention = MultiHeadAttention::new(Key::new(0), 8, 2);
    Case::new("attention").check(&attention, |a, x| vec![a.attend(&x[0], None)]);
    Case::new("attention_before").check(&attention, |a, x| vec![a.attend_before(&x[0])]);
    Case::new("attention_to").check(&attention, |a, x| vec![a.attend_to(&x[0], &x[1], None)]);
    let encoder = |place| EncoderLayer::new(Key::new(0), 8, 2, 16, Activation::Gelu, place);
    Case::new("encoder_before").check(&encoder(NormPlace::Before), |l, x| {
        vec![l.encode(&x[0], None)]
    });
    Case::new("encoder_after").check(&encoder(NormPlace::After), |l, x| {
        vec![l.encode(&x[0], None)]
    });
    let decoder = DecoderLayer::new(Key::new(0), 8, 2, 16, Activation::Relu);
    Case::new("decoder").check(&decoder, |l, x| vec![l.decode(&x[0], &x[1], None)]);
}

/// Steps of any length give what the whole sequence gives, and no length needs a plan of its own.
#[test]
fn steps_with_a_cache_give_what_the_sequence_gives() {
    let _f64 = defaults::set_dtype(DType::F64);
    for (key_heads, rotary) in [(4, None), (2, Some(10_000.0)), (1, Some(100.0))] {
        let mut attention = MultiHeadAttention::grouped(Key::new(0), 16, 4, key_heads);
        attention.rotary = rotary;
        let layer = EncoderLayer {
            attention,
            ..EncoderLayer::new(Key::new(1), 16, 4, 32, Activation::Silu, NormPlace::Before)
        };
        let x = Key::new(2).normal([2, 7, 16], DType::F64);
        let expected = layer.encode_before(&x);
        for lens in [&[7][..], &[1; 7], &[3, 1, 2, 1]] {
            let mut cache = layer.attention.cache(2, 8);
            let (mut parts, mut start) = (Vec::new(), 0);
            for len in lens {
                let part = x.slice([0, start], [2, start + len], [1, 1]);
                let (y, next) = layer.step(&part, &cache);
                (cache, start) = (next, start + len);
                parts.push(y);
            }
            let gap = (Tensor::concat(&parts, 1) - &expected)
                .abs()
                .max(..)
                .item::<f64>();
            assert!(gap < 1e-13, "{key_heads} {rotary:?} {lens:?}: {gap:e}");
        }
    }
}
