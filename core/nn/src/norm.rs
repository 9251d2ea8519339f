use crate::Layer;
use gradloom::defaults;
use gradloom::prelude::*;

/// Returns `[n]` numbers.
fn vector(n: usize, value: f64) -> Tensor {
    Tensor::full([n], value, defaults::dtype())
}

/// Layer normalisation of the last axis: [`Tensor::layer_norm`].
///
/// ```
/// use gradloom::Tensor;
/// use gradloom_nn::{Layer, LayerNorm};
///
/// let y = LayerNorm::new(2, 1e-5).forward(&Tensor::from([[1.0f32, 3.0]]));
/// assert!((y - Tensor::from([[-1.0f32, 1.0]])).abs().max(..).item::<f32>() < 1e-4);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct LayerNorm {
    /// `[width]`.
    pub weight: Tensor,
    /// `[width]`.
    pub bias: Tensor,
    /// Number that is added to the variance.
    #[tree(skip)]
    pub eps: f64,
}

impl LayerNorm {
    /// Returns a layer with weights of one and a bias of zeros.
    pub fn new(width: usize, eps: f64) -> LayerNorm {
        LayerNorm {
            weight: vector(width, 1.0),
            bias: vector(width, 0.0),
            eps,
        }
    }
}

#[traced]
impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(&self.weight, &self.bias, self.eps)
    }
}

/// Normalisation of the last axis by its root mean square: [`Tensor::rms_norm`].
#[derive(Clone, Debug, Tree)]
pub struct RmsNorm {
    /// `[width]`.
    pub weight: Tensor,
    /// Number that is added to the mean square.
    #[tree(skip)]
    pub eps: f64,
}

impl RmsNorm {
    /// Returns a layer with weights of one.
    pub fn new(width: usize, eps: f64) -> RmsNorm {
        RmsNorm {
            weight: vector(width, 1.0),
            eps,
        }
    }
}

#[traced]
impl Layer for RmsNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.rms_norm(&self.weight, self.eps)
    }
}

/// Normalisation of groups of channels of `[n, c, ..]`: [`Tensor::group_norm`].
#[derive(Clone, Debug, Tree)]
pub struct GroupNorm {
    /// `[channels]`.
    pub weight: Tensor,
    /// `[channels]`.
    pub bias: Tensor,
    /// Number of groups.
    #[tree(skip)]
    pub groups: usize,
    /// Number that is added to the variance.
    #[tree(skip)]
    pub eps: f64,
}

impl GroupNorm {
    /// Returns a layer with weights of one and a bias of zeros.
    ///
    /// # Panics
    ///
    /// If `groups` does not divide `channels`.
    pub fn new(groups: usize, channels: usize, eps: f64) -> GroupNorm {
        assert!(
            groups > 0 && channels.is_multiple_of(groups),
            "`groups` of a group norm is {groups}, which does not divide {channels} channels"
        );
        GroupNorm {
            weight: vector(channels, 1.0),
            bias: vector(channels, 0.0),
            groups,
            eps,
        }
    }
}

#[traced]
impl Layer for GroupNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.groups, &self.weight, &self.bias, self.eps)
    }
}

/// Batch normalisation of `[n, c, ..]`, with running statistics.
///
/// The statistics are frozen leaves: [`train`](BatchNorm::train) returns the layer with the next ones, and
/// [`Layer::forward`] normalises by them. Ioffe, Szegedy: Batch Normalization, 2015.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom_nn::{BatchNorm, Layer};
///
/// let norm = BatchNorm::new(1, 0.5, 0.0);
/// let x = Tensor::from([[1.0f32], [3.0]]);
/// let (y, norm) = norm.train(&x);
/// assert_eq!(y.to_vec::<f32>(), [-1.0, 1.0]);
/// assert_eq!(norm.running_mean.to_vec::<f32>(), [1.0]);
/// // The running variance is that without bias: 2.
/// assert_eq!(norm.running_var.to_vec::<f32>(), [1.5]);
/// assert_eq!(norm.forward(&Tensor::from([[1.0f32]])).to_vec::<f32>(), [0.0]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct BatchNorm {
    /// `[channels]`.
    pub weight: Tensor,
    /// `[channels]`.
    pub bias: Tensor,
    /// `[channels]`.
    #[nodiff]
    pub running_mean: Tensor,
    /// `[channels]`, without bias: divided by the number of elements minus one.
    #[nodiff]
    pub running_var: Tensor,
    /// Share of the statistics of a batch in the next running ones.
    #[tree(skip)]
    pub momentum: f64,
    /// Number that is added to the variance.
    #[tree(skip)]
    pub eps: f64,
}

impl BatchNorm {
    /// Returns a layer with weights of one, a bias of zeros, and running statistics of mean 0 and variance 1.
    pub fn new(channels: usize, momentum: f64, eps: f64) -> BatchNorm {
        BatchNorm {
            weight: vector(channels, 1.0),
            bias: vector(channels, 0.0),
            running_mean: vector(channels, 0.0),
            running_var: vector(channels, 1.0),
            momentum,
            eps,
        }
    }
}

#[traced]
impl BatchNorm {
    /// Normalises by the statistics of the batch. Returns the layer with the next running statistics, too.
    ///
    /// With one element for each channel, the running variance becomes NaN, because there is no variance
    /// without bias.
    pub fn train(&self, x: &Tensor) -> (Tensor, BatchNorm) {
        let y = x.batch_norm(&self.weight, &self.bias, self.eps);
        let rows = x
            .reshape([x.dim(0), x.dim(1), x.shape()[2..].iter().product::<usize>()])
            .stop_gradient();
        let (mean, var) = (rows.mean([0, 2]), rows.var([0, 2], 1));
        let (kept, share) = (1.0 - self.momentum, self.momentum);
        let next = BatchNorm {
            weight: self.weight.clone(),
            bias: self.bias.clone(),
            running_mean: &self.running_mean * kept + mean * share,
            running_var: &self.running_var * kept + var * share,
            momentum: self.momentum,
            eps: self.eps,
        };
        (y, next)
    }
}

#[traced]
impl Layer for BatchNorm {
    /// Normalises by the running statistics.
    fn forward(&self, x: &Tensor) -> Tensor {
        x.batch_norm_eval(
            &self.weight,
            &self.bias,
            &self.running_mean,
            &self.running_var,
            self.eps,
        )
    }
}
