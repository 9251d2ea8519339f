use crate::{DataError, Dataset};
use gradloom::Tensor;
use image::imageops::FilterType;
use image::{ImageError, ImageReader};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder of images with a subfolder for each class.
///
/// An example is `(image, label)`: `f32[3, height, width]` with red, green and blue from 0 to 1, and an `i64` of rank 0.
/// Files that end in `.png`, `.jpg` and `.jpeg` are images, and others are ignored. An image is decoded when it is asked
/// for, so [`Batches::prefetch`](crate::Batches::prefetch) keeps decoding out of the way of training.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_data::{Batches, DataError, ImageFolder};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// # for class in ["cat", "dog"] {
/// #     std::fs::create_dir(folder.join(class)).unwrap();
/// #     image::RgbImage::from_pixel(6, 4, image::Rgb([255, 0, 51])).save(folder.join(class).join("1.png")).unwrap();
/// # }
/// let images = ImageFolder::open(folder)?.resize(2, 3);
/// assert_eq!(images.classes(), ["cat", "dog"]);
/// let (x, labels) = Batches::new(images, 2).prefetch(2).epoch(0).next().unwrap()?;
/// assert_eq!(x.shape(), [2, 3, 2, 3]);
/// assert_eq!(labels.to_vec::<i64>(), [0, 1]);
/// # Ok::<(), DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    /// Files with the index of their class.
    files: Vec<(PathBuf, i64)>,
    /// Height and width.
    size: Option<(u32, u32)>,
}

impl ImageFolder {
    /// Lists the files of a folder. Classes and files are in the order of their names.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<ImageFolder, DataError> {
        let mut classes = Vec::new();
        let mut files = Vec::new();
        for path in sorted(folder.as_ref())?
            .into_iter()
            .filter(|path| path.is_dir())
        {
            let label = classes.len() as i64;
            let name = path.file_name().unwrap_or_default();
            classes.push(name.to_string_lossy().into_owned());
            let images = sorted(&path)?.into_iter().filter(|path| is_image(path));
            files.extend(images.map(|path| (path, label)));
        }
        Ok(ImageFolder {
            classes,
            files,
            size: None,
        })
    }

    /// Scales each image to this height and width, with a triangle filter. Without it, all have to have one size.
    ///
    /// # Panics
    ///
    /// If one of them is 0.
    #[track_caller]
    pub fn resize(mut self, height: u32, width: u32) -> ImageFolder {
        assert!(
            height > 0 && width > 0,
            "`ImageFolder::resize`: the size is {height} x {width}, expected at least 1 x 1"
        );
        self.size = Some((height, width));
        self
    }

    /// Returns the names of the subfolders. A label is an index of them.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
}

impl Dataset for ImageFolder {
    type Example = (Tensor, Tensor);

    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<(Tensor, Tensor), DataError> {
        let (path, label) = &self.files[index];
        let read = |source| DataError::Read {
            path: path.clone(),
            source,
        };
        let decoded = ImageReader::open(path).map_err(read)?.decode();
        let image = decoded.map_err(|error| match error {
            ImageError::IoError(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                read(source)
            }
            error => DataError::Format {
                file: path.display().to_string(),
                format: "PNG or JPEG",
                reason: error.to_string(),
            },
        })?;
        let image = match self.size {
            Some((height, width)) => image.resize_exact(width, height, FilterType::Triangle),
            None => image,
        };
        let image = image.into_rgb32f();
        let (width, height) = (image.width() as usize, image.height() as usize);
        let pixels = image.into_raw();
        let channels = (0..3).flat_map(|channel| pixels.iter().skip(channel).step_by(3));
        let x = Tensor::try_from_vec(channels.copied().collect::<Vec<f32>>(), [3, height, width])?;
        Ok((x, Tensor::scalar(*label)))
    }
}

/// Returns the entries of a folder, in the order of their names.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<io::Result<Vec<_>>>()
    });
    let mut entries = entries.map_err(|source| DataError::Read {
        path: folder.to_owned(),
        source,
    })?;
    entries.sort();
    Ok(entries)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        let is = |known: &&str| extension.eq_ignore_ascii_case(known);
        ["png", "jpg", "jpeg"].iter().any(is)
    })
}
