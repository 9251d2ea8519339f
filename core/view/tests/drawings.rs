//! What DOT, SVG and the page contain, for the programs in `programs`.

mod common;

use common::{FILES, HOSTILE, Tag, code, gradient, hostile, tags, transformer};
use gradloom_ir::{Program, Var, ad};
use gradloom_view::{
    Listing, Metadata, Page, PlanStep, PlanTable, SourceLine, Statistics, VarInfo, dot,
    dot_of_listing, svg, svg_of_listing,
};
use std::fs;
use std::path::Path;

#[test]
fn programs_print_as_they_were_read() {
    for name in FILES {
        insta::assert_snapshot!(format!("text_{name}"), code(name));
    }
}

#[test]
fn dot_has_clusters_for_programs_and_scopes() {
    for name in FILES {
        insta::assert_snapshot!(format!("dot_{name}"), dot_of_listing(&code(name)));
    }
}

/// A rectangle around a node, with the ids of its node and of the nodes around that.
#[derive(Debug)]
struct Area {
    ids: Vec<String>,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

fn number(tag: &Tag, name: &str) -> f64 {
    tag.attributes[name].parse().expect("a number")
}

fn areas(tags: &[Tag]) -> Vec<Area> {
    let bodies = tags
        .iter()
        .filter(|t| t.name == "rect" && ["body", "chip"].contains(&t.attributes["class"].as_str()));
    bodies
        .map(|tag| Area {
            ids: tag.inside.clone(),
            left: number(tag, "x"),
            top: number(tag, "y"),
            right: number(tag, "x") + number(tag, "width"),
            bottom: number(tag, "y") + number(tag, "height"),
        })
        .collect()
}

#[track_caller]
fn check_svg(text: &str) {
    let tags = tags(text);
    let areas = areas(&tags);
    assert!(!areas.is_empty());
    let (width, height) = (number(&tags[0], "width"), number(&tags[0], "height"));
    for (i, a) in areas.iter().enumerate() {
        assert!(
            a.left > 0.0 && a.top > 0.0 && a.right < width && a.bottom < height,
            "{a:?}"
        );
        for b in &areas[..i] {
            let apart =
                a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
            let inside = a.ids.starts_with(&b.ids)
                && b.left < a.left
                && a.right < b.right
                && b.top < a.top
                && a.bottom < b.bottom;
            assert!(apart || inside, "{a:?} overlaps {b:?}");
        }
    }
    // Labels fit in their boxes. `tags` gives the text of a `tspan`, and of what follows it, to the
    // `tspan`.
    let mut line: Option<(&Tag, f64)> = None;
    for tag in tags.iter().chain([&tags[0]]) {
        if tag.name == "tspan" {
            let (_, columns) = line.as_mut().expect("a line around a piece");
            *columns += tag.text.trim_end_matches('\n').chars().count() as f64;
            continue;
        }
        if let Some((text, columns)) = line.take() {
            let area = areas.iter().find(|area| area.ids == text.inside);
            let area = area.expect("the box of a label");
            // The advance of the widest of the fonts.
            let right = number(text, "x") + columns * 12.0 * 0.62;
            assert!(right <= area.right, "{text:?} is wider than {area:?}");
            let (base, left) = (number(text, "y"), number(text, "x"));
            assert!(area.left < left && area.top + 10.0 < base && base + 3.0 < area.bottom);
        }
        let is_label =
            tag.name == "text" && tag.attributes.get("class").is_none_or(|c| c == "soft");
        if is_label {
            line = Some((tag, tag.text.trim_end_matches('\n').chars().count() as f64));
        }
    }
}

#[test]
fn boxes_do_not_overlap_and_labels_fit() {
    for name in FILES {
        check_svg(&svg_of_listing(&code(name)));
    }
    check_svg(&svg(&transformer(12)));
    check_svg(&svg(&hostile()));
    let gradient = svg(&gradient(3));
    check_svg(&gradient);
    assert!(gradient.matches("class=\"far\"").count() > 20);
    let vjp = vjp(&transformer(3));
    check_svg(&svg(&vjp.primal));
    check_svg(&svg(&vjp.pullback));
}

/// Returns the text of each program in the tests of the IR.
fn programs_of_the_ir(folder: &Path, out: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            programs_of_the_ir(&path, out);
        } else if path.extension().is_some_and(|e| e == "ir") {
            let text = fs::read_to_string(&path).expect("a file");
            let input = text.split("----\n").next().unwrap_or_default();
            let program = input.split_once('\n').expect("a header line").1;
            out.push((path.display().to_string(), program.to_owned()));
        }
    }
}

