//! Tables, files of MNIST and folders of images, and what is wrong with broken ones.

use flate2::Compression;
use flate2::write::GzEncoder;
use gradloom_data::{DataError, Table, parse_idx, read_idx};
use std::io::Write as _;

#[test]
fn columns_are_tensors_by_name() {
    let text = "name,\"a, b\",n,flag\n\"x \"\"y\"\"\",1.5, 2 ,true\nz,-inf,3,false\n";
    let table = Table::parse(text.as_bytes()).unwrap();
    assert_eq!(table.names(), ["name", "a, b", "n", "flag"]);
    assert_eq!(table.texts("name").unwrap(), ["x \"y\"", "z"]);
    assert_eq!(
        table.column::<f64>("a, b").unwrap().to_vec::<f64>(),
        [1.5, f64::NEG_INFINITY]
    );
    let flags = table.column::<bool>("flag").unwrap();
    assert_eq!(flags.to_vec::<bool>(), [true, false]);
    let x = table.columns::<f32>(&["n", "a, b"]).unwrap();
    assert_eq!((x.shape(), x.to_vec::<f32>()[0]), (&[2, 2][..], 2.0));
    let table = Table::parse_without_names("1,2\n3,4\n".as_bytes()).unwrap();
    assert_eq!(table.column::<i64>("1").unwrap().to_vec::<i64>(), [2, 4]);
    let empty = Table::parse("a\n".as_bytes()).unwrap();
    assert_eq!(empty.column::<f32>("a").unwrap().shape(), [0]);
}

#[test]
fn bad_cells_are_named_by_row_and_column() {
    let table = Table::parse("a,b\n1,2\n\n3,4.5\n,5\n".as_bytes()).unwrap();
    let text = |error: DataError| error.to_string();
    assert_eq!(
        text(table.columns::<i32>(&["a", "b"]).unwrap_err()),
        "`table`, row 2, column `b`: `4.5` is not a value of type i32"
    );
    assert_eq!(
        text(table.column::<i64>("a").unwrap_err()),
        "`table`, row 3, column `a`: `` is not a value of type i64"
    );
    assert_eq!(
        text(table.column::<i64>("c").unwrap_err()),
        "`table` has no column `c`; it has [\"a\", \"b\"]"
    );
    let broken = |text: &str| Table::parse(text.as_bytes()).unwrap_err().to_string();
    let ragged = broken("a,b\n1,2\n3\n");
    assert!(ragged.contains("line: 3"), "{ragged}");
    let twice = "`table` is not a whole CSV file: two columns have the name `a`";
    assert_eq!(broken("a,a\n1,2\n"), twice);
    let bytes = Table::parse(&b"a\n\xff\n"[..]).unwrap_err().to_string();
    assert!(bytes.contains("UTF-8"), "{bytes}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    assert!(matches!(Table::open(&path), Err(DataError::Read { .. })));
    std::fs::write(&path, "a\nx\n").unwrap();
    let error = Table::open(&path).unwrap().column::<f32>("a").unwrap_err();
    assert!(text(error).contains("t.csv`, row 1"));
}

fn idx(kind: u8, shape: &[u32], elements: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|n| n.to_be_bytes()));
    bytes.extend(elements);
    bytes
}

#[test]
fn idx_files_are_read_in_all_types() {
    let read = |kind, elements: &[u8]| parse_idx(&idx(kind, &[2], elements)[..]).unwrap();
    assert_eq!(read(0x08, &[255, 1]).to_vec::<i32>(), [255, 1]);
    assert_eq!(read(0x09, &[255, 1]).to_vec::<i32>(), [-1, 1]);
    assert_eq!(read(0x0b, &[255, 254, 0, 3]).to_vec::<i32>(), [-2, 3]);
    assert_eq!(
        read(0x0c, &[0, 0, 1, 0, 0, 0, 0, 1]).to_vec::<i32>(),
        [256, 1]
    );
    let floats = [1.5f32.to_be_bytes(), (-2f32).to_be_bytes()].concat();
    assert_eq!(read(0x0d, &floats).to_vec::<f32>(), [1.5, -2.0]);
    let doubles = [0.1f64.to_be_bytes(), 2f64.to_be_bytes()].concat();
    assert_eq!(read(0x0e, &doubles).to_vec::<f64>(), [0.1, 2.0]);

    let images = idx(0x08, &[2, 2, 3], &(0..12).collect::<Vec<u8>>());
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    zip.write_all(&images).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train-images-idx3-ubyte.gz");
    let zipped = zip.finish().unwrap();
    std::fs::write(&path, &zipped).unwrap();
    let x = read_idx(&path).unwrap();
    assert_eq!(
        (x.shape(), x.to_vec::<i32>()),
        (&[2, 2, 3][..], (0..12).collect())
    );
    for n in 0..zipped.len() {
        let error = parse_idx(&zipped[..n]).unwrap_err();
        assert!(matches!(error, DataError::Format { .. }), "{n}: {error}");
    }
    for n in 0..images.len() {
        let error = parse_idx(&images[..n]).unwrap_err();
        assert!(matches!(error, DataError::Format { .. }), "{n}: {error}");
    }
}

