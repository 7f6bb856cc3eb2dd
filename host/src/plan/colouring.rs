//! Edge colouring: which transfers may share a round.

/// Colours the edges of a bipartite multigraph so that edges at one node differ, with as many
/// colours as the largest degree (Kőnig's theorem, by alternating paths).
///
/// `edges` are (left, right) pairs of nodes below `nodes`; the result holds a colour for each.
pub fn colour_edges(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut degree = vec![0; 2 * nodes];
    for &(left, right) in edges {
        degree[left] += 1;
        degree[nodes + right] += 1;
    }
    let colours = degree.into_iter().max().unwrap_or(0);
    let mut graph = Colouring::new(nodes, colours);
    for (edge, &(left, right)) in edges.iter().enumerate() {
        graph.add(edge, left, nodes + right);
    }
    graph.chosen
}

const NONE: usize = usize::MAX;

/// Nodes `0..nodes` are the left side, `nodes..2·nodes` the right one.
struct Colouring {
    colours: usize,
    /// `[node][colour]`: the edge of that colour and the node at its other end.
    at: Vec<(usize, usize)>,
    /// `[node]`: bit set of the colours that no edge of the node has.
    free: Vec<u64>,
    words: usize,
    /// `[edge]`: its colour.
    chosen: Vec<usize>,
}

impl Colouring {
    fn new(nodes: usize, colours: usize) -> Self {
        let words = colours.div_ceil(64).max(1);
        let mut free = vec![0; 2 * nodes * words];
        for node in 0..2 * nodes {
            for colour in 0..colours {
                free[node * words + colour / 64] |= 1 << (colour % 64);
            }
        }
        Self { colours, at: vec![(NONE, NONE); 2 * nodes * colours], free, words, chosen: Vec::new() }
    }

    fn first_free(&self, node: usize, other: Option<usize>) -> Option<usize> {
        (0..self.words).find_map(|w| {
            let mask = other.map_or(u64::MAX, |o| self.free[o * self.words + w]);
            let bits = self.free[node * self.words + w] & mask;
            (bits != 0).then(|| w * 64 + bits.trailing_zeros() as usize)
        })
    }

    fn set(&mut self, node: usize, colour: usize, entry: (usize, usize)) {
        self.at[node * self.colours + colour] = entry;
        let bit = 1 << (colour % 64);
        let word = &mut self.free[node * self.words + colour / 64];
        *word = if entry.0 == NONE { *word | bit } else { *word & !bit };
    }

    fn add(&mut self, edge: usize, left: usize, right: usize) {
        let colour = self.first_free(left, Some(right)).unwrap_or_else(|| {
            let ours = self.first_free(left, None).expect("fewer edges than colours at the node so far");
            let theirs = self.first_free(right, None).expect("fewer edges than colours at the node so far");
            self.flip(right, ours, theirs);
            ours
        });
        self.chosen.push(colour);
        self.set(left, colour, (edge, right));
        self.set(right, colour, (edge, left));
    }

    /// Swaps colours `a` and `b` along the path from `start` that begins with `a`. In a bipartite
    /// graph it cannot end at the node that wants `a`.
    fn flip(&mut self, start: usize, a: usize, b: usize) {
        let mut path = Vec::new();
        let (mut node, mut colour, mut next) = (start, a, b);
        loop {
            let (edge, other) = self.at[node * self.colours + colour];
            if edge == NONE {
                break;
            }
            path.push((edge, node, other, colour));
            node = other;
            (colour, next) = (next, colour);
        }
        for &(_, from, to, colour) in &path {
            self.set(from, colour, (NONE, NONE));
            self.set(to, colour, (NONE, NONE));
        }
        for &(edge, from, to, colour) in &path {
            let swapped = if colour == a { b } else { a };
            self.set(from, swapped, (edge, to));
            self.set(to, swapped, (edge, from));
            self.chosen[edge] = swapped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn proper_and_with_as_few_colours_as_the_largest_degree(
            edges in prop::collection::vec((0usize..7, 0usize..7), 0..150)
        ) {
            let colours = colour_edges(7, &edges);
            let degree = |node: usize, side: fn(&(usize, usize)) -> usize| {
                edges.iter().filter(|e| side(e) == node).count()
            };
            let most = (0..7).map(|n| degree(n, |e| e.0).max(degree(n, |e| e.1))).max().unwrap();
            for (i, a) in edges.iter().enumerate() {
                prop_assert!(colours[i] < most);
                for (j, b) in edges.iter().enumerate().skip(i + 1) {
                    prop_assert!(colours[i] != colours[j] || (a.0 != b.0 && a.1 != b.1), "{i} and {j} share a node");
                }
            }
        }
    }
}
