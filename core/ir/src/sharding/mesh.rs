//! Meshes: devices in a grid with named axes.

use super::parse::Tokens;
use super::{AxisRef, ShardingError};
use crate::Symbol;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Devices in a grid with named axes.
///
/// Two meshes are equal if they have the same name, axes, devices and links. The text form is that
/// of Shardy, with links added, and parses back.
///
/// ```
/// use gradloom_ir::sharding::Mesh;
///
/// let mesh = Mesh::new("m", &[("x", 2), ("y", 3)])?;
/// assert_eq!(mesh.to_string(), r#"mesh @m <["x"=2, "y"=3]>"#);
/// assert_eq!(mesh.to_string().parse(), Ok(mesh));
/// # Ok::<(), gradloom_ir::sharding::ShardingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    name: Symbol,
    axes: Vec<MeshAxis>,
    devices: Vec<usize>,
}

/// An axis of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeshAxis {
    /// The name.
    pub name: Symbol,
    /// The number of positions.
    pub size: usize,
    /// The links between neighbours along the axis, if they are known. Estimates of time use them.
    pub link: Option<Link>,
}

/// The speed of a link between neighbouring devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Bytes per second that a device sends while it receives as many.
    pub bandwidth: u64,
    /// Nanoseconds from the start of a message to its arrival, apart from its size.
    pub latency: u64,
}

impl Mesh {
    /// Returns the mesh of devices 0, 1, .. with these axes, the last one varying fastest.
    ///
    /// # Errors
    ///
    /// If a name is not a word or occurs twice, or if a size is 0.
    pub fn new(name: &str, axes: &[(&str, usize)]) -> Result<Mesh, ShardingError> {
        let sizes: Vec<usize> = axes.iter().map(|(_, size)| *size).collect();
        let n = n_positions(&sizes)?;
        Mesh::with_devices(name, axes, (0..n).collect())
    }

    /// Returns the mesh of these devices in row-major order.
    ///
    /// # Errors
    ///
    /// As [`Mesh::new`], or if the number of devices is not the product of the sizes, or if a device
    /// occurs twice.
    pub fn with_devices(
        name: &str,
        axes: &[(&str, usize)],
        devices: Vec<usize>,
    ) -> Result<Mesh, ShardingError> {
        for word in axes.iter().map(|(name, _)| *name).chain([name]) {
            check_name(word)?;
        }
        let mut names = BTreeSet::new();
        for (axis, size) in axes {
            let axis = || (*axis).to_owned();
            if !names.insert(axis()) {
                return Err(ShardingError::RepeatedName { axis: axis() });
            }
            if *size == 0 {
                return Err(ShardingError::EmptyAxis { axis: axis() });
            }
        }
        let sizes: Vec<usize> = axes.iter().map(|(_, size)| *size).collect();
        let expected = n_positions(&sizes)?;
        if devices.len() != expected {
            return Err(ShardingError::DeviceCount {
                found: devices.len(),
                expected,
            });
        }
        let mut found = BTreeSet::new();
        if let Some(device) = devices.iter().find(|device| !found.insert(**device)) {
            return Err(ShardingError::RepeatedDevice { device: *device });
        }
        let axes = axes.iter().map(|(name, size)| MeshAxis {
            name: Symbol::new(name),
            size: *size,
            link: None,
        });
        Ok(Mesh {
            name: Symbol::new(name),
            axes: axes.collect(),
            devices,
        })
    }

    /// Sets the speed of the links along an axis.
    ///
    /// # Errors
    ///
    /// If the mesh does not have the axis.
    pub fn with_link(mut self, axis: &str, link: Link) -> Result<Mesh, ShardingError> {
        let at = self.axis_index(axis);
        let at = at.ok_or_else(|| ShardingError::UnknownAxis {
            axis: axis.to_owned(),
            mesh: self.to_string(),
        })?;
        self.axes[at].link = Some(link);
        Ok(self)
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name.as_str()
    }

    /// Returns the axes. The last one varies fastest in [`Mesh::devices`].
    pub fn axes(&self) -> &[MeshAxis] {
        &self.axes
    }

    /// Returns the numbers of the devices in row-major order of their positions.
    pub fn devices(&self) -> &[usize] {
        &self.devices
    }

    /// Returns the number of devices.
    pub fn n_devices(&self) -> usize {
        self.devices.len()
    }

