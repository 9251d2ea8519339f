//! Specs: how the elements of a tensor are placed on the devices of a mesh.

use super::axis::Position;
use super::parse::Tokens;
use super::{AxisRef, Mesh, ShardingError};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How a tensor is placed on the devices of a mesh.
///
/// Each dim is split along the axes that its [`DimSharding`] lists, the first axis being the major
/// one. Along each other axis all devices hold the same elements, unless the tensor is *partial*
/// there: it is then the reduction, element by element, of what the devices along the axis hold.
///
/// A dim of length `n` that is split into `k` parts has chunks of `n / k` elements, rounded up. The
/// last chunks have fewer elements, or none.
///
/// Specs are in a canonical form: parts that follow each other are joined, a part with all positions
/// is the whole axis, and replicated and partial axes are in the order of the mesh. Two specs are
/// equal if their canonical forms and their meshes are.
///
/// ```
/// use gradloom_ir::sharding::{Mesh, ShardingSpec};
/// use std::sync::Arc;
///
/// let mesh = Arc::new(Mesh::new("m", &[("x", 2), ("y", 3)])?);
/// let spec = ShardingSpec::split(&mesh, &[&["x"], &[]])?;
/// assert_eq!(spec.to_string(), r#"sharding<@m, [{"x"}, {}]>"#);
/// assert_eq!(spec.local_shape(&[7, 4])?, [4, 4]);
/// assert_eq!(spec.ranges(&[7, 4], 3)?, [4..7, 0..4]);
/// # Ok::<(), gradloom_ir::sharding::ShardingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardingSpec {
    mesh: Arc<Mesh>,
    dims: Vec<DimSharding>,
    replicated: Vec<AxisRef>,
    partial: Vec<(AxisRef, Reduction)>,
}

/// How a dim is split.
///
/// Prints as `{"x", "y"}`. The braces of an open dim end with `?`, and a priority follows as `p1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DimSharding {
    /// The axes that split the dim, the major one first.
    pub axes: Vec<AxisRef>,
    /// True if propagation may add axes.
    pub is_open: bool,
    /// The rank among the dims that propagation considers: 0 first. `None` is 0.
    pub priority: Option<usize>,
}

/// The function that combines the elements of a partial tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Reduction {
    Sum,
    Max,
    Min,
    Prod,
}

impl Reduction {
    /// All reductions.
    pub const ALL: [Reduction; 4] = [
        Reduction::Sum,
        Reduction::Max,
        Reduction::Min,
        Reduction::Prod,
    ];