#[test]
fn broken_idx_files_are_errors() {
    for (bytes, reason) in [
        (
            idx(0x08, &[3], &[1, 2]),
            "it has fewer bytes of elements than the 3 of its shape [3]",
        ),
        (
            idx(0x08, &[1], &[1, 2]),
            "it has more bytes of elements than the 1 of its shape [1]",
        ),
        (
            idx(0x0a, &[1], &[1]),
            "its type of elements is 0x0a, which is unknown",
        ),
        (
            vec![1, 0, 8, 1, 0],
            "it begins with [01, 00, 08, 01], expected two zeros",
        ),
        // A shape of many bytes allocates only what is there.
        (
            idx(0x08, &[u32::MAX, 1000], &[0]),
            "it has fewer bytes of elements than the 4294967295000 of its shape [4294967295, 1000]",
        ),
        (
            idx(0x0e, &[u32::MAX; 3], &[]),
            "its shape [4294967295, 4294967295, 4294967295] has more elements than can be addressed",
        ),
        (
            vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff],
            "corrupt deflate stream",
        ),
    ] {
        let error = parse_idx(&bytes[..]).unwrap_err().to_string();
        assert!(
            error.starts_with("`idx` is not a whole IDX file: "),
            "{error}"
        );
        assert!(error.contains(reason), "{error}");
    }
}

#[cfg(feature = "image")]
mod images {
    use super::*;
    use gradloom_data::{Batches, Dataset as _, ImageFolder};
    use image::{ImageFormat, Rgb, RgbImage};

    #[test]
    fn a_folder_has_a_class_for_each_subfolder() {
        let folder = tempfile::tempdir().unwrap();
        let save = |name: &str, pixel: [u8; 3], format| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            RgbImage::from_pixel(4, 2, Rgb(pixel))
                .save_with_format(path, format)
                .unwrap();
        };
        save("b/2.PNG", [255, 0, 51], ImageFormat::Png);
        save("b/1.jpg", [255; 3], ImageFormat::Jpeg);
        save("a/1.png", [0, 0, 255], ImageFormat::Png);
        std::fs::write(folder.path().join("a/note.txt"), "x").unwrap();
        let images = ImageFolder::open(folder.path()).unwrap();
        assert_eq!(
            (images.len(), images.classes()),
            (3, &["a".to_owned(), "b".to_owned()][..])
        );
        let (x, label) = images.get(2).unwrap();
        assert_eq!((x.shape(), label.item::<i64>()), (&[3, 2, 4][..], 1));
        let x = x.to_vec::<f32>();
        assert_eq!((x[0], x[8], x[16]), (1.0, 0.0, 0.2));
        let batch = Batches::new(images, 3).epoch(0).next().unwrap().unwrap();
        assert_eq!(batch.1.to_vec::<i64>(), [0, 1, 1]);

        let path = folder.path().join("a/0.png");
        let whole = std::fs::read(folder.path().join("a/1.png")).unwrap();
        for n in [0, 8, 20, whole.len() - 20] {
            std::fs::write(&path, &whole[..n]).unwrap();
            let images = ImageFolder::open(folder.path()).unwrap();
            let error = images.get(0).unwrap_err();
            assert!(matches!(error, DataError::Format { .. }), "{n}: {error}");
            assert!(error.to_string().contains("0.png"), "{error}");
        }
    }
}
