//! Broken files of NumPy and PyTorch are errors that name what is wrong. Nothing is executed or half loaded.

use gradloom::prelude::*;
use gradloom_files::{FileError, TensorFile};
use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens"));
    std::fs::read(folder.join(name)).unwrap()
}

/// Opens a file with these bytes and reads all its tensors.
fn read(name: &str, bytes: &[u8]) -> Result<Vec<Tensor>, FileError> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = TensorFile::open(&path)?;
    file.names().map(|name| file.tensor(name)).collect()
}

/// Returns the reason why a file is not of its format.
#[track_caller]
fn reason(name: &str, bytes: &[u8]) -> String {
    match read(name, bytes) {
        Err(FileError::Format { reason, .. }) => reason,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the file was read"),
    }
}

/// Returns an archive of these members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        archive.start_file(*name, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Returns an npy file.
fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
    let n = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &n[..], header.as_bytes(), elements].concat()
}

/// Returns the first checkpoint of PyTorch with another pickle, or other bytes in a storage.
fn checkpoint(change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut old = ZipArchive::new(Cursor::new(golden("tensor.pt"))).unwrap();
    let mut members = Vec::new();
    for i in 0..old.len() {
        let mut member = old.by_index(i).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut member, &mut bytes).unwrap();
        let name = member.name().unwrap().into_owned();
        let bytes = change(&name, bytes);
        members.push((name, bytes));
    }
    let members: Vec<(&str, &[u8])> = members.iter().map(|(n, b)| (&**n, &**b)).collect();
    archive(&members)
}

fn pickled(bytes: &[u8]) -> Vec<u8> {
    checkpoint(|name, old| match name.ends_with("data.pkl") {
        true => bytes.to_vec(),
        false => old,
    })
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    for name in ["fortran.npy", "numpy_compressed.npz", "tensor.pt"] {
        let whole = golden(name);
        assert!(read(name, &whole).is_ok());
        for n in 0..whole.len() {
            let error = read(name, &whole[..n]).expect_err(name);
            assert!(
                matches!(error, FileError::Format { .. }),
                "{name}, {n}: {error}"
            );
        }
    }
}

#[test]
fn a_bit_that_changes_never_changes_a_number() {
    let folder = tempfile::tempdir().unwrap();
    // The CRC-32 of each member covers its header and its elements.
    for name in ["numpy_compressed.npz", "tensor.pt"] {
        let path = folder.path().join(name);
        let whole = golden(name);
        std::fs::write(&path, &whole).unwrap();
        let expected = TensorFile::open(&path).unwrap();
        let expected: BTreeMap<String, Tensor> = expected
            .names()
            .map(|name| (name.to_owned(), expected.tensor(name).unwrap()))
            .collect();
        for n in (0..whole.len()).step_by(3) {
            let mut changed = whole.clone();
            changed[n] ^= 1 << (n / 3 % 8);
            std::fs::write(&path, &changed).unwrap();
            let Ok(file) = TensorFile::open(&path) else {
                continue;
            };
            // The name of a member may change. A loader finds that it is missing.
            for (name, expected) in &expected {
                if let Ok(found) = file.tensor(name) {
                    assert_eq!(found.aval(), expected.aval(), "{name}, {n}");
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}, {n}");
                }
            }
        }
    }
}

