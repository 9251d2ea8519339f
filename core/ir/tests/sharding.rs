//! Meshes and specs: validation, text and shapes of parts.

use gradloom_ir::sharding::{
    AxisRef, DimSharding, Link, Mesh, Reduction, ShardingError, ShardingSpec,
};
use std::sync::Arc;

fn mesh(text: &str) -> Arc<Mesh> {
    Arc::new(text.parse().unwrap_or_else(|e| panic!("{e}")))
}

fn parse(on: &str, spec: &str) -> Result<ShardingSpec, ShardingError> {
    ShardingSpec::parse(&mesh(on), spec)
}

/// Row S1.32 of the requirements.
#[test]
fn meshes_print_as_they_parse() {
    for text in [
        r#"mesh @m <[]>"#,
        r#"mesh @m <["x"=2, "y"=3]>"#,
        r#"mesh @pod <["data"=2, "model"=2], device_ids=[3, 2, 1, 0]>"#,
        r#"mesh @m <["x"=2, "y"=1], links={"x": 100 B/s 5 ns}>"#,
    ] {
        assert_eq!(mesh(text).to_string(), text);
    }
}

#[test]
fn meshes_are_equal_by_content() {
    let of = |axes: &[(&str, usize)]| Mesh::new("m", axes).unwrap();
    assert_eq!(of(&[("x", 2)]), of(&[("x", 2)]));
    assert_ne!(of(&[("x", 2)]), of(&[("x", 3)]));
    let devices = |devices: Vec<usize>| Mesh::with_devices("m", &[("x", 2)], devices).unwrap();
    assert_eq!(of(&[("x", 2)]), devices(vec![0, 1]));
    assert_ne!(of(&[("x", 2)]), devices(vec![1, 0]));
    let link = Link {
        bandwidth: 1,
        latency: 2,
    };
    assert_ne!(
        of(&[("x", 2)]).with_link("x", link).unwrap(),
        of(&[("x", 2)])
    );
}

#[test]
fn wrong_meshes_are_refused_in_words() {
    for (text, words) in [
        (
            r#"mesh @m <["x"=2, "x"=3]>"#,
            r#"the mesh has two axes called "x""#,
        ),
        (
            r#"mesh @m <["x"=0]>"#,
            r#"axis "x" has size 0, expected at least 1"#,
        ),
        (
            r#"mesh @m <["x"=2], device_ids=[0]>"#,
            "the mesh lists 1 devices, and its axes have 2 positions",
        ),
        (
            r#"mesh @m <["x"=2], device_ids=[4, 4]>"#,
            "the mesh lists device 4 twice",
        ),
        (
            r#"mesh @m <["x"=99999, "y"=99999]>"#,
            "a mesh of [99999, 99999] has more than 1048576 devices",
        ),
        (
            r#"mesh @m <["2"=2]>"#,
            "`2` is not a name; a name has letters, digits and `_`, and starts with a letter",
        ),
        (
            r#"mesh @m <["x"=2"#,
            "expected `,`, found the end of the text",
        ),
        (
            r#"mesh @m <["x"=2]> 3"#,
            "expected the end of the text, found ` 3`",
        ),
        (
            r#"mesh @m <["x"=99999999999999999999999]>"#,
            "expected a number that fits 64 bits, found `99999999999999999999999]>`",
        ),
        (
            r#"mesh @m <["x"=2], links={"y": 1 B/s 1 ns}>"#,
            r#"there is no axis "y" in mesh @m <["x"=2]>"#,
        ),
    ] {
        let error = text.parse::<Mesh>().unwrap_err();
        assert_eq!(error.to_string(), words, "{text}");
    }
}

