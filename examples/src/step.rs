//! A training step of the perceptron as one function, for export.

use crate::model::{Mlp, loss};
use gradloom::optim::{Adam, AdamState};
use gradloom::prelude::*;
use gradloom::sharding::{Mesh, ShardingError, ShardingSpec};
use gradloom::trace::Trace;
use std::sync::Arc;

/// Parameters and optimiser state, and the images and labels of a batch.
pub type Argument = (Mlp, AdamState<Mlp>, Tensor, Tensor);

/// Returns the optimiser.
pub fn adam() -> Adam {
    Adam {
        lr: 2e-3,
        ..Adam::default()
    }
}

/// Returns parameters and state after a step, and the loss before it.
pub fn step((model, state, x, labels): &Argument) -> (Mlp, AdamState<Mlp>, Tensor) {
    let (l, grads) = value_and_grad(|model: &Mlp| loss(model, x, labels))(model);
    let (model, state) = adam().step(model, &grads, state);
    (model, state, l)
}

/// Returns a mesh of devices that divide each batch, and the specs of values that are whole on each device, and of
/// values whose rows are divided.
pub fn data_parallel(n_devices: usize) -> Result<(Arc<Mesh>, [ShardingSpec; 2]), ShardingError> {
    let mesh = Arc::new(Mesh::new("m", &[("data", n_devices)])?);
    let whole = ShardingSpec::replicated(&mesh, 0);
    let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    Ok((mesh, [whole, rows]))
}

/// Returns the leaves of a tree.
pub fn leaves(tree: &impl Tree) -> Vec<Tensor> {
    let mut all = Vec::new();
    tree.visit(&mut |leaf| all.push(leaf.clone()));
    all
}

/// Returns the arguments of the program of a trace that come after the leaves of its argument.
///
/// These are the captured tensors, and zeros for values of which only the shape is read.
pub fn constants<X: Tree, Y: Tree>(trace: &Trace<X, Y>) -> Vec<Tensor> {
    let mut all = trace.captured();
    let program = trace.program();
    let n = trace.inputs().len() + all.len();
    all.extend(program.params[n..].iter().map(|param| {
        let aval = program.aval(*param);
        let shape = aval.shape.known().expect("a trace has known shapes");
        Tensor::zeros(&shape[..], aval.dtype.expect("a trace has known dtypes"))
    }));
    all
}