#[test]
fn broken_headers_of_arrays_are_errors() {
    let header =
        |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n");
    assert!(read("x.npy", &npy(&header("(1,)"), &[0; 4])).is_ok());
    for (file, expected) in [
        (
            npy(&header("(2,)"), &[0; 4]),
            "it has 4 bytes of elements, and its header names the shape [2] of <f4",
        ),
        (
            npy(&header("(1,)"), &[0; 5]),
            "it has 5 bytes of elements, and its header names the shape [1] of <f4",
        ),
        (
            npy(&header("(nan,)"), &[0; 4]),
            "its header has `nan,)}`, expected the length of an axis",
        ),
        (
            npy(&header("(-1,)"), &[0; 4]),
            "its header has `-1,)}`, expected the length of an axis",
        ),
        (
            npy(&header("(99999999999, 99999999999)"), &[0; 4]),
            "it has 4 bytes of elements, and its header names the shape [99999999999, 99999999999] of <f4",
        ),
        (
            npy("{'descr': '<f4', 'descr': '<f8'}", &[]),
            "its header has `descr` twice",
        ),
        (
            npy("{'descr': __import__('os').system('x')}", &[]),
            "its header has `__import__('os').sys`, expected `'`",
        ),
        (
            b"\x93NUMPY\x09\x00\x00\x00".to_vec(),
            "its version 9 is not 1, 2 or 3",
        ),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
            "its header has 4294967295 bytes, expected at most 10000",
        ),
        (
            b"not an array".to_vec(),
            "it does not begin with `\\x93NUMPY`",
        ),
    ] {
        assert_eq!(reason("x.npy", &file), expected);
    }
}

#[test]
fn broken_archives_are_errors() {
    let x = npy(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        &[0; 4],
    );
    assert!(read("x.npz", &archive(&[("a.npy", &x)])).is_ok());
    let with = |name: &str| reason("x.npz", &archive(&[(name, &x)]));
    assert_eq!(with("../a.npy"), "`../a.npy` leads out of the archive");
    assert_eq!(with("/etc/a.npy"), "`/etc/a.npy` leads out of the archive");
    assert_eq!(
        with("b\\..\\a.npy"),
        "`b\\..\\a.npy` leads out of the archive"
    );
    assert_eq!(with("c:\\a.npy"), "`c:\\a.npy` leads out of the archive");
    assert_eq!(with("a.txt"), "its member `a.txt` does not end in `.npy`");
    let not_npy = archive(&[("a.npy", b"12345678")]);
    assert_eq!(
        reason("x.npz", &not_npy),
        "`a.npy`: it does not begin with `\\x93NUMPY`"
    );

    // The second name becomes the first, in the local header and in the directory.
    let mut twice = archive(&[("a.npy", &x), ("b.npy", &x)]);
    for i in 0..twice.len() - 5 {
        if &twice[i..i + 5] == b"b.npy" {
            twice[i] = b'a';
        }
    }
    assert_eq!(reason("x.npz", &twice), "two members have the same name");

    // The second entry of the directory points at the first member.
    let mut overlap = archive(&[("a.npy", &x), ("b.npy", &x)]);
    let entry = find(&overlap, b"PK\x01\x02", 1);
    overlap[entry + 42..entry + 46].fill(0);
    let text = reason("x.npz", &overlap);
    assert!(text.contains("overlap") || text.contains("name"), "{text}");

    // A member that claims to be much longer than its bytes can be, as it is and compressed.
    let mut bomb = archive(&[("a.npy", &x)]);
    let entry = find(&bomb, b"PK\x01\x02", 0);
    bomb[entry + 24..entry + 28].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    assert_eq!(
        reason("x.npz", &bomb),
        format!("`a.npy`: {} bytes cannot stand for 4294967280", x.len())
    );
    let mut bomb = golden("numpy_compressed.npz");
    let entry = find(&bomb, b"PK\x01\x02", 0);
    bomb[entry + 24..entry + 28].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let text = reason("x.npz", &bomb);
    assert!(
        text.ends_with("bytes cannot stand for 4294967280"),
        "{text}"
    );
    assert_eq!(reason("x.npz", b"PK"), "it does not begin as a zip archive");
}

/// Returns the position of an occurrence.
fn find(bytes: &[u8], part: &[u8], n: usize) -> usize {
    let found = bytes.windows(part.len()).enumerate();
    found
        .filter(|(_, window)| *window == part)
        .nth(n)
        .unwrap()
        .0
}