#[test]
fn positions_have_coordinates_and_groups() {
    let m = mesh(r#"mesh @m <["x"=2, "y"=6]>"#);
    let part = AxisRef::part("y", 2, 3);
    let at = |position: usize, axis: AxisRef| m.coordinate(position, axis).unwrap();
    assert_eq!([at(11, "x".into()), at(11, "y".into())], [1, 5]);
    assert_eq!([at(11, AxisRef::part("y", 1, 2)), at(11, part)], [1, 2]);
    assert_eq!(at(3, part), 0);
    let groups = |axes: &[AxisRef]| m.groups(axes).unwrap();
    assert_eq!(groups(&[part])[..2], [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(
        groups(&[AxisRef::part("y", 1, 2), "x".into()])[0],
        [0, 6, 3, 9]
    );
    assert_eq!(groups(&[]).len(), 12);
}

const XY: &str = r#"mesh @m <["x"=4, "y"=2, "z"=3]>"#;

#[test]
fn specs_print_as_they_parse() {
    for text in [
        r#"sharding<@m, []>"#,
        r#"sharding<@m, [{"x"}, {}]>"#,
        r#"sharding<@m, [{"y", "x"}p2, {?}, {"z", ?}p1]>"#,
        r#"sharding<@m, [{"x":(1)2}, {"x":(2)2}]>"#,
        r#"sharding<@m, [{}], replicated={"x":(2)2, "z"}, partial={"x":(1)2: max, "y": sum}>"#,
        r#"sharding<@m, [{}], partial={"x": min, "y": prod}>"#,
    ] {
        let spec = parse(XY, text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn specs_have_a_canonical_form() {
    for (text, canonical) in [
        (
            r#"sharding<@m, [{"x":(1)2, "x":(2)2}]>"#,
            r#"sharding<@m, [{"x"}]>"#,
        ),
        (
            r#"sharding<@m, [{"x":(2)2, "x":(1)2}]>"#,
            r#"sharding<@m, [{"x":(2)2, "x":(1)2}]>"#,
        ),
        (
            r#"sharding<@m, [{"x":(1)4}p0]>"#,
            r#"sharding<@m, [{"x"}]>"#,
        ),
        (
            r#"sharding<@m, [{}], replicated={"z", "x"}>"#,
            r#"sharding<@m, [{}], replicated={"x", "z"}>"#,
        ),
        (
            r#"sharding<@m, [{}], partial={"x":(2)2: sum, "x":(1)2: sum}>"#,
            r#"sharding<@m, [{}], partial={"x": sum}>"#,
        ),
        (
            r#"sharding<@m, [{}], partial={"x":(2)2: sum, "x":(1)2: max}>"#,
            r#"sharding<@m, [{}], partial={"x":(1)2: max, "x":(2)2: sum}>"#,
        ),
    ] {
        let spec = parse(XY, text).unwrap();
        assert_eq!(spec.to_string(), canonical, "{text}");
        assert_eq!(spec, parse(XY, canonical).unwrap());
    }
}

#[test]
fn wrong_specs_are_refused_in_words() {
    for (text, words) in [
        (
            r#"sharding<@m, [{"x"}, {"x"}]>"#,
            r#""x" splits dim 0 and dim 1; an axis can split one dim"#,
        ),
        (r#"sharding<@m, [{"x", "x"}]>"#, r#""x" splits dim 0 twice"#),
        (
            r#"sharding<@m, [{"x"}, {"x":(1)2}]>"#,
            r#""x" and "x":(1)2 overlap, so a spec cannot have both"#,
        ),
        (
            r#"sharding<@m, [{"x"}], replicated={"x"}>"#,
            r#""x" splits dim 0, so the tensor is not replicated along it"#,
        ),
        (
            r#"sharding<@m, [{"x"}], partial={"x": sum}>"#,
            r#""x" splits dim 0, so the tensor is not partial along it"#,
        ),
        (
            r#"sharding<@m, [{}], replicated={"x"}, partial={"x": sum}>"#,
            r#"the tensor cannot be both replicated and partial along "x""#,
        ),
        (
            r#"sharding<@m, [{}], partial={"x": sum, "x": max}>"#,
            r#""x" is listed twice"#,
        ),
        (
            r#"sharding<@m, [{"w"}]>"#,
            r#"there is no axis "w" in mesh @m <["x"=4, "y"=2, "z"=3]>"#,
        ),
        (
            r#"sharding<@m, [{"x":(1)3}]>"#,
            "\"x\":(1)3 is not a part of an axis of size 4: the product of both numbers must divide it, \
             and the second one is at least 2",
        ),
        (
            r#"sharding<@n, [{}]>"#,
            "the spec refers to @n, expected @m",
        ),
        (
            r#"sharding<@m, [{?, "x"}]>"#,
            r#"expected `}`, found ` "x"}]>`"#,
        ),
        (
            r#"sharding<@m, [{}], partial={"x": mean}>"#,
            "expected `sum`, `max`, `min` or `prod` before this, found `}>`",
        ),
    ] {
        let error = parse(XY, text).expect_err(text);
        assert_eq!(error.to_string(), words, "{text}");
    }
    let spec = parse(XY, r#"sharding<@m, [{"x"}]>"#).unwrap();
    assert_eq!(
        spec.local_shape(&[2, 3]).unwrap_err().to_string(),
        "the spec is for tensors of rank 1, and the tensor has rank 2"
    );
}

#[test]
fn parts_of_an_axis_that_no_grid_has_overlap() {
    let error = parse(
        r#"mesh @m <["x"=12]>"#,
        r#"sharding<@m, [{"x":(1)2}, {"x":(3)2}]>"#,
    );
    assert!(
        matches!(error, Err(ShardingError::Overlap { .. })),
        "{error:?}"
    );
    let fine = parse(
        r#"mesh @m <["x"=12]>"#,
        r#"sharding<@m, [{"x":(1)2}, {"x":(6)2}]>"#,
    );
    assert_eq!(fine.unwrap().n_parts(), [2, 2]);
}

#[test]
fn the_last_parts_are_shorter_or_empty() {
    let m = Arc::new(Mesh::new("m", &[("x", 4)]).unwrap());
    let spec = ShardingSpec::split(&m, &[&["x"]]).unwrap();
    let ranges = |len: usize| -> Vec<_> {
        let at = |position| spec.ranges(&[len], position).unwrap()[0].clone();
        (0..4).map(at).collect()
    };
    assert_eq!(ranges(8), [0..2, 2..4, 4..6, 6..8]);
    assert_eq!(ranges(7), [0..2, 2..4, 4..6, 6..7]);
    assert_eq!(ranges(5), [0..2, 2..4, 4..5, 5..5]);
    assert_eq!(ranges(1), [0..1, 1..1, 1..1, 1..1]);
    assert_eq!(ranges(0), [0..0, 0..0, 0..0, 0..0]);
    assert_eq!(spec.local_shape(&[5]).unwrap(), [2]);
}

#[test]
fn the_first_axis_of_a_dim_is_the_major_one() {
    let m = Arc::new(Mesh::new("m", &[("x", 2), ("y", 2)]).unwrap());
    let starts = |dims: &[&str]| -> Vec<usize> {
        let spec = ShardingSpec::split(&m, &[dims]).unwrap();
        let start = |position| spec.ranges(&[8], position).unwrap()[0].start;
        (0..4).map(start).collect()
    };
    assert_eq!(starts(&["x", "y"]), [0, 2, 4, 6]);
    assert_eq!(starts(&["y", "x"]), [0, 4, 2, 6]);
}

#[test]
fn constructors_and_accessors_agree_with_the_text() {
    let m = mesh(XY);
    let spec = ShardingSpec::new(
        &m,
        vec![
            DimSharding::open(vec![AxisRef::new("x")]),
            DimSharding::closed(vec![]),
        ],
        vec!["y".into()],
        vec![("z".into(), Reduction::Max)],
    )
    .unwrap();
    let text = r#"sharding<@m, [{"x", ?}, {}], replicated={"y"}, partial={"z": max}>"#;
    assert_eq!(spec.to_string(), text);
    assert!(!spec.is_replicated());
    assert!(ShardingSpec::replicated(&m, 2).is_replicated());
    for kind in Reduction::ALL {
        assert_eq!(Reduction::from_name(kind.name()), Some(kind));
    }
}
