//! Minimum cuts of a network, by Dinic's algorithm.

use std::collections::VecDeque;

/// A directed graph whose edges have capacities.
pub(super) struct Network {
    /// For each node, the edges that leave it and the reverses of those that enter it.
    leaving: Vec<Vec<usize>>,
    /// The edges. Edge `i ^ 1` is the reverse of edge `i` and holds the flow through it.
    edges: Vec<Edge>,
}

struct Edge {
    to: usize,
    left: u128,
}

impl Network {
    /// A capacity so high that no minimum cut contains the edge.
    pub(super) const UNCUT: u128 = u128::MAX / 4;

    pub(super) fn new(n_nodes: usize) -> Network {
        Network {
            leaving: vec![Vec::new(); n_nodes],
            edges: Vec::new(),
        }
    }

    pub(super) fn edge(&mut self, from: usize, to: usize, capacity: u128) {
        self.leaving[from].push(self.edges.len());
        self.edges.push(Edge { to, left: capacity });
        self.leaving[to].push(self.edges.len());
        self.edges.push(Edge { to: from, left: 0 });
    }

    /// Returns which nodes are on the sink's side of the minimum cut nearest the sink.
    pub(super) fn sink_side(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let level = self.levels(source);
            if level[sink] == usize::MAX {
                break;
            }
            let mut next = vec![0; self.leaving.len()];
            while self.augment(source, sink, &level, &mut next) {}
        }
        // A node is on the sink's side if more flow can go from it to the sink.
        let mut side = vec![false; self.leaving.len()];
        side[sink] = true;
        let mut open = vec![sink];
        while let Some(node) = open.pop() {
            for &e in &self.leaving[node] {
                let from = self.edges[e].to;
                if self.edges[e ^ 1].left > 0 && !side[from] {
                    side[from] = true;
                    open.push(from);
                }
            }
        }
        side
    }

    /// Returns the distance of each node from the source, over edges with spare capacity.
    fn levels(&self, source: usize) -> Vec<usize> {
        let mut level = vec![usize::MAX; self.leaving.len()];
        level[source] = 0;
        let mut open = VecDeque::from([source]);
        while let Some(node) = open.pop_front() {
            for &e in &self.leaving[node] {
                let Edge { to, left } = self.edges[e];
                if left > 0 && level[to] == usize::MAX {
                    level[to] = level[node] + 1;
                    open.push_back(to);
                }
            }
        }
        level
    }

    /// Sends flow along one shortest path, and returns whether there was one.
    ///
    /// `next` holds the next edge to try for each node. An edge that failed once fails for the rest
    /// of the phase.
    fn augment(&mut self, source: usize, sink: usize, level: &[usize], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            let Some(&e) = self.leaving[node].get(next[node]) else {
                // A dead end. Go back to the previous node and try its next edge.
                let Some(e) = path.pop() else {
                    return false;
                };
                node = self.edges[e ^ 1].to;
                next[node] += 1;
                continue;
            };
            let Edge { to, left } = self.edges[e];
            if left > 0 && level[to] == level[node] + 1 {
                path.push(e);
                node = to;
            } else {
                next[node] += 1;
            }
        }
        let flow = path.iter().map(|e| self.edges[*e].left).min();
        let flow = flow.expect("the source is not the sink");
        for e in path {
            self.edges[e].left -= flow;
            self.edges[e ^ 1].left += flow;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn the_minimum_cut_nearest_to_the_sink_is_found() {
        // 0 -> 1 -> 2 -> 3 -> 4 with capacities 5, 2, 7, 2: both edges of capacity 2 are minimum
        // cuts.
        let mut network = Network::new(5);
        for (i, capacity) in [5, 2, 7, 2].into_iter().enumerate() {
            network.edge(i, i + 1, capacity);
        }
        assert_eq!(network.sink_side(0, 4), [false, false, false, false, true]);
    }

    #[test]
    fn flow_on_a_wrong_path_is_rerouted() {
        // The path 0 1 2 3 blocks both others until it is undone. The maximum flow is 2.
        let mut network = Network::new(4);
        for (from, to) in [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3)] {
            network.edge(from, to, 1);
        }
        assert_eq!(network.sink_side(0, 3), [false, false, false, true]);
    }

    #[test]
    fn the_cut_is_as_small_as_the_smallest_found_by_exhaustive_search() {
        const N: usize = 6;
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % n
        };
        for _ in 0..300 {
            let edges: Vec<(usize, usize, u128)> = (0..10)
                .map(|_| {
                    (
                        below(N as u64) as usize,
                        below(N as u64) as usize,
                        below(4).into(),
                    )
                })
                .collect();
            let mut network = Network::new(N);
            for &(from, to, capacity) in &edges {
                network.edge(from, to, capacity);
            }
            let cost = |side: &dyn Fn(usize) -> bool| -> u128 {
                let cut = edges
                    .iter()
                    .filter(|(from, to, _)| !side(*from) && side(*to));
                cut.map(|(.., capacity)| capacity).sum()
            };
            // A cut is a set of nodes with the sink 5 and without the source 0.
            let sides = || (0..1_u32 << N).filter(|set| set & 1 == 0 && set >> 5 & 1 == 1);
            let least = sides().map(|set| cost(&|i| set >> i & 1 == 1)).min();
            let smallest = sides()
                .filter(|set| Some(cost(&|i| set >> i & 1 == 1)) == least)
                .fold(u32::MAX, |a, b| a & b);
            let found = network.sink_side(0, 5);
            assert_eq!(Some(cost(&|i| found[i])), least, "{edges:?}");
            for (i, on_side) in found.iter().enumerate() {
                assert_eq!(*on_side, smallest >> i & 1 == 1, "{edges:?}");
            }
        }
    }
}
