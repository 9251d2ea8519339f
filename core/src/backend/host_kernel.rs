//! Kernels of the user, as host code behind ops.

use crate::element::Element;
use crate::{Aval, DType, Result};
use gradloom_ir::{self as ir, Fault, HostCode};
use gradloom_kernels::KernelFault;
use gradloom_kernels::memory::{Data, DataMut, numel};
use gradloom_kernels::task::Prepared;
use half::{bf16, f16};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operand of a kernel of the user: its elements in row-major order, and its shape.
#[derive(Clone, Copy, Debug)]
pub struct KernelInput<'a> {
    data: Data<'a>,
    dtype: DType,
    shape: &'a [usize],
    kernel: &'a str,
}

impl<'a> KernelInput<'a> {
    /// Returns the elements, in row-major order.
    ///
    /// # Panics
    ///
    /// If `T` is not the type of the elements.
    #[track_caller]
    pub fn as_slice<T: Element>(&self) -> &'a [T] {
        check_type::<T>(self.kernel, self.dtype);
        T::slice(self.data)
    }

    /// Returns the lengths of the axes.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
}

/// Result of a kernel of the user: memory for its elements in row-major order, and its shape.
#[derive(Debug)]
pub struct KernelOutput<'a> {
    data: DataMut<'a>,
    shape: &'a [usize],
    kernel: &'a str,
}

impl KernelOutput<'_> {
    /// Returns the elements to write, in row-major order. They are zero before the kernel runs.
    ///
    /// # Panics
    ///
    /// If `T` is not the type of the elements.
    #[track_caller]
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        check_type::<T>(self.kernel, self.data.dtype());
        T::slice_mut(&mut self.data)
    }

    /// Returns the lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        self.shape
    }

    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }
}

#[track_caller]
fn check_type<T: Element>(kernel: &str, dtype: DType) {
    assert!(
        T::DTYPE == dtype,
        "`{kernel}`: the elements are {dtype}, and the kernel takes a slice of {}",
        T::DTYPE
    );
}

type InferKernel = dyn Fn(&[Aval]) -> Result<Vec<Aval>> + Send + Sync;
type RunKernel =
    dyn Fn(&[KernelInput<'_>], &mut [KernelOutput<'_>]) -> Result<(), String> + Send + Sync;

/// The code of a `host_kernel` op.
pub(crate) struct HostKernel {
    name: String,
    id: u64,
    infer: Box<InferKernel>,
    run: Arc<RunKernel>,
}

impl HostKernel {
    /// Returns code that is different from all other code.
    pub(crate) fn new(name: String, infer: Box<InferKernel>, run: Arc<RunKernel>) -> HostKernel {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        HostKernel {
            name,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            infer,
            run,
        }
    }

    /// Returns a kernel for operands and results of these shapes, repeated for `n` lanes.
    pub(crate) fn prepared(
        &self,
        args: Vec<Vec<usize>>,
        outs: Vec<Vec<usize>>,
        n: usize,
    ) -> Prepared {
        let (run, name) = (self.run.clone(), self.name.clone());
        Box::new(move |xs, ys| {
            for lane in 0..n {
                let mut inputs = Vec::with_capacity(args.len());
                for (data, shape) in xs.iter().zip(&args) {
                    let len = numel(shape);
                    inputs.push(KernelInput {
                        dtype: data.dtype().expect("only a group computes in place"),
                        data: data.part(lane * len, len),
                        shape,
                        kernel: &name,
                    });
                }
                let mut outputs = Vec::with_capacity(outs.len());
                for (data, shape) in ys.iter_mut().zip(&outs) {
                    let len = numel(shape);
                    let mut data = data.part_mut(lane * len, len);
                    clear(&mut data);
                    outputs.push(KernelOutput {
                        data,
                        shape,
                        kernel: &name,
                    });
                }
                run(&inputs, &mut outputs).map_err(|message| KernelFault::Host {
                    kernel: name.clone(),
                    message,
                })?;
            }
            Ok(())
        })
    }
}

/// Sets all elements to zero.
fn clear(data: &mut DataMut<'_>) {
    match data {
        DataMut::F32(xs) => xs.fill(0.0),
        DataMut::F64(xs) => xs.fill(0.0),
        DataMut::BF16(xs) => xs.fill(bf16::ZERO),
        DataMut::F16(xs) => xs.fill(f16::ZERO),
        DataMut::I32(xs) => xs.fill(0),
        DataMut::I64(xs) => xs.fill(0),
        DataMut::I8(xs) => xs.fill(0),
        DataMut::U8(xs) | DataMut::Bool(xs) => xs.fill(0),
    }
}

impl HostCode for HostKernel {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn key(&self) -> Option<u64> {
        Some(self.id)
    }

    fn infer(&self, args: &[&ir::Aval]) -> Result<Vec<ir::Aval>, Fault> {
        let reason = |reason: String| Fault::Code { reason };
        if args
            .iter()
            .any(|x| x.dtype.is_none() || x.shape.known().is_none())
        {
            return Err(reason(format!("`{}` needs known shapes", self.name)));
        }
        let args: Vec<Aval> = args.iter().map(|x| Aval::from_ir(x)).collect();
        let outs = (self.infer)(&args).map_err(|e| reason(format!("`{}`: {e}", self.name)))?;
        Ok(outs.iter().map(Aval::to_ir).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
