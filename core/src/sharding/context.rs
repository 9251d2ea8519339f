//! The program of the devices that this thread traces.

use crate::error::ShardingFault;
use crate::graph::trace_scope::Scope;
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
    positions: Positions,
}

/// Positions in groups, which are inputs of the traced program besides the arguments of the function: the axes of the
/// group, and the stand-in for the position.
pub(super) type Positions = Vec<(MeshAxes, Tensor)>;

thread_local! {
    /// The functions that this thread traces for devices, from the outermost to the innermost.
    static OPEN: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
}

/// A context that is open until it is dropped.
pub(super) struct ContextGuard(());

impl ContextGuard {
    pub(super) fn open(devices: Devices, scope: Arc<Scope>) -> ContextGuard {
        let positions = Positions::new();
        OPEN.with_borrow_mut(|open| {
            open.push(Context {
                devices,
                scope,
                positions,
            });
        });
        ContextGuard(())
    }

    /// Returns the positions that the function asked for.
    pub(super) fn close(self) -> Positions {
        let positions = |open: &mut Vec<Context>| {
            let last = open.last_mut()?;
            Some(std::mem::take(&mut last.positions))
        };
        OPEN.with_borrow_mut(positions).unwrap_or_default()
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
        let known = &mut context.positions;
        if let Some((_, stand_in)) = known.iter().find(|(other, _)| *other == group) {
            return Ok(stand_in.clone());
        }
        let stand_in = stand_in_of(&Aval::new(DType::I64, []), &context.scope);
        known.push((group, stand_in.clone()));
        Ok(stand_in)
    })
}