#[test]
fn a_pickle_calls_nothing() {
    assert_eq!(
        reason("x.pt", &golden("os_system.pt"))
            .split_once(": ")
            .unwrap()
            .1,
        "it uses `posix.system`, which is not part of a file of weights; save a `state_dict`"
    );
    assert!(!Path::new("gradloom-was-here").exists());
    for (name, part) in [
        (
            "whole_model.pt",
            "it uses `torch.nn.modules.container.Sequential`",
        ),
        ("sparse.pt", "it uses `torch._utils._rebuild_sparse_tensor`"),
        ("old.pt", "it has the format before PyTorch 1.6"),
    ] {
        let text = reason("x.pt", &golden(name));
        assert!(text.contains(part), "{text}");
    }
    let error = read("x.pt", &golden("complex.pt")).unwrap_err();
    assert!(
        error.to_string().contains("has the dtype complex64"),
        "{error}"
    );
}

#[test]
fn broken_archives_of_pytorch_are_errors() {
    // The same checks as for npz files.
    let with = |name: &str| {
        let pickle = tensor(6, 0, &[1], &[1]);
        let members = [
            ("x/data.pkl", &*pickle),
            ("x/data/0", &[0; 24]),
            (name, b"x"),
        ];
        read("x.pt", &archive(&members))
    };
    assert_eq!(with("x/version").unwrap()[0].to_vec::<f32>(), [0.0]);
    let text = with("../x").unwrap_err().to_string();
    assert!(text.ends_with("`../x` leads out of the archive"), "{text}");
    let text = with("y/data.pkl").unwrap_err().to_string();
    assert!(
        text.ends_with("it does not have one member `data.pkl`"),
        "{text}"
    );
    // The name of the last member becomes that of the storage.
    let pickle = tensor(6, 0, &[1], &[1]);
    let members = [
        ("x/data.pkl", &*pickle),
        ("x/data/0", &[0; 24]),
        ("x/data/1", b"x"),
    ];
    let mut twice = archive(&members);
    for n in [0, 1] {
        let at = find(&twice, b"x/data/1", 0) + 7;
        assert_eq!((n, twice[at]), (n, b'1'));
        twice[at] = b'0';
    }
    assert_eq!(reason("x.pt", &twice), "two members have the same name");
    let mut bomb = checkpoint(|_, bytes| bytes);
    let entry = find(&bomb, b"PK\x01\x02", 0);
    bomb[entry + 24..entry + 28].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let text = reason("x.pt", &bomb);
    assert!(text.contains("bytes cannot stand for 4294967280"), "{text}");
}

#[test]
fn broken_pickles_are_errors() {
    for (pickle, part) in [
        (&b""[..], "it is cut"),
        (b"\x80\x02", "it is cut"),
        (b"\x80\x63.", "its protocol 99 is not one from 2 to 5"),
        (b"\x80\x02.", "the stack is empty"),
        (b"\x80\x02}}.", "it ends too early"),
        (b"\x80\x02}.}", "it ends too early"),
        (
            b"\x80\x02\xff.",
            "the opcode 0xff is not one of a file of weights",
        ),
        (b"\x80\x02cbuiltins\neval\n.", "it uses `builtins.eval`"),
        (
            b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
            "it uses `os.system`",
        ),
        // `i` makes an instance, `o` too, and `\x81` calls `__new__`.
        (b"\x80\x02(ios\nsystem\n.", "the opcode 0x69 is not one"),
        (b"\x80\x02(o.", "the opcode 0x6f is not one"),
        (b"\x80\x02)\x81.", "the opcode 0x81 is not one"),
        (b"\x80\x02X\xff\xff\xff\xffa.", "it is cut"),
        (b"\x80\x02h\x07.", "the memo has no value 7"),
        (b"\x80\x02u.", "there is no mark"),
        (b"\x80\x02}(K\x01u.", "a key of a dict has no value"),
        (b"\x80\x02}(K\x01K\x02K\x01K\x03u.", "it has two values `1`"),
        (b"\x80\x02t.", "there is no mark"),
        (
            b"\x80\x02ccollections\nOrderedDict\n]\x85R.",
            "it calls OrderedDict with arguments",
        ),
        (
            b"\x80\x02X\x01\x00\x00\x00aQ.",
            "a persistent id is not that of a storage",
        ),
        (
            b"\x80\x02ctorch\nFloatStorage\n.",
            "is not a tensor, number, text, list or dict",
        ),
        (
            b"\x80\x02\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01.",
            "an integer has more than 64 bits",
        ),
        // A list that contains itself.
        (
            b"\x80\x02]q\x00h\x00a.",
            "its lists contain each other too often",
        ),
    ] {
        let text = reason("x.pt", &pickled(pickle));
        assert!(text.contains(part), "{pickle:?}: {text}");
    }
    let deep = [&b"\x80\x02"[..], &[b']'; 70], &[b'a'; 69], b"."].concat();
    let text = reason("x.pt", &pickled(&deep));
    assert!(
        text.contains("its dicts are nested deeper than 64"),
        "{text}"
    );
    // A dict with a list of ten times the list before, thirty deep.
    let mut nested = b"\x80\x02}]q\x000".to_vec();
    for i in 0..30 {
        nested.extend(b"](");
        nested.extend([b'h', i].repeat(10));
        nested.extend([b'e', b'q', i + 1, b'0']);
    }
    nested.extend(b"X\x01\x00\x00\x00ah\x1es.");
    let text = reason("x.pt", &pickled(&nested));
    assert!(
        text.contains("its lists contain each other too often"),
        "{text}"
    );
}

