//! Layered layout: boxes in rows, with every edge between rows.
//!
//! `rust-sugiyama` ranks the boxes, orders each row and places the boxes in it. It does not return
//! the way of an edge that crosses rows. So it runs twice: the first run gives the rows, and the
//! second run also places *bends*, the points at which a value passes a row. All edges of a value
//! share its bends.

use rust_sugiyama::configure::{Config, CrossingMinimization, RankingType};
use std::collections::BTreeMap;

/// Space between neighbours in a row.
const BETWEEN: f64 = 18.0;
/// Space between rows.
const GAP: f64 = 34.0;
/// Width of a bend, together with the space beside it.
const BEND: f64 = 14.0;
/// Space between parts that no edge joins.
const APART: f64 = 30.0;
/// Number of boxes from which the layout runs on a thread with a larger stack. It recurses along
/// chains of boxes.
const MANY: usize = 300;
/// Size of the stack of that thread.
const STACK: usize = 1 << 29;

/// A box to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// The places of boxes and the ways of edges.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// The upper left corner of each box.
    pub(crate) corners: Vec<(f64, f64)>,
    /// For each edge the ends of its vertical pieces, from top to bottom. Between two pieces it
    /// crosses the space between two rows.
    pub(crate) ways: Vec<Vec<Descent>>,
}

/// A vertical piece of an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Descent {
    pub(crate) x: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Number of bends that a layout may have, for each box. More are slow to place, and too many lines to
/// follow.
const BENDS: usize = 2;
/// Number of bends that the layout of a few boxes may have.
const FEW_BENDS: usize = 600;

/// Returns whether each edge is too long to be drawn.
///
/// No edge is, unless there are so many that the layout would have too many bends. Then it is those
/// above a length that leaves few enough. Edges must lead from lower to higher boxes.
pub(crate) fn far_edges(n: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    // The rows that boxes have at least, and for boxes without operands the row above their first
    // consumer.
    let mut rows = vec![0; n];
    let mut has_operands = vec![false; n];
    let mut by_consumer = edges.to_vec();
    by_consumer.sort_by_key(|(_, to)| *to);
    for (from, to) in &by_consumer {
        rows[*to] = rows[*to].max(rows[*from] + 1);
        has_operands[*to] = true;
    }
    let mut first = vec![usize::MAX; n];
    for (from, to) in edges {
        first[*from] = first[*from].min(rows[*to]);
    }
    for i in (0..n).filter(|i| !has_operands[*i] && first[*i] != usize::MAX) {
        rows[i] = first[i] - 1;
    }
    let length = |e: &(usize, usize)| rows[e.1] - rows[e.0];
    let n_bends = |most: usize| {
        let mut longest = vec![1; n];
        for edge in edges.iter().filter(|e| length(e) <= most) {
            longest[edge.0] = longest[edge.0].max(length(edge));
        }
        longest.iter().map(|length| length - 1).sum::<usize>()
    };
    let enough = FEW_BENDS.max(BENDS * n);
    let lengths = std::iter::successors(Some(n), |most| Some(most * 3 / 4));
    let most = lengths
        .take_while(|most| *most > 4)
        .find(|most| n_bends(*most) <= enough);
    edges
        .iter()
        .map(|e| length(e) > most.unwrap_or(4))
        .collect()
}