    /// Returns the name in the text form: `sum`, `max`, `min` or `prod`.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Prod => "prod",
        }
    }

    /// Returns the reduction with this name.
    pub fn from_name(name: &str) -> Option<Reduction> {
        Reduction::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DimSharding {
    /// Returns a closed dim that these axes split.
    pub fn closed(axes: Vec<AxisRef>) -> DimSharding {
        DimSharding {
            axes,
            ..DimSharding::default()
        }
    }

    /// Returns an open dim that these axes split.
    pub fn open(axes: Vec<AxisRef>) -> DimSharding {
        DimSharding {
            axes,
            is_open: true,
            priority: None,
        }
    }
}

impl ShardingSpec {
    /// Returns a spec.
    ///
    /// `replicated` lists axes along which propagation must keep the tensor replicated.
    ///
    /// # Errors
    ///
    /// If the mesh does not have an axis, if axes overlap or occur twice, or if an axis is in two of
    /// the three lists.
    pub fn new(
        mesh: &Arc<Mesh>,
        dims: Vec<DimSharding>,
        replicated: Vec<AxisRef>,
        partial: Vec<(AxisRef, Reduction)>,
    ) -> Result<ShardingSpec, ShardingError> {
        let mut uses: Vec<(AxisRef, Position, Use)> = Vec::new();
        let mut add = |axis: AxisRef, of: Use| {
            let position = axis.position(mesh)?;
            let other = uses.iter().find(|(_, other, _)| !position.is_apart(*other));
            if let Some((other, _, other_use)) = other {
                return Err(conflict((*other, *other_use), (axis, of)));
            }
            uses.push((axis, position, of));
            Ok(position)
        };
        let mut canonical = Vec::with_capacity(dims.len());
        for (i, dim) in dims.into_iter().enumerate() {
            let mut found = Vec::new();
            for axis in &dim.axes {
                found.push((add(*axis, Use::Split(i))?, ()));
            }
            let axes = joined(mesh, found);
            canonical.push(DimSharding {
                axes: axes.into_iter().map(|(axis, ())| axis).collect(),
                priority: dim.priority.filter(|priority| *priority > 0),
                ..dim
            });
        }
        let mut kept = Vec::new();
        for axis in replicated {
            kept.push((add(axis, Use::Replicated)?, ()));
        }
        let mut reduced = Vec::new();
        for (axis, kind) in partial {
            reduced.push((add(axis, Use::Partial)?, kind));
        }
        kept.sort_unstable();
        reduced.sort_unstable();
        let kept = joined(mesh, kept).into_iter();
        Ok(ShardingSpec {
            dims: canonical,
            replicated: kept.map(|(axis, ())| axis).collect(),
            partial: joined(mesh, reduced),
            mesh: Arc::clone(mesh),
        })
    }

    /// Returns the spec of a tensor of this rank that all devices hold as a whole.
    pub fn replicated(mesh: &Arc<Mesh>, rank: usize) -> ShardingSpec {
        ShardingSpec {
            mesh: Arc::clone(mesh),
            dims: vec![DimSharding::default(); rank],
            replicated: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Returns the spec with closed dims that the named axes split.
    ///
    /// # Errors
    ///
    /// As [`ShardingSpec::new`].
    pub fn split(mesh: &Arc<Mesh>, dims: &[&[&str]]) -> Result<ShardingSpec, ShardingError> {
        let axes = |names: &&[&str]| names.iter().map(|name| AxisRef::new(name)).collect();
        let dims = dims.iter().map(|names| DimSharding::closed(axes(names)));
        ShardingSpec::new(mesh, dims.collect(), Vec::new(), Vec::new())
    }

    /// Adds axes along which the tensor is partial.
    ///
    /// # Errors
    ///
    /// As [`ShardingSpec::new`].
    pub fn with_partial(
        mut self,
        partial: &[(AxisRef, Reduction)],
    ) -> Result<ShardingSpec, ShardingError> {
        self.partial.extend(partial);
        ShardingSpec::new(&self.mesh, self.dims, self.replicated, self.partial)
    }

    /// Returns the mesh.
    pub fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// Returns how each dim is split.
    pub fn dims(&self) -> &[DimSharding] {
        &self.dims
    }

    /// Returns the axes along which the tensor must stay replicated.
    pub fn replicated_axes(&self) -> &[AxisRef] {
        &self.replicated
    }

    /// Returns the axes along which the tensor is partial.
    pub fn partial(&self) -> &[(AxisRef, Reduction)] {
        &self.partial
    }

    /// Returns all axes that the spec lists.
    pub fn axes(&self) -> impl Iterator<Item = AxisRef> {
        let split = self.dims.iter().flat_map(|dim| dim.axes.iter().copied());
        let partial = self.partial.iter().map(|(axis, _)| *axis);
        split.chain(self.replicated.iter().copied()).chain(partial)
    }

    /// Returns the number of dims.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns whether each device holds the whole tensor.
    pub fn is_replicated(&self) -> bool {
        self.n_parts().iter().all(|n| *n == 1) && self.partial.is_empty()
    }

    /// Returns the number of parts of each dim.
    pub fn n_parts(&self) -> Vec<usize> {
        let parts = |dim: &DimSharding| dim.axes.iter().map(|axis| self.size_of(*axis)).product();
        self.dims.iter().map(parts).collect()
    }

    /// Returns the shape of the largest part: each length divided by the number of parts, rounded up.
    ///
    /// # Errors
    ///
    /// If the rank differs.
    pub fn local_shape(&self, shape: &[usize]) -> Result<Vec<usize>, ShardingError> {
        self.check_rank(shape.len())?;
        let lens = shape.iter().zip(self.n_parts());
        Ok(lens.map(|(len, n)| len.div_ceil(n)).collect())
    }

    /// Returns the indices of each dim that the device at a position of the mesh holds.
    ///
    /// `position` is an index into [`Mesh::devices`].
    ///
    /// # Errors
    ///
    /// If the rank differs.
    ///
    /// # Panics
    ///
    /// If there is no such position.
    pub fn ranges(
        &self,
        shape: &[usize],
        position: usize,
    ) -> Result<Vec<Range<usize>>, ShardingError> {
        let local = self.local_shape(shape)?;
        let range = |(i, dim): (usize, &DimSharding)| {
            let part = dim.axes.iter().fold(0, |part, axis| {
                let coordinate = self.mesh.coordinate(position, *axis);
                part * self.size_of(*axis) + coordinate.expect(CHECKED)
            });
            let at = |part: usize| (part * local[i]).min(shape[i]);
            at(part)..at(part + 1)
        };
        Ok(self.dims.iter().enumerate().map(range).collect())
    }

    /// Checks that a tensor has the rank of the spec.
    ///
    /// # Errors
    ///
    /// If it has another one.
    pub fn check_rank(&self, rank: usize) -> Result<(), ShardingError> {
        match rank == self.rank() {
            true => Ok(()),
            false => Err(ShardingError::Rank {
                spec: self.rank(),
                tensor: rank,
            }),
        }
    }

    /// Parses the text form of a spec on a mesh.
    ///
    /// # Errors
    ///
    /// If the text is not a spec, names another mesh, or [`ShardingSpec::new`] refuses it.
    ///
    /// ```
    /// use gradloom_ir::sharding::{Mesh, ShardingSpec};
    /// use std::sync::Arc;
    ///
    /// let mesh = Arc::new(Mesh::new("m", &[("x", 4), ("y", 2)])?);
    /// let text = r#"sharding<@m, [{"x":(1)2, ?}, {}p1], partial={"y": max}>"#;
    /// assert_eq!(ShardingSpec::parse(&mesh, text)?.to_string(), text);
    /// # Ok::<(), gradloom_ir::sharding::ShardingError>(())
    /// ```
    pub fn parse(mesh: &Arc<Mesh>, text: &str) -> Result<ShardingSpec, ShardingError> {
        let mut tokens = Tokens::new(text);
        tokens.expect("sharding<@")?;
        let name = tokens.word()?;
        if name != mesh.name() {
            return Err(ShardingError::OtherMesh {
                found: format!("@{name}"),
                expected: format!("@{}", mesh.name()),
            });
        }
        tokens.expect(",")?;
        let dims = tokens.list("[", "]", dim)?;
        let mut replicated = Vec::new();
        if tokens.eat(", replicated=") {
            replicated = tokens.list("{", "}", axis)?;
        }
        let mut partial = Vec::new();
        if tokens.eat(", partial=") {
            partial = tokens.list("{", "}", |tokens| {
                let axis = axis(tokens)?;
                tokens.expect(":")?;
                match Reduction::from_name(tokens.word()?) {
                    Some(kind) => Ok((axis, kind)),
                    None => tokens.error("`sum`, `max`, `min` or `prod` before this"),
                }
            })?;
        }
        tokens.expect(">")?;
        tokens.end()?;
        ShardingSpec::new(mesh, dims, replicated, partial)
    }

    fn size_of(&self, axis: AxisRef) -> usize {
        self.mesh.size_of(axis).expect(CHECKED)
    }
}

const CHECKED: &str = "the axes of a spec are in its mesh";

/// Where a spec lists an axis.
#[derive(Clone, Copy)]
enum Use {
    Split(usize),
    Replicated,
    Partial,
}

/// Returns the error for two axes that overlap.
fn conflict(first: (AxisRef, Use), second: (AxisRef, Use)) -> ShardingError {
    let axis = second.0;
    if first.0 != axis {
        return ShardingError::Overlap {
            first: first.0,
            second: axis,
        };
    }
    match (first.1, second.1) {
        (Use::Split(first), Use::Split(second)) => ShardingError::AxisTwice {
            axis,
            first,
            second,
        },
        (Use::Split(dim), Use::Replicated) => ShardingError::UsedAndReplicated { axis, dim },
        (Use::Split(dim), Use::Partial) => ShardingError::UsedAndPartial { axis, dim },
        (Use::Replicated, Use::Partial) => ShardingError::ReplicatedAndPartial { axis },
        _ => ShardingError::ListedTwice { axis },
    }
}

/// Returns the axes at these positions. Parts that follow each other are joined if `T` is the same.
fn joined<T: Copy + PartialEq>(mesh: &Mesh, found: Vec<(Position, T)>) -> Vec<(AxisRef, T)> {
    let mut joint: Vec<(Position, T)> = Vec::with_capacity(found.len());
    for (position, of) in found {
        let last = joint.last().filter(|(_, last)| *last == of);
        match last.and_then(|(last, _)| last.joined(position)) {
            Some(both) => *joint.last_mut().expect("a last one was found") = (both, of),
            None => joint.push((position, of)),
        }
    }
    let axes = joint.into_iter();
    axes.map(|(position, of)| (position.axis_ref(mesh), of))
        .collect()
}

/// Reads `"x"` or `"x":(2)4`.
fn axis(tokens: &mut Tokens<'_>) -> Result<AxisRef, ShardingError> {
    let name = tokens.quoted()?;
    if !tokens.eat(":(") {
        return Ok(AxisRef::new(name));
    }
    let pre = tokens.number()?;
    tokens.expect(")")?;
    Ok(AxisRef::part(name, pre, tokens.number()?))
}

/// Reads `{"x", "y", ?}p1`.
fn dim(tokens: &mut Tokens<'_>) -> Result<DimSharding, ShardingError> {
    let mut is_open = false;
    let axes = tokens.list("{", "}", |tokens| {
        // The mark of an open dim comes last, so nothing may follow it.
        if is_open {
            tokens.expect("}")?;
        }
        is_open = tokens.eat("?");
        match is_open {
            true => Ok(None),
            false => axis(tokens).map(Some),
        }
    })?;
    let priority = match tokens.eat("p") {
        true => Some(tokens.number()?),
        false => None,
    };
    Ok(DimSharding {
        axes: axes.into_iter().flatten().collect(),
        is_open,
        priority,
    })
}

impl fmt::Display for DimSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items: Vec<String> = self.axes.iter().map(AxisRef::to_string).collect();
        if self.is_open {
            items.push("?".to_owned());
        }
        write!(f, "{{{}}}", items.join(", "))?;
        match self.priority {
            Some(priority) => write!(f, "p{priority}"),
            None => Ok(()),
        }
    }
}

/// Prints `sharding<@m, [{"x"}, {}], replicated={"y"}, partial={"z": sum}>`.
impl fmt::Display for ShardingSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        let dims = self.dims.iter().map(DimSharding::to_string);
        write!(
            f,
            "sharding<@{}, [{}]",
            self.mesh.name(),
            list(dims.collect())
        )?;
        if !self.replicated.is_empty() {
            let axes = self.replicated.iter().map(AxisRef::to_string);
            write!(f, ", replicated={{{}}}", list(axes.collect()))?;
        }
        if !self.partial.is_empty() {
            let axes = self.partial.iter();
            let axes = axes.map(|(axis, kind)| format!("{axis}: {kind}"));
            write!(f, ", partial={{{}}}", list(axes.collect()))?;
        }
        f.write_str(">")
    }
}
