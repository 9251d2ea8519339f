//! A ready-made context, which holds anything.

use crate::error::CustomFault;
use crate::{Result, Tensor};
use std::any::{Any, type_name};
use std::fmt;

/// A context that holds tensors and objects of any type, for functions that do not define a type of their own for
/// [`CustomFunction::Saved`](super::CustomFunction::Saved).
///
/// The inputs and results need not be saved: [`Call`](super::Call) has them.
///
/// ```
/// use gradloom::custom::{Call, CustomFunction, FunctionContext, custom_call};
/// use gradloom::prelude::*;
/// use std::sync::Arc;
///
/// /// x y, which saves the factors that the gradients need, and a number.
/// struct Product;
///
/// impl CustomFunction for Product {
///     type Input = Vec<Tensor>;
///     type Output = Tensor;
///     type Saved = FunctionContext;
///
///     fn forward(&self, x: &Vec<Tensor>, needs_grad: &[bool]) -> Result<(Tensor, FunctionContext)> {
///         let mut context = FunctionContext::new(needs_grad);
///         context.save_for_backward(&[&x[0], &x[1]]);
///         context.save_object(x.len());
///         Ok((&x[0] * &x[1], context))
///     }
///
///     fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Vec<Tensor>> {
///         let [x, y] = call.saved.saved_tensors::<2>()?;
///         assert_eq!(*call.saved.object::<usize>()?, 2);
///         Ok(vec![ct * y, ct * x])
///     }
/// }
///
/// let f = Arc::new(Product);
/// let x = vec![Tensor::from([2.0f32]), Tensor::from([3.0f32])];
/// let g = grad(|x: &Vec<Tensor>| custom_call(&f, x).sum(..))(&x);
/// assert_eq!((g[0].item::<f32>(), g[1].item::<f32>()), (3.0, 2.0));
/// ```
#[derive(Default)]
pub struct FunctionContext {
    needs_input_grad: Vec<bool>,
    tensors: Vec<Tensor>,
    objects: Vec<Box<dyn Any + Send + Sync>>,
}

impl FunctionContext {
    /// Returns an empty context of a call. `needs_grad` is that of `forward`.
    pub fn new(needs_grad: &[bool]) -> FunctionContext {
        FunctionContext {
            needs_input_grad: needs_grad.to_vec(),
            ..FunctionContext::default()
        }
    }

    /// Returns whether an input needs a gradient.
    pub fn needs_input_grad(&self, input: usize) -> bool {
        self.needs_input_grad.get(input).copied().unwrap_or(false)
    }

    /// Saves tensors for `backward`, in addition to those saved before.
    pub fn save_for_backward(&mut self, tensors: &[&Tensor]) {
        self.tensors.extend(tensors.iter().map(|x| (*x).clone()));
    }

    /// Returns the saved tensors, of which there are `N`.
    ///
    /// # Errors
    ///
    /// If `forward` saved another number of tensors.
    pub fn saved_tensors<const N: usize>(&self) -> Result<&[Tensor; N]> {
        let found = self.tensors.len();
        let missing = || CustomFault::ContextMissing {
            what: format!("list of {N} saved tensors, but one of {found}"),
        };
        let all = self.tensors.as_slice().try_into();
        all.map_err(|_| missing().into_error(""))
    }

    /// Returns a saved tensor.
    ///
    /// # Errors
    ///
    /// If `forward` did not save so many.
    pub fn saved_tensor(&self, i: usize) -> Result<&Tensor> {
        let missing = || CustomFault::ContextMissing {
            what: format!("saved tensor {i}"),
        };
        self.tensors.get(i).ok_or_else(|| missing().into_error(""))
    }

    /// Saves an object for `backward`. It replaces an earlier object of this type.
    pub fn save_object<T: Send + Sync + 'static>(&mut self, object: T) {
        self.objects.retain(|other| !other.is::<T>());
        self.objects.push(Box::new(object));
    }

    /// Returns the saved object of a type.
    ///
    /// # Errors
    ///
    /// If `forward` did not save one.
    pub fn object<T: 'static>(&self) -> Result<&T> {
        let missing = || CustomFault::ContextMissing {
            what: format!("object of type `{}`", type_name::<T>()),
        };
        let mut objects = self.objects.iter();
        let found = objects.find_map(|object| object.downcast_ref());
        found.ok_or_else(|| missing().into_error(""))
    }
}

impl fmt::Debug for FunctionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionContext")
            .field("needs_input_grad", &self.needs_input_grad)
            .field("tensors", &self.tensors.len())
            .field("objects", &self.objects.len())
            .finish()
    }
}
