//! A writer that stops between any two changes of the folder never loses the last checkpoint.

use super::*;

fn model(number: f32) -> (Tensor, Vec<Tensor>) {
    let w = Tensor::from_vec((0..35).map(|i| i as f32 + number).collect(), [7, 5]);
    (
        w,
        vec![Tensor::full([3], number, DType::F32), Tensor::from(3i64)],
    )
}

/// Saves, and stops before the change with this number. Returns whether there was no such change.
fn save_until(folder: &Path, tree: &(Tensor, Vec<Tensor>), stop: usize) -> bool {
    let mesh = Arc::new(Mesh::new("m", &[("a", 4)]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["a"]]).unwrap();
    let specs: Specs = (rows, None).into();
    let mut n = 0;
    let mut before = || {
        n += 1;
        match n > stop {
            true => Err(io::Error::other("stopped")),
            false => Ok(()),
        }
    };
    let mut disk = Disk {
        folder,
        before: &mut before,
    };
    match save(&mut disk, tree, &mesh, &specs) {
        Ok(()) => true,
        Err(CheckpointError::Write { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the number that a checkpoint was made of, after a check that all its leaves are of one model.
fn loaded(folder: &Path) -> f32 {
    let (w, rest) = load_checkpoint(folder, &model(0.0), None).unwrap();
    let number = rest[0].to_vec::<f32>()[0];
    let (expected, expected_rest) = model(number);
    assert_eq!(w.to_vec::<f32>(), expected.to_vec::<f32>());
    assert_eq!(rest[0].to_vec::<f32>(), expected_rest[0].to_vec::<f32>());
    assert_eq!(rest[1].item::<i64>(), 3);
    number
}

#[test]
fn a_stop_between_any_two_writes_keeps_a_whole_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(save_until(folder, &model(0.0), usize::MAX));
    let (mut good, mut stop, mut n_replaced) = (0.0, 0, 0);
    loop {
        let next = good + 1.0;
        let is_done = save_until(folder, &model(next), stop);
        let found = loaded(folder);
        assert!(
            found == good || found == next,
            "{found} after a stop at {stop}"
        );
        n_replaced += usize::from(found == next);
        good = found;
        stop += 1;
        if is_done {
            break;
        }
    }
    // The folder, three changes for each of four shards and for the index, the folder after each, the list of files, and
    // at least one file that is removed.
    assert!(stop > 1 + 15 + 3, "{stop}");
    assert!(n_replaced >= 2, "{n_replaced}");
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 5, "four shards and the index");
}

#[test]
fn a_first_save_that_stops_leaves_no_checkpoint_or_a_whole_one() {
    let mut stop = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let is_done = save_until(folder, &model(1.0), stop);
        match folder.join(INDEX).exists() {
            true => assert_eq!(loaded(folder), 1.0),
            false => assert!(matches!(
                load_checkpoint(folder, &model(0.0), None),
                Err(CheckpointError::Read { .. })
            )),
        }
        stop += 1;
        if is_done {
            break;
        }
    }
}