/// Places boxes in rows so that each edge leads down.
pub(crate) fn layout(sizes: &[Size], edges: &[(usize, usize)]) -> Placement {
    if sizes.len() < MANY {
        return place(sizes, edges);
    }
    let (sizes, edges) = (sizes.to_vec(), edges.to_vec());
    let builder = std::thread::Builder::new().stack_size(STACK);
    let thread = builder.spawn(move || place(&sizes, &edges));
    let thread = thread.expect("the system starts a thread");
    match thread.join() {
        Ok(layout) => layout,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn place(sizes: &[Size], edges: &[(usize, usize)]) -> Placement {
    let parts = components(sizes.len(), edges);
    // Parts stand side by side, as wide as the widest part or a page.
    let placed: Vec<(Vec<usize>, Vec<usize>, Placement)> = parts
        .into_iter()
        .map(|(boxes, part_edges)| {
            let index: BTreeMap<usize, usize> =
                boxes.iter().enumerate().map(|(i, b)| (*b, i)).collect();
            let inner: Vec<Size> = boxes.iter().map(|b| sizes[*b]).collect();
            let ends = |e: &usize| (index[&edges[*e].0], index[&edges[*e].1]);
            let inner_edges: Vec<(usize, usize)> = part_edges.iter().map(ends).collect();
            let layout = place_connected(&inner, &inner_edges);
            (boxes, part_edges, layout)
        })
        .collect();
    let widest = placed.iter().map(|p| p.2.width).fold(1000.0, f64::max);
    let mut all = Placement {
        corners: vec![(0.0, 0.0); sizes.len()],
        ways: vec![Vec::new(); edges.len()],
        ..Placement::default()
    };
    let (mut x, mut y, mut shelf) = (0.0, 0.0, 0.0f64);
    for (boxes, part_edges, part) in placed {
        if x > 0.0 && x + part.width > widest {
            (x, y, shelf) = (0.0, y + shelf + APART, 0.0);
        }
        for (b, corner) in boxes.iter().zip(&part.corners) {
            all.corners[*b] = (corner.0 + x, corner.1 + y);
        }
        for (e, way) in part_edges.iter().zip(part.ways) {
            let moved = way.into_iter().map(|piece| Descent {
                x: piece.x + x,
                top: piece.top + y,
                bottom: piece.bottom + y,
            });
            all.ways[*e] = moved.collect();
        }
        all.width = all.width.max(x + part.width);
        all.height = all.height.max(y + part.height);
        shelf = shelf.max(part.height);
        x += part.width + APART;
    }
    all
}

/// Returns the boxes and edges of each part that edges join, in the order of their first boxes.
fn components(n: usize, edges: &[(usize, usize)]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut parent: Vec<usize> = (0..n).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    for (from, to) in edges {
        let (a, b) = (root(&mut parent, *from), root(&mut parent, *to));
        parent[a.max(b)] = a.min(b);
    }
    let mut parts: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for i in 0..n {
        let root = root(&mut parent, i);
        parts.entry(root).or_default().0.push(i);
    }
    for (e, (from, _)) in edges.iter().enumerate() {
        let root = root(&mut parent, *from);
        parts.entry(root).or_default().1.push(e);
    }
    parts.into_values().collect()
}

/// Places the boxes of one part. It has an edge, or a single box.
fn place_connected(sizes: &[Size], edges: &[(usize, usize)]) -> Placement {
    if edges.is_empty() {
        return Placement {
            width: sizes[0].width,
            height: sizes[0].height,
            corners: vec![(0.0, 0.0)],
            ways: Vec::new(),
        };
    }
    let rows = rows(sizes.len(), edges);
    let (points, bends) = with_bends(sizes, edges, &rows);
    let heights = row_heights(sizes, &rows);
    let tops: Vec<f64> = heights
        .iter()
        .scan(0.0, |y, height| {
            let top = *y;
            *y += height + GAP;
            Some(top)
        })
        .collect();
    let centers = centers(&points, edges, &rows, &bends);
    let left = |i: usize| centers[i] - points[i].width / 2.0;
    let least = (0..points.len()).map(left).fold(f64::INFINITY, f64::min);
    let right = (0..points.len()).map(|i| centers[i] + points[i].width / 2.0);
    let most = right.fold(f64::NEG_INFINITY, f64::max);
    let corners: Vec<(f64, f64)> = sizes
        .iter()
        .enumerate()
        .map(|(i, size)| {
            let x = centers[i] - size.width / 2.0 - least;
            (x, tops[rows[i]] + (heights[rows[i]] - size.height) / 2.0)
        })
        .collect();
    let ports = ports(sizes, edges, &rows, &bends, &centers);
    let ways = edges.iter().zip(ports).map(|((from, to), port)| {
        let (first, last) = (rows[*from], rows[*to]);
        let start = Descent {
            x: centers[*from] - least,
            top: corners[*from].1 + sizes[*from].height,
            bottom: tops[first] + heights[first],
        };
        let middle = (first + 1..last).map(|row| Descent {
            x: centers[bends[&(*from, row)]] - least,
            top: tops[row],
            bottom: tops[row] + heights[row],
        });
        let end = Descent {
            x: port - least,
            top: tops[last],
            bottom: corners[*to].1,
        };
        [start].into_iter().chain(middle).chain([end]).collect()
    });
    Placement {
        width: most - least,
        height: tops.last().unwrap_or(&0.0) + heights.last().unwrap_or(&0.0),
        ways: ways.collect(),
        corners,
    }
}

fn config() -> Config {
    Config {
        minimum_length: 1,
        vertex_spacing: 0.0,
        dummy_vertices: true,
        dummy_size: 0.0,
        ranking_type: RankingType::MinimizeEdgeLength,
        c_minimization: CrossingMinimization::Barycenter,
        transpose: true,
    }
}

/// Runs the layout and returns the centre of each box.
fn run(sizes: &[Size], edges: &[(usize, usize)], config: &Config) -> Vec<(f64, f64)> {
    let boxes: Vec<(u32, (f64, f64))> = (0u32..)
        .zip(sizes)
        .map(|(i, size)| (i, (size.width, size.height)))
        .collect();
    let edges: Vec<(u32, u32)> = edges.iter().map(|(a, b)| (*a as u32, *b as u32)).collect();
    let mut centers = vec![(0.0, 0.0); sizes.len()];
    for (part, _, _) in rust_sugiyama::from_vertices_and_edges(&boxes, &edges, config) {
        for (i, center) in part {
            centers[i] = center;
        }
    }
    centers
}

/// Returns the row of each box.
fn rows(n: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let unit = Size {
        width: 1.0,
        height: 1.0,
    };
    let config = Config {
        // Only the rows are needed.
        transpose: false,
        ..config()
    };
    let centers = run(&vec![unit; n], edges, &config);
    // Every row has the height 1.
    let first = centers.iter().map(|c| c.1).fold(f64::INFINITY, f64::min);
    centers
        .iter()
        .map(|c| (c.1 - first).round() as usize)
        .collect()
}

/// The index of the bend of a box in a row.
type Bends = BTreeMap<(usize, usize), usize>;

/// Returns the boxes with space around them, followed by the bends.
fn with_bends(sizes: &[Size], edges: &[(usize, usize)], rows: &[usize]) -> (Vec<Size>, Bends) {
    let mut points: Vec<Size> = sizes
        .iter()
        .map(|size| Size {
            width: size.width + BETWEEN,
            height: 1.0,
        })
        .collect();
    let mut bends = Bends::new();
    for (from, to) in edges {
        for row in rows[*from] + 1..rows[*to] {
            bends.entry((*from, row)).or_insert_with(|| {
                points.push(Size {
                    width: BEND,
                    height: 1.0,
                });
                points.len() - 1
            });
        }
    }
    (points, bends)
}

fn row_heights(sizes: &[Size], rows: &[usize]) -> Vec<f64> {
    let n = rows.iter().max().map_or(0, |last| last + 1);
    let mut heights = vec![0.0f64; n];
    for (size, row) in sizes.iter().zip(rows) {
        heights[*row] = heights[*row].max(size.height);
    }
    heights
}

/// Returns the horizontal centres of boxes and bends. Neighbours in a row do not overlap.
fn centers(points: &[Size], edges: &[(usize, usize)], rows: &[usize], bends: &Bends) -> Vec<f64> {
    let mut row_of = rows.to_vec();
    row_of.resize(points.len(), 0);
    let mut short: Vec<(usize, usize)> = Vec::new();
    for ((from, row), bend) in bends {
        row_of[*bend] = *row;
        let above = match row - rows[*from] {
            1 => *from,
            _ => bends[&(*from, row - 1)],
        };
        short.push((above, *bend));
    }
    for (from, to) in edges {
        short.push((last_point(*from, rows[*to], rows, bends), *to));
    }
    let mut xs: Vec<f64> = run(points, &short, &config()).iter().map(|c| c.0).collect();
    let mut ordered: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, row) in row_of.iter().enumerate() {
        ordered.entry(*row).or_default().push(i);
    }
    for row in ordered.values_mut() {
        row.sort_by(|a, b| xs[*a].total_cmp(&xs[*b]).then(a.cmp(b)));
    }
    let rows_in_order: Vec<Vec<usize>> = ordered.into_values().collect();
    straighten(points, rows.len(), &short, &rows_in_order, &mut xs);
    xs
}

/// Moves the points of each row, in their order, so that chains are straight.
///
/// This is the priority method of Sugiyama, Tagawa and Toda, "Methods for visual understanding of
/// hierarchical system structures" (1981), with a least-squares fit in each row. A box is drawn to its
/// operands, or to its consumers, in turn. A *leaf*, such as a parameter that one equation reads, is
/// drawn to its consumer and draws nothing.
fn straighten(
    points: &[Size],
    n_boxes: usize,
    short: &[(usize, usize)],
    rows: &[Vec<usize>],
    xs: &mut [f64],
) {
    let (mut above, mut below) = (vec![Vec::new(); xs.len()], vec![Vec::new(); xs.len()]);
    for (from, to) in short {
        below[*from].push(*to);
        above[*to].push(*from);
    }
    let is_leaf = |i: usize| above[i].is_empty() && below[i].len() == 1;
    let priority = |i: usize| match i {
        i if i >= n_boxes => 8.0,
        i if is_leaf(i) => 0.05,
        _ => 4.0,
    };
    let mean = |of: &[usize], xs: &[f64]| {
        let computed: Vec<usize> = of.iter().copied().filter(|i| !is_leaf(*i)).collect();
        let of = if computed.is_empty() { of } else { &computed };
        let sum: f64 = of.iter().map(|i| xs[*i]).sum();
        (!of.is_empty()).then(|| sum / of.len() as f64)
    };
    for _ in 0..6 {
        for row in rows.iter().rev() {
            let wish = |i: &usize| mean(&below[*i], xs).unwrap_or(xs[*i]);
            let wishes: Vec<f64> = row.iter().map(wish).collect();
            fit(points, row, &wishes, &priority, xs);
        }
        for row in rows {
            let wish = |i: &usize| {
                let of = if is_leaf(*i) { &below[*i] } else { &above[*i] };
                mean(of, xs).unwrap_or(xs[*i])
            };
            let wishes: Vec<f64> = row.iter().map(wish).collect();
            fit(points, row, &wishes, &priority, xs);
        }
    }
    // At last, only leaves move.
    for row in rows {
        let wish = |i: &usize| match is_leaf(*i) {
            true => xs[below[*i][0]],
            false => xs[*i],
        };
        let wishes: Vec<f64> = row.iter().map(wish).collect();
        let firm = |i: usize| if is_leaf(i) { 1.0 } else { 1e9 };
        fit(points, row, &wishes, &firm, xs);
    }
}

/// Moves the points of a row as close to their wishes as their widths allow.
///
/// Minimises the sum of `priority * (x - wish)^2`, by merging neighbours that would overlap.
fn fit(
    points: &[Size],
    row: &[usize],
    wishes: &[f64],
    priority: &dyn Fn(usize) -> f64,
    xs: &mut [f64],
) {
    // A block of neighbours that touch: its number of points, its priority, and the weighted mean of
    // where its first point would be.
    let mut blocks: Vec<(usize, f64, f64)> = Vec::new();
    let mut offsets: Vec<f64> = Vec::new();
    let mut offset = 0.0;
    for (at, i) in row.iter().enumerate() {
        if at > 0 {
            offset += (points[row[at - 1]].width + points[*i].width) / 2.0;
        }
        offsets.push(offset);
        let mut block = (1, priority(*i), wishes[at] - offset);
        while let Some(before) = blocks.pop_if(|before| before.2 > block.2) {
            let weight = before.1 + block.1;
            let mean = (before.1 * before.2 + block.1 * block.2) / weight;
            block = (before.0 + block.0, weight, mean);
        }
        blocks.push(block);
    }
    let mut at = 0;
    for (n, _, start) in blocks {
        for _ in 0..n {
            xs[row[at]] = start + offsets[at];
            at += 1;
        }
    }
}

/// Returns the point above `row` from which an edge of `from` enters it.
fn last_point(from: usize, row: usize, rows: &[usize], bends: &Bends) -> usize {
    match row - rows[from] {
        1 => from,
        _ => bends[&(from, row - 1)],
    }
}

/// Returns where each edge enters its consumer: side by side, in the order in which they arrive.
fn ports(
    sizes: &[Size],
    edges: &[(usize, usize)],
    rows: &[usize],
    bends: &Bends,
    centers: &[f64],
) -> Vec<f64> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); sizes.len()];
    for (e, (_, to)) in edges.iter().enumerate() {
        into[*to].push(e);
    }
    let mut ports = vec![0.0; edges.len()];
    for (to, incoming) in into.iter_mut().enumerate() {
        let arrives = |e: &usize| centers[last_point(edges[*e].0, rows[to], rows, bends)];
        incoming.sort_by(|a, b| arrives(a).total_cmp(&arrives(b)).then(a.cmp(b)));
        let step = sizes[to].width / (incoming.len() + 1) as f64;
        for (i, e) in incoming.iter().enumerate() {
            ports[*e] = centers[to] - sizes[to].width / 2.0 + step * (i + 1) as f64;
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers of a model: a chain with skips, and a value that all layers read.
    fn layers(n: usize) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for layer in 0..n {
            let first = 2 + layer * 5;
            let before = if layer == 0 { 0 } else { first - 1 };
            let [weight, product, masked, wide, sum] = [0, 1, 2, 3, 4].map(|i| first + i);
            edges.extend([
                (before, product),
                (weight, product),
                (product, masked),
                (1, masked),
            ]);
            edges.extend([(masked, wide), (product, wide), (wide, sum), (before, sum)]);
        }
        edges
    }

    fn sizes(n: usize) -> Vec<Size> {
        let size = |i: usize| Size {
            width: 40.0 + (i * 37 % 11) as f64 * 25.0,
            height: 20.0 + (i * 13 % 5) as f64 * 16.0,
        };
        (0..n).map(size).collect()
    }

    #[track_caller]
    fn check(sizes: &[Size], edges: &[(usize, usize)]) {
        let found = layout(sizes, edges);
        let area = |i: usize| {
            let (x, y) = found.corners[i];
            (x, y, x + sizes[i].width, y + sizes[i].height)
        };
        for i in 0..sizes.len() {
            let a = area(i);
            assert!(a.0 >= 0.0 && a.1 >= 0.0 && a.2 <= found.width && a.3 <= found.height);
            for j in 0..i {
                let b = area(j);
                let apart = a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
                assert!(apart, "{i} {a:?} overlaps {j} {b:?}");
            }
        }
        for ((from, to), way) in edges.iter().zip(&found.ways) {
            let (start, end) = (way[0], way[way.len() - 1]);
            assert_eq!(start.top, area(*from).3);
            assert_eq!(end.bottom, area(*to).1);
            for piece in way {
                assert!(piece.top <= piece.bottom, "{from} -> {to}: {piece:?}");
                let through = |i: usize| {
                    let a = area(i);
                    let inside = a.0 < piece.x && piece.x < a.2;
                    inside && piece.top < a.3 && a.1 < piece.bottom
                };
                let hit = (0..sizes.len()).find(|i| through(*i));
                assert_eq!(hit, None, "{from} -> {to} crosses a box");
            }
            for pair in way.windows(2) {
                assert!(pair[0].bottom < pair[1].top);
            }
        }
    }

    #[test]
    fn boxes_do_not_overlap_and_no_edge_crosses_a_box() {
        check(&sizes(1), &[]);
        check(&sizes(2), &[(0, 1)]);
        check(&sizes(4), &[(0, 1), (2, 3)]);
        for n in [1, 2, 12, 40] {
            check(&sizes(2 + 5 * n), &layers(n));
        }
    }

    #[test]
    fn only_long_edges_of_large_graphs_are_far() {
        let edges = layers(40);
        assert!(!far_edges(202, &edges).contains(&true));
        // A chain, and its values in the opposite order, as a pullback reads them.
        let n = 200;
        let chain = (1..2 * n).map(|i| (i - 1, i));
        let edges: Vec<(usize, usize)> = chain.chain((0..n).map(|i| (i, 2 * n - 1 - i))).collect();
        let far = far_edges(2 * n, &edges);
        let lengths = |is_far| {
            let chosen = edges
                .iter()
                .zip(&far)
                .filter(move |(_, far)| **far == is_far);
            chosen.map(|((from, to), _)| to - from)
        };
        let (longest, shortest) = (lengths(false).max(), lengths(true).min());
        assert!(
            longest < shortest && longest > Some(10),
            "{longest:?} {shortest:?}"
        );
    }

    #[test]
    fn random_graphs_are_placed() {
        let mut state = 1u64;
        let mut next = move |below: usize| {
            // Knuth's MMIX.
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..150 {
            let n = 2 + next(70);
            let reach = 1 + next(n);
            let mut edges: Vec<(usize, usize)> = Vec::new();
            for to in 1..n {
                for _ in 0..next(4) {
                    let edge = (to - 1 - next(reach.min(to)), to);
                    if !edges.contains(&edge) {
                        edges.push(edge);
                    }
                }
            }
            check(&sizes(n), &edges);
        }
    }

    #[test]
    fn a_layout_is_the_same_each_time() {
        let (sizes, edges) = (sizes(62), layers(12));
        let first = format!("{:?}", layout(&sizes, &edges));
        for _ in 0..5 {
            assert_eq!(format!("{:?}", layout(&sizes, &edges)), first);
        }
    }

    #[test]
    fn a_chain_of_thousands_of_boxes_is_placed() {
        let edges: Vec<(usize, usize)> = (0..1999).map(|i| (i, i + 1)).collect();
        let found = layout(&sizes(2000), &edges);
        assert_eq!(found.corners.len(), 2000);
    }
}
