//! The functions that this thread traces for the devices of a mesh.

use crate::error::ShardingFault;
use crate::graph::recording::{Watch, set_watch, watches};
use crate::graph::trace_scope::Scope;
use crate::sharding::Mesh;
use crate::sharding::placement::Devices;
use crate::transform::stand_in_of;
use crate::{Aval, DType, Result, Tensor};
use gradloom_ir::mesh::MeshAxes;
use std::cell::RefCell;
use std::sync::Arc;

/// A function that is traced for the devices of a mesh.
enum Open {
    /// A function of whole values.
    Whole(Arc<Mesh>),
    /// A function of the parts of a device.
    Parts(Context),
}

/// A function of the parts of a device.
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
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// Mesh that annotations refer to.
pub(crate) enum MeshInForce {
    /// The values are whole, and the devices of this mesh divide them.
    Whole(Arc<Mesh>),
    /// The values are parts of a device.
    Parts,
}

/// Returns the mesh for which the innermost function is traced, if there is one.
pub(crate) fn mesh_in_force() -> Option<MeshInForce> {
    if !watches(Watch::Mesh) {
        return None;
    }
    OPEN.with_borrow(|open| {
        Some(match open.last()? {
            Open::Whole(mesh) => MeshInForce::Whole(mesh.clone()),
            Open::Parts(_) => MeshInForce::Parts,
        })
    })
}

/// A context that is open until it is dropped.
pub(super) struct ContextGuard(());

impl ContextGuard {
    pub(super) fn open(devices: Devices, scope: Arc<Scope>) -> ContextGuard {
        ContextGuard::of(Open::Parts(Context {
            devices,
            scope,
            positions: Positions::new(),
        }))
    }

    fn of(context: Open) -> ContextGuard {
        OPEN.with_borrow_mut(|open| open.push(context));
        set_watch(Watch::Mesh, true);
        ContextGuard(())
    }

    /// Returns the positions that the function asked for.
    pub(super) fn close(self) -> Positions {
        OPEN.with_borrow_mut(|open| match open.last_mut() {
            Some(Open::Parts(context)) => std::mem::take(&mut context.positions),
            _ => Positions::new(),
        })
    }
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        // The context is dropped after the borrow ends, because it owns tensors.
        let (last, is_open) = OPEN.with_borrow_mut(|open| (open.pop(), !open.is_empty()));
        set_watch(Watch::Mesh, is_open);
        drop(last);
    }
}

/// Calls `f` with a mesh in force, to which the mesh axes in annotations of traced functions refer.
///
/// [`sharded`](super::sharded) and [`explain_sharding`](super::explain_sharding) do this with their meshes. Without a
/// mesh in force, mesh axes in annotations have no effect. A traced function that `f` calls is recorded at each call, because
/// a cached plan does not know the mesh.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::sharding::{Mesh, with_mesh};
/// use std::sync::Arc;
///
/// #[traced(returns(f32; B@data))]
/// fn doubled(#[shape(f32; B)] x: &Tensor) -> Tensor {
///     x * 2.0
/// }
///
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(doubled(&x).sharding(), None);
/// let y = with_mesh(&mesh, || doubled(&x));
/// assert_eq!(y.sharding().unwrap().to_string(), r#"sharding<@m, [{"data"}]>"#);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
pub fn with_mesh<T>(mesh: &Arc<Mesh>, f: impl FnOnce() -> T) -> T {
    let _open = ContextGuard::of(Open::Whole(mesh.clone()));
    f()
}

/// Calls `f` with the innermost context of a function of parts.
fn innermost<T>(
    call: &'static str,
    f: impl FnOnce(&mut Context) -> Result<T, ShardingFault>,
) -> Result<T> {
    let found = OPEN.with_borrow_mut(|open| {
        let mut contexts = open.iter_mut().rev().filter_map(|open| match open {
            Open::Parts(context) => Some(context),
            Open::Whole(_) => None,
        });
        contexts.next().map(f)
    });
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