#[test]
fn each_program_of_the_tests_of_the_ir_is_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ir/tests/programs");
    let mut programs = Vec::new();
    programs_of_the_ir(&folder, &mut programs);
    let mut n_drawn = 0;
    for (file, text) in programs {
        // Some of the tests are about errors of the parser.
        let Ok(code) = text.parse::<Listing>() else {
            continue;
        };
        println!("{file}");
        let has_nodes = svg_of_listing(&code).contains("class=\"body\"");
        if has_nodes {
            check_svg(&svg_of_listing(&code));
        }
        tags(&Page::new(file).forward(code, Metadata::new()).html());
        n_drawn += 1;
    }
    assert!(n_drawn > 70, "{n_drawn} programs");
}

#[test]
fn a_drawing_is_the_same_each_time() {
    let program = transformer(2);
    assert_eq!(svg(&program), svg(&program));
}

fn vjp(program: &Program) -> ad::Vjp {
    ad::vjp(program, &program.params)
}

fn metadata(program: &Program) -> Metadata {
    let vars = program
        .params
        .iter()
        .chain(program.eqns.iter().flat_map(|e| &e.outs));
    let info = |var: &Var| VarInfo {
        source: Some(SourceLine {
            file: format!("src/<{HOSTILE}>.rs"),
            line: var.0 + 1,
        }),
        statistics: Some(Statistics::new([1.0, -2.0, f64::NAN])),
        notes: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
        ..VarInfo::default()
    };
    vars.map(|var| (*var, info(var))).collect()
}

#[test]
fn the_page_is_well_formed_and_needs_no_network() {
    for name in FILES {
        let code = code(name);
        let mut page = Page::new(name).forward(code.clone(), Metadata::new());
        if let Listing::Program(program) = code {
            page = page.backward(vjp(&program).pullback, Metadata::new());
        }
        let html = page.html();
        for tag in tags(&html) {
            for name in ["src", "href"] {
                let link = tag.attributes.get(name);
                assert!(link.is_none_or(|link| link.starts_with('#')), "{tag:?}");
            }
        }
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !outside.contains("http") && !outside.contains("url("),
            "{name}"
        );
    }
    tags(&Page::new("nothing").html());
}

#[test]
fn every_link_leads_to_a_node_and_every_node_has_details() {
    let vjp = vjp(&transformer(1));
    let page = Page::new("block")
        .forward(gradient(3), Metadata::new())
        .backward(vjp.pullback, Metadata::new());
    let tags = tags(&page.html());
    let ids: Vec<&String> = tags.iter().filter_map(|t| t.attributes.get("id")).collect();
    let (mut n_links, mut n_nodes) = (0, 0);
    for tag in &tags {
        if let Some(link) = tag.attributes.get("href") {
            assert!(ids.contains(&&link[1..].to_owned()), "{link}");
            n_links += 1;
        }
        if tag
            .attributes
            .get("class")
            .is_some_and(|c| c.starts_with("node"))
        {
            assert!(ids.contains(&&format!("about-{}", tag.attributes["id"])));
            n_nodes += 1;
        }
        if let Some(node) = tag.attributes.get("data-node") {
            assert!(ids.contains(&node), "{node}");
        }
        for other in tag
            .attributes
            .get("data-same")
            .iter()
            .flat_map(|s| s.split(' '))
        {
            assert!(ids.contains(&&other.to_owned()), "{other}");
        }
    }
    assert!(
        n_links > 300 && n_nodes > 100,
        "{n_links} links, {n_nodes} nodes"
    );
}

#[test]
fn names_and_strings_are_escaped() {
    let program = hostile();
    let plan = PlanTable {
        steps: vec![PlanStep {
            kernel: HOSTILE.to_owned(),
            values: vec![HOSTILE.to_owned(), format!("z{HOSTILE}")],
            bytes: Some(1),
            note: HOSTILE.to_owned(),
        }],
        text: HOSTILE.to_owned(),
    };
    let page = Page::new(HOSTILE)
        .forward(&program, metadata(&program))
        .backward(&program, metadata(&program))
        .plan(plan);
    let html = page.html();
    let tags = tags(&html);
    assert!(
        tags.iter()
            .all(|tag| tag.name != "b" || !tag.attributes.contains_key("onclick"))
    );
    assert_eq!(html.matches("</script").count(), 1);
    assert_eq!(html.matches("<script").count(), 1);
    let shown = HOSTILE.replace('\u{0}', "\u{fffd}");
    let title = tags
        .iter()
        .find(|tag| tag.name == "title")
        .expect("a title");
    assert_eq!(title.text.trim(), shown);
    let dot = dot(&program);
    assert!(
        dot.contains(&shown.replace('\\', "\\\\").replace('"', "\\\"")),
        "{dot}"
    );
}