    /// Returns the index of the axis with a name.
    pub fn axis_index(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name.as_str() == name)
    }

    /// Returns the number of positions of an axis or a part of one.
    ///
    /// # Errors
    ///
    /// If the mesh does not have it.
    pub fn size_of(&self, axis: AxisRef) -> Result<usize, ShardingError> {
        Ok(axis.position(self)?.part.size)
    }

    /// Returns the coordinate of a position of the grid along an axis or a part of one.
    ///
    /// `position` is an index into [`Mesh::devices`].
    ///
    /// # Errors
    ///
    /// If the mesh does not have the axis.
    ///
    /// # Panics
    ///
    /// If there is no such position.
    pub fn coordinate(&self, position: usize, axis: AxisRef) -> Result<usize, ShardingError> {
        assert!(position < self.n_devices(), "the mesh has the position");
        let at = axis.position(self)?;
        let inner = self.axes[at.axis + 1..].iter().map(|axis| axis.size);
        let coordinate = position / inner.product::<usize>() % self.axes[at.axis].size;
        let after = self.axes[at.axis].size / (at.part.pre * at.part.size);
        Ok(coordinate / after % at.part.size)
    }

    /// Returns the groups of positions that differ only along the given axes.
    ///
    /// A collective over these axes runs once in each group. In a group, positions are in row-major
    /// order of the axes in the order given. Groups are in ascending order of their first position.
    ///
    /// # Errors
    ///
    /// If the mesh does not have an axis.
    ///
    /// ```
    /// use gradloom_ir::sharding::Mesh;
    ///
    /// let mesh = Mesh::new("m", &[("x", 2), ("y", 3)])?;
    /// assert_eq!(mesh.groups(&["x".into()])?, [[0, 3], [1, 4], [2, 5]]);
    /// # Ok::<(), gradloom_ir::sharding::ShardingError>(())
    /// ```
    pub fn groups(&self, axes: &[AxisRef]) -> Result<Vec<Vec<usize>>, ShardingError> {
        let mut strides = Vec::new();
        for axis in axes {
            let at = axis.position(self)?;
            let inner = self.axes[at.axis + 1..].iter().map(|axis| axis.size);
            let after = self.axes[at.axis].size / (at.part.pre * at.part.size);
            strides.push((inner.product::<usize>() * after, at.part.size));
        }
        let is_first = |position: &usize| {
            let mut at = strides.iter();
            at.all(|(stride, size)| (position / stride).is_multiple_of(*size))
        };
        let group = |first: usize| {
            let mut group = vec![first];
            for (stride, size) in &strides {
                let along = |from: usize| (0..*size).map(move |i| from + i * stride);
                group = group.into_iter().flat_map(along).collect();
            }
            group
        };
        Ok((0..self.n_devices()).filter(is_first).map(group).collect())
    }
}

/// Largest number of devices of a mesh, which lists each of them.
const MOST_DEVICES: usize = 1 << 20;

/// Returns the product of the sizes.
fn n_positions(sizes: &[usize]) -> Result<usize, ShardingError> {
    let product = sizes.iter().try_fold(1, |n: usize, size| {
        n.checked_mul(*size).filter(|n| *n <= MOST_DEVICES)
    });
    product.ok_or_else(|| ShardingError::TooManyDevices {
        sizes: sizes.to_vec(),
    })
}

/// Checks a name of a mesh or of an axis.
fn check_name(name: &str) -> Result<(), ShardingError> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    match starts && chars.all(|c| c.is_alphanumeric() || c == '_') {
        true => Ok(()),
        false => Err(ShardingError::Name {
            name: name.to_owned(),
        }),
    }
}

/// Prints `mesh @m <["x"=2, "y"=3]>`, then devices in an order of their own, then links.
impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        let axes = self.axes.iter();
        let axes = axes.map(|axis| format!("\"{}\"={}", axis.name, axis.size));
        write!(f, "mesh @{} <[{}]", self.name, list(axes.collect()))?;
        if self.devices.iter().enumerate().any(|(i, d)| i != *d) {
            let devices = self.devices.iter().map(usize::to_string);
            write!(f, ", device_ids=[{}]", list(devices.collect()))?;
        }
        let links = self.axes.iter().filter_map(|axis| {
            let Link { bandwidth, latency } = axis.link?;
            Some(format!("\"{}\": {bandwidth} B/s {latency} ns", axis.name))
        });
        let links: Vec<String> = links.collect();
        if !links.is_empty() {
            write!(f, ", links={{{}}}", list(links))?;
        }
        f.write_str(">")
    }
}

impl FromStr for Mesh {
    type Err = ShardingError;

    fn from_str(text: &str) -> Result<Mesh, ShardingError> {
        let mut tokens = Tokens::new(text);
        tokens.expect("mesh")?;
        tokens.expect("@")?;
        let name = tokens.word()?;
        tokens.expect("<")?;
        let axes = tokens.list("[", "]", |tokens| {
            let axis = tokens.quoted()?;
            tokens.expect("=")?;
            Ok((axis, tokens.number()?))
        })?;
        let mut devices = None;
        if tokens.eat(", device_ids=") {
            devices = Some(tokens.list("[", "]", Tokens::number)?);
        }
        let mut mesh = match devices {
            Some(devices) => Mesh::with_devices(name, &axes, devices)?,
            None => Mesh::new(name, &axes)?,
        };
        if tokens.eat(", links=") {
            let links = tokens.list("{", "}", |tokens| {
                let axis = tokens.quoted()?;
                tokens.expect(":")?;
                let bandwidth = tokens.number()? as u64;
                tokens.expect("B/s")?;
                let latency = tokens.number()? as u64;
                tokens.expect("ns")?;
                Ok((axis, Link { bandwidth, latency }))
            })?;
            for (axis, link) in links {
                mesh = mesh.with_link(axis, link)?;
            }
        }
        tokens.expect(">")?;
        tokens.end()?;
        Ok(mesh)
    }
}
