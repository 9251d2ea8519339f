//! Errors in meshes and specs.

use super::AxisRef;
use std::fmt;

/// The reason why a mesh or a sharding spec is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardingError {
    /// A name of a mesh or of an axis cannot be written in the text form.
    Name {
        /// The name.
        name: String,
    },
    /// Two axes of a mesh have the same name.
    RepeatedName {
        /// The name.
        axis: String,
    },
    /// An axis of a mesh has no positions.
    EmptyAxis {
        /// The name of the axis.
        axis: String,
    },
    /// The number of devices is not the product of the sizes of the axes.
    DeviceCount {
        /// The number of devices in the list.
        found: usize,
        /// The product of the sizes.
        expected: usize,
    },
    /// A device is in the list of a mesh twice.
    RepeatedDevice {
        /// The number of the device.
        device: usize,
    },
    /// A mesh has more than 1,048,576 devices.
    TooManyDevices {
        /// The sizes of the axes.
        sizes: Vec<usize>,
    },
    /// The mesh does not have this axis.
    UnknownAxis {
        /// The name of the axis.
        axis: String,
        /// The mesh.
        mesh: String,
    },
    /// An axis does not have this part.
    NotAPart {
        /// The part.
        axis: AxisRef,
        /// The size of the whole axis.
        size: usize,
    },
    /// An axis splits two dims, or a dim twice.
    AxisTwice {
        /// The axis.
        axis: AxisRef,
        /// The first dim that it splits.
        first: usize,
        /// The second dim that it splits.
        second: usize,
    },
    /// Two axes of a spec are different parts of an axis that overlap.
    Overlap {
        /// The first part.
        first: AxisRef,
        /// The second part.
        second: AxisRef,
    },
    /// An axis splits a dim, and the tensor is said to be replicated along it.
    UsedAndReplicated {
        /// The axis.
        axis: AxisRef,
        /// The dim that it splits.
        dim: usize,
    },
    /// An axis splits a dim, and the tensor is said to be partial along it.
    UsedAndPartial {
        /// The axis.
        axis: AxisRef,
        /// The dim that it splits.
        dim: usize,
    },
    /// A tensor is said to be both replicated and partial along an axis.
    ReplicatedAndPartial {
        /// The axis.
        axis: AxisRef,
    },
    /// An axis is listed as replicated, or as partial, twice.
    ListedTwice {
        /// The axis.
        axis: AxisRef,
    },
    /// The spec has another number of dims than the tensor.
    Rank {
        /// The number of dims of the spec.
        spec: usize,
        /// The number of dims of the tensor.
        tensor: usize,
    },
    /// Two specs that must refer to one mesh refer to different ones.
    OtherMesh {
        /// The mesh of the spec.
        found: String,
        /// The other mesh.
        expected: String,
    },
    /// A text is not a mesh or a spec.
    Text {
        /// The text that was expected.
        expected: String,
        /// The rest of the text, from the error on.
        found: String,
    },
}

impl std::error::Error for ShardingError {}

impl fmt::Display for ShardingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ShardingError::*;
        match self {
            Name { name } => write!(
                f,
                "`{name}` is not a name; a name has letters, digits and `_`, and starts with a letter"
            ),
            RepeatedName { axis } => write!(f, "the mesh has two axes called \"{axis}\""),
            EmptyAxis { axis } => write!(f, "axis \"{axis}\" has size 0, expected at least 1"),
            DeviceCount { found, expected } => write!(
                f,
                "the mesh lists {found} devices, and its axes have {expected} positions"
            ),
            RepeatedDevice { device } => write!(f, "the mesh lists device {device} twice"),
            TooManyDevices { sizes } => {
                write!(f, "a mesh of {sizes:?} has more than 1048576 devices")
            }
            UnknownAxis { axis, mesh } => write!(f, "there is no axis \"{axis}\" in {mesh}"),
            NotAPart { axis, size } => write!(
                f,
                "{axis} is not a part of an axis of size {size}: the product of both numbers must divide it, \
                 and the second one is at least 2"
            ),
            AxisTwice {
                axis,
                first,
                second,
            } => match first == second {
                true => write!(f, "{axis} splits dim {first} twice"),
                false => write!(
                    f,
                    "{axis} splits dim {first} and dim {second}; an axis can split one dim"
                ),
            },
            Overlap { first, second } => {
                write!(
                    f,
                    "{first} and {second} overlap, so a spec cannot have both"
                )
            }
            UsedAndReplicated { axis, dim } => write!(
                f,
                "{axis} splits dim {dim}, so the tensor is not replicated along it"
            ),
            UsedAndPartial { axis, dim } => write!(
                f,
                "{axis} splits dim {dim}, so the tensor is not partial along it"
            ),
            ReplicatedAndPartial { axis } => {
                write!(
                    f,
                    "the tensor cannot be both replicated and partial along {axis}"
                )
            }
            ListedTwice { axis } => write!(f, "{axis} is listed twice"),
            Rank { spec, tensor } => write!(
                f,
                "the spec is for tensors of rank {spec}, and the tensor has rank {tensor}"
            ),
            OtherMesh { found, expected } => {
                write!(f, "the spec refers to {found}, expected {expected}")
            }
            Text { expected, found } => match found.is_empty() {
                true => write!(f, "expected {expected}, found the end of the text"),
                false => write!(f, "expected {expected}, found `{found}`"),
            },
        }
    }
}