/// Returns the pickle of a tensor with an offset, a shape and strides of small numbers.
fn tensor(numel: u8, offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let numbers = |numbers: &[u8]| numbers.iter().flat_map(|n| [b'K', *n]).collect::<Vec<u8>>();
    [
        &b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"[..],
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK",
        &[numel],
        b"tQK",
        &[offset],
        b"(",
        &numbers(shape),
        b"t(",
        &numbers(strides),
        b"t\x89NtR.",
    ]
    .concat()
}

#[test]
fn tensors_outside_of_their_storage_are_errors() {
    let read_tensor = |pickle: &[u8]| read("x.pt", &pickled(pickle));
    let x = read_tensor(&tensor(6, 1, &[2, 2], &[1, 2]))
        .unwrap()
        .remove(0);
    assert_eq!(x.to_vec::<f32>(), [0.5, 1.5, 1.0, 2.0]);
    for (pickle, part) in [
        (
            tensor(6, 3, &[2, 2], &[1, 2]),
            "begins at byte 12 and does not fit in 24 bytes",
        ),
        (
            tensor(6, 0, &[7], &[1]),
            "begins at byte 0 and does not fit in 24 bytes",
        ),
        (
            tensor(6, 0, &[2], &[255]),
            "begins at byte 0 and does not fit in 24 bytes",
        ),
        (tensor(6, 0, &[2, 2], &[1]), "have different lengths"),
        (
            tensor(5, 0, &[2], &[1]),
            "its storage has 24 bytes, and the pickle names 5 elements of float32",
        ),
        (
            tensor(6, 0, &[200, 200, 200], &[0, 0, 0]),
            "24 bytes cannot stand for its shape",
        ),
    ] {
        let text = reason("x.pt", &pickled(&pickle));
        assert!(text.contains(part), "{text}");
    }
    let missing = checkpoint(|name, bytes| match name.ends_with("data.pkl") {
        true => {
            let mut pickle = tensor(6, 0, &[1], &[1]);
            let at = find(&pickle, b"X\x01\x00\x00\x000", 0);
            pickle[at + 5] = b'9';
            pickle
        }
        false => bytes,
    });
    let text = reason("x.pt", &missing);
    assert!(
        text.ends_with("the archive has no member `tensor/data/9`"),
        "{text}"
    );
    let wrong_order = checkpoint(|name, bytes| match name.ends_with("byteorder") {
        true => b"middle".to_vec(),
        false => bytes,
    });
    assert_eq!(
        reason("x.pt", &wrong_order),
        "its byte order is `middle`, expected `little` or `big`"
    );
}
