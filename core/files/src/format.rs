use std::fmt;
use std::path::Path;

/// Format of a file of tensors.
///
/// A file is read in the format that its first bytes have, and written in that of the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tensors by their names, with a header as JSON. Other extensions than those below have it.
    Safetensors,
    /// An array of NumPy, as `numpy.save` writes it: `.npy`.
    Npy,
    /// Arrays of NumPy by their names, as `numpy.savez` writes them: `.npz`.
    Npz,
    /// A checkpoint of PyTorch, as `torch.save` writes it since version 1.6: `.pt` and `.pth`. It is only read.
    PyTorch,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Safetensors => "safetensors",
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::PyTorch => "PyTorch",
        })
    }
}

impl Format {
    /// Returns the format that the extension of a name stands for.
    pub(crate) fn of_name(path: &Path) -> Format {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Format::Npy,
            Some("npz") => Format::Npz,
            Some("pt" | "pth") => Format::PyTorch,
            _ => Format::Safetensors,
        }
    }
}
