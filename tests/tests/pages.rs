//! The page of a trace of a user's model, in a browser without a window. The test is ignored if Chromium is not on the
//! path.

#[path = "../../core/view/tests/harness/mod.rs"]
#[cfg_attr(not(has_browser), allow(dead_code))]
mod harness;

use gradloom::prelude::*;
use gradloom::sharding::{Mesh, ShardingSpec, Speed, sharding_page};
use gradloom::trace::trace;
use harness::{ALL_DONE, check};
use std::sync::Arc;

#[derive(Clone, Tree)]
struct Block {
    gain: Tensor,
    query: Tensor,
    up: Tensor,
    down: Tensor,
}

#[traced]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let normed = x.rms_norm(&self.gain, 1e-5);
        let scores = normed.matmul(&self.query).matmul(normed.swap_axes(0, 1));
        let mixed = x + scores.softmax(-1).matmul(&normed);
        &mixed + mixed.matmul(&self.up).gelu().matmul(&self.down)
    }
}

fn block() -> Block {
    let [query, up, down] = Key::new(0).split_n();
    Block {
        gain: Tensor::ones([8], DType::F32),
        query: query.normal([8, 8], DType::F32),
        up: up.normal([8, 16], DType::F32),
        down: down.normal([16, 8], DType::F32),
    }
}

/// A reader finds the details of a node: its line in this file, statistics of its value, and the plan.
#[test]
#[cfg_attr(
    not(has_browser),
    ignore = "chromium is not on the path: install it (`apt-get install chromium`), then `touch tests/build.rs`"
)]
fn a_page_of_a_trace_works_in_a_browser() {
    let (block, x) = (block(), Key::new(1).normal([4, 8], DType::F32));
    let t = trace(
        |(block, x): &(Block, Tensor)| block.forward(x).square().mean(..),
        &(block.clone(), x.clone()),
    );
    let html = t.page_of("block", &(block, x)).html();
    assert_eq!(check("trace", &html, "f-e1"), ALL_DONE);
    let about = html
        .find("id=\"about-f-e1\"")
        .expect("the details of a node");
    let details = &html[about..][..html[about..].find("</article>").expect("an end")];
    for part in [
        "pages.rs:26<",
        "<dt>rms</dt>",
        "<dd>[4, 8]</dd>",
        "<dt>consumers</dt>",
    ] {
        assert!(details.contains(part), "no {part} in {details}");
    }

    // A trace with control flow, whose page has no pullback.
    let n = Tensor::from([1i64, 2, 3]);
    let t = trace(
        |n: &Tensor| {
            gradloom::scan(
                |c: &Tensor, n: &Tensor| (c + n, c * n),
                &Tensor::from(0i64),
                n,
            )
            .1
        },
        &n,
    );
    assert_eq!(
        check("scan", &t.page_of("scan", &n).html(), "f-e0"),
        ALL_DONE
    );
}

/// A reader finds the spec of each value, and what devices send.
#[test]
#[cfg_attr(
    not(has_browser),
    ignore = "chromium is not on the path: install it (`apt-get install chromium`), then `touch tests/build.rs`"
)]
fn a_page_of_a_divided_program_works_in_a_browser() {
    let mesh = Arc::new(Mesh::new("m", &[("model", 4)]).expect("a mesh"));
    let split = |dims: &[&[&str]]| ShardingSpec::split(&mesh, dims).expect("a spec of the mesh");
    let (columns, rows) = (split(&[&[], &["model"]]), split(&[&["model"], &[]]));
    let whole = split(&[&[], &[]]);
    let zeros = |shape: [usize; 2]| Tensor::zeros(shape, DType::F32);
    let page = sharding_page(
        "perceptron",
        |(x, u, v): &(Tensor, Tensor, Tensor)| x.matmul(u).relu().matmul(v),
        &mesh,
        (whole.clone(), columns, rows),
        whole,
        &(zeros([64, 32]), zeros([32, 128]), zeros([128, 32])),
        &Speed::default(),
    );
    let html = page.expect("the specs fit").html();
    // 2 * 3 quarters of 8192 bytes.
    let sent = "12288 B by all_reduce over &quot;model&quot;";
    assert!(html.contains(sent), "{html}");
    assert_eq!(check("sharded", &html, "f-e6"), ALL_DONE);
}