#[test]
fn the_page_shows_what_the_caller_knows() {
    let Listing::Program(program) = code("dense") else {
        panic!("straight-line code");
    };
    let step = PlanStep {
        kernel: "gemm".into(),
        values: vec!["h".into(), "gone".into()],
        bytes: Some(4096),
        note: String::new(),
    };
    let plan = PlanTable {
        steps: vec![step],
        ..PlanTable::default()
    };
    let page = Page::new("dense")
        .forward(&program, metadata(&program))
        .plan(plan);
    let tags = tags(&page.html());
    let about = |id: &str| {
        let id = format!("about-{id}");
        let inside = tags
            .iter()
            .filter(|t| t.inside.contains(&id) && ["dt", "dd", "a"].contains(&t.name.as_str()));
        let texts: Vec<&str> = inside.map(|t| t.text.trim()).collect();
        texts.join(" | ")
    };
    insta::assert_snapshot!(about("f-e2"));
    let plan: Vec<&str> = tags
        .iter()
        .filter(|t| t.inside.contains(&"plan".to_owned()))
        .map(|t| t.text.trim())
        .filter(|t| !t.is_empty())
        .collect();
    assert_eq!(
        plan,
        [
            "step", "kernel", "values", "bytes", "0", "gemm", "h, gone", "4096"
        ]
    );
    // The value has a NaN.
    let node = tags
        .iter()
        .find(|t| t.attributes.get("id").is_some_and(|id| id == "f-e2"));
    assert_eq!(node.expect("a node").attributes["class"], "node each bad");
}

#[test]
fn residuals_are_not_results() {
    let program = transformer(1);
    let vjp = vjp(&program);
    let page = Page::new("block").forward(vjp.primal, Metadata::new());
    let n_marked = |page: Page| {
        let tags = tags(&page.html());
        let classes = tags.iter().filter_map(|t| t.attributes.get("class"));
        classes.filter(|class| class.ends_with(" result")).count()
    };
    assert!(n_marked(page.clone()) > 20);
    assert_eq!(n_marked(page.results(vjp.n_outs)), 1);
}

#[test]
fn values_of_both_programs_are_joined_by_name() {
    let Listing::Program(program) = code("digits") else {
        panic!("straight-line code");
    };
    let vjp = vjp(&program);
    let h1 = |program: &Program| {
        let named = program.names.iter().find(|(_, name)| *name == "h1");
        named.expect("the value").0
    };
    let at = |vars: &[Var], var| vars.iter().position(|v| *v == var).expect("a parameter");
    let parameter = at(&vjp.pullback.params, h1(&vjp.pullback));
    let page = Page::new("digits")
        .forward(vjp.primal, Metadata::new())
        .backward(vjp.pullback, Metadata::new());
    let tags = tags(&page.html());
    let node = tags
        .iter()
        .find(|t| t.attributes.get("id").is_some_and(|id| id == "f-e2"));
    let same = &node.expect("the node of h1").attributes["data-same"];
    let same: Vec<&str> = same.split(' ').collect();
    assert_eq!(same[0], format!("b-p{parameter}"));
    assert!(same[1].starts_with("b-e"), "{same:?}");
}

#[test]
fn a_program_with_faults_is_drawn() {
    for text in [
        "(v0) { v1, v2 = tanh v0 return v1 }",
        "(v0: f32[2]) { v1 = add v0, v9 return v1, v7 }",
        "(v0, v0) { v1 = neg v0 v1 = neg v1 return v1 }",
        "() { return }",
        "(x: f32[0], unused: f32[3]) { return x, x }",
    ] {
        let program: Program = text.parse().expect("it parses");
        tags(&svg(&program));
        tags(&Page::new("f").forward(&program, Metadata::new()).html());
        dot(&program);
    }
}
