//! The program of the devices that this thread traces.

use crate::error::ShardingFault;
use crate::graph::trace_scope::{Scope, Scopes};
use crate::sharding::placement::Devices;
use crate::transform::stand_in_of;
use crate::{Aval, DType, Result, Tensor};
use gradloom_ir::mesh::MeshAxes;
use std::cell::RefCell;
use std::sync::Arc;

/// A function that is traced for the devices of a mesh.
struct Context {
    devices: Devices,
    scope: Arc<Scope>,
    more: Inputs,
}

/// Inputs of the traced program besides the arguments of the function.
#[derive(Default)]
pub(super) struct Inputs {
    /// Positions in a group: its axes, and the stand-in for the position.
    pub(super) positions: Vec<(MeshAxes, Tensor)>,
    /// Values that do not depend on an argument: the value, and its stand-in.
    pub(super) captured: Vec<(Tensor, Tensor)>,
}

thread_local! {
    /// The functions that this thread traces for devices, from the outermost to the innermost.
    static OPEN: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
}

/// A context that is open until it is dropped.
pub(super) struct ContextGuard(());

impl ContextGuard {
    pub(super) fn open(devices: Devices, scope: Arc<Scope>) -> ContextGuard {
        let more = Inputs::default();
        OPEN.with_borrow_mut(|open| {
            open.push(Context {
                devices,
                scope,
                more,
            });
        });
        ContextGuard(())
    }

    /// Returns the inputs that the function asked for.
    pub(super) fn close(self) -> Inputs {
        let more =
            OPEN.with_borrow_mut(|open| open.last_mut().map(|last| std::mem::take(&mut last.more)));
        more.unwrap_or_default()
    }
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        // The context is dropped after the borrow ends, because it owns tensors.
        let last = OPEN.with_borrow_mut(Vec::pop);
        drop(last);
    }
}

/// Calls `f` with the innermost context.
fn innermost<T>(
    call: &'static str,
    f: impl FnOnce(&mut Context) -> Result<T, ShardingFault>,
) -> Result<T> {
    let found = OPEN.with_borrow_mut(|open| open.last_mut().map(f));
    let found = found.unwrap_or(Err(ShardingFault::Outside));
    found.map_err(|fault| fault.into_error(call))
}

/// Returns the axes of a group of devices, given by names of the mesh.
pub(super) fn group(call: &'static str, names: &[&str]) -> Result<MeshAxes> {
    innermost(call, |context| context.devices.group(names))
}

/// Returns the position of the device in its group.
pub(super) fn position(call: &'static str, names: &[&str]) -> Result<Tensor> {
    innermost(call, |context| {
        let group = context.devices.group(names)?;
        let known = &mut context.more.positions;
        if let Some((_, stand_in)) = known.iter().find(|(other, _)| *other == group) {
            return Ok(stand_in.clone());
        }
        let stand_in = stand_in_of(&Aval::new(DType::I64, []), &context.scope);
        known.push((group, stand_in.clone()));
        Ok(stand_in)
    })
}

/// Returns `x` as a value of the devices. All of them have a value that does not depend on the arguments of
/// the function.
pub(super) fn on_devices(call: &'static str, x: &Tensor) -> Result<Tensor> {
    innermost(call, |context| {
        let own = Scopes::one(context.scope.clone());
        if !x.physical().0.scopes().is_apart(&own) {
            return Ok(x.clone());
        }
        let known = &mut context.more.captured;
        let found = known
            .iter()
            .find(|(other, _)| other.address() == x.address());
        if let Some((_, stand_in)) = found {
            return Ok(stand_in.clone());
        }
        let whole = x.physical();
        let stand_in = stand_in_of(whole.aval(), &context.scope).with_batch_dims(x.batch_dims());
        known.push((x.clone(), stand_in.clone()));
        Ok(stand_in)
    })
}
