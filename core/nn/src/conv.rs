use crate::{Layer, init};
use gradloom::defaults;
use gradloom::prelude::*;

/// How the windows of a convolution lie, the same along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Distance of the windows.
    pub stride: i64,
    /// Number of zeros at both ends.
    pub padding: i64,
    /// Distance of the elements of a window.
    pub dilation: i64,
    /// Number of parts of the channels that do not see each other.
    pub groups: i64,
}

impl Default for Windows {
    /// Returns windows at each place, without padding.
    fn default() -> Windows {
        Windows {
            stride: 1,
            padding: 0,
            dilation: 1,
            groups: 1,
        }
    }
}

/// A convolution along 1 to 3 axes, with a bias: PyTorch's `Conv1d`, `Conv2d` and `Conv3d`.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::{Conv, Layer, Windows};
///
/// let windows = Windows { stride: 2, padding: 1, ..Windows::default() };
/// let layer = Conv::new(Key::new(0), 3, 16, [3, 3], windows);
/// assert_eq!(layer.forward(&Tensor::ones([8, 3, 32, 32], DType::F32)).shape(), [8, 16, 16, 16]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Conv {
    /// `[outputs, inputs / groups, window..]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    #[tree(skip)]
    pub windows: Windows,
}

/// Returns weights of [`init::fan_in_uniform`] of shape `[first, second, window..]`, and a bias of zeros.
fn parameters(
    key: Key,
    channels: [usize; 2],
    outputs: usize,
    window: &[usize],
) -> (Tensor, Tensor) {
    let shape: Vec<usize> = channels.iter().chain(window).copied().collect();
    let fan_in = channels[1] * window.iter().product::<usize>();
    let weight = init::uniform(key, [channels[0] * fan_in], 1.0 / (fan_in as f64).sqrt());
    (
        weight.reshape(shape),
        Tensor::zeros([outputs], defaults::dtype()),
    )
}

impl Conv {
    /// Returns a layer with weights of [`init::fan_in_uniform`] and a bias of zeros.
    ///
    /// # Panics
    ///
    /// If `windows.groups` does not divide both numbers of channels.
    pub fn new<const N: usize>(
        key: Key,
        inputs: usize,
        outputs: usize,
        window: [usize; N],
        windows: Windows,
    ) -> Conv {
        let part = inputs / windows.groups as usize;
        assert!(
            inputs.is_multiple_of(windows.groups as usize)
                && outputs.is_multiple_of(windows.groups as usize),
            "`groups` of a convolution is {}, which does not divide {inputs} inputs and {outputs} outputs",
            windows.groups
        );
        let (weight, bias) = parameters(key, [outputs, part], outputs, &window);
        Conv {
            weight,
            bias: Some(bias),
            windows,
        }
    }
}

#[traced]
impl Layer for Conv {
    /// Maps `[n, inputs, lens..]` to `[n, outputs, ..]`, as [`Tensor::conv`].
    fn forward(&self, x: &Tensor) -> Tensor {
        let Windows {
            stride,
            padding,
            dilation,
            groups,
        } = self.windows;
        let y = x.conv(&self.weight, stride, padding, dilation, groups);
        match &self.bias {
            Some(bias) => add_channels(&y, bias),
            None => y,
        }
    }
}

/// Returns the sum of `[n, c, ..]` and a number for each channel, `[c]`.
#[traced]
fn add_channels(y: &Tensor, bias: &Tensor) -> Tensor {
    let after = vec![1; y.rank() - 2];
    let shape = [vec![bias.dim(0)], after].concat();
    y + bias.reshape(shape)
}

/// A transposed convolution along 1 to 3 axes, with a bias: PyTorch's `ConvTranspose1d` to `ConvTranspose3d`.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::{ConvTranspose, Layer, Windows};
///
/// let windows = Windows { stride: 2, ..Windows::default() };
/// let layer = ConvTranspose::new(Key::new(0), 16, 3, [2, 2], windows);
/// assert_eq!(layer.forward(&Tensor::ones([8, 16, 7, 7], DType::F32)).shape(), [8, 3, 14, 14]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct ConvTranspose {
    /// `[inputs, outputs / groups, window..]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    #[tree(skip)]
    pub windows: Windows,
}

impl ConvTranspose {
    /// Returns a layer with weights of [`init::fan_in_uniform`] and a bias of zeros.
    ///
    /// # Panics
    ///
    /// If `windows.groups` does not divide both numbers of channels.
    pub fn new<const N: usize>(
        key: Key,
        inputs: usize,
        outputs: usize,
        window: [usize; N],
        windows: Windows,
    ) -> ConvTranspose {
        let part = outputs / windows.groups as usize;
        assert!(
            inputs.is_multiple_of(windows.groups as usize)
                && outputs.is_multiple_of(windows.groups as usize),
            "`groups` of a convolution is {}, which does not divide {inputs} inputs and {outputs} outputs",
            windows.groups
        );
        let (weight, bias) = parameters(key, [inputs, part], outputs, &window);
        ConvTranspose {
            weight,
            bias: Some(bias),
            windows,
        }
    }
}

#[traced]
impl Layer for ConvTranspose {
    /// Maps `[n, inputs, lens..]` to `[n, outputs, ..]`, as [`Tensor::conv_transpose`].
    fn forward(&self, x: &Tensor) -> Tensor {
        let Windows {
            stride,
            padding,
            dilation,
            groups,
        } = self.windows;
        let y = x.conv_transpose(&self.weight, stride, padding, dilation, groups);
        match &self.bias {
            Some(bias) => add_channels(&y, bias),
            None => y,
        }
    }
}
