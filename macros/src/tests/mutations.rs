//! Tests that the macro neither panics on any function nor loses the user's code.
//!
//! The sources of the other tests are mutated by tokens: deleted, duplicated, swapped, moved,
//! wrapped.

use super::{EXPANSIONS, FORMS, MISTAKES};
use crate::traced::expand;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of mutations of each source.
const ROUNDS: u64 = 24;

/// Functions that combine loops, branches and exits.
const FLOWS: [&str; 6] = [
    "fn f(net: &Net, x: &Tensor, n: usize) -> Tensor { let mut h = x.clone(); for (i, layer) in net.layers.iter().enumerate() { if i == n { continue; } h = match layer { Layer::Dense { w, b } => (h * w + b).tanh(), Layer::Scale(by) => h * *by, _ => break }; } h.sum(..) }",
    "fn f(x: &Tensor, n: usize) -> Result<Tensor> { let mut k = 0; let mut h = x.clone(); 'turns: loop { while k < n { k += 1; h = g(&h)?; if h.sum(..).item::<f64>() > 2.0 { break 'turns; } if k == 3 { return Ok(h); } } h *= x; } Ok(h.sum(..)) }",
    "fn f(x: &Tensor, y: Option<usize>) -> (Tensor, Tensor) { let a; let b: Tensor; if let Some(k) = y { a = x.sin(); b = x.sum(k); } else { a = x.cos(); b = a.clone(); } let z = 'found: { if a.rank() > 1 { break 'found x.sin(); } b.exp() }; (a, z) }",
    "fn f(x: &Tensor, n: usize) -> Tensor { let w = x.exp(); let scale = |y: &Tensor, by: f32| y * &w * by; let mut sum = x.zeros_like(); for k in (0..n).rev().step_by(2) { let (p, q) = (scale(x, k as f32), sum.clone()); (sum, _) = (p + q, k); } sum }",
    "fn f(xs: &Vec<Tensor>, ys: &Vec<Tensor>, h: Tensor) -> Tensor { let mut state = (h.clone(), h); #[checkpoint(every = 3)] for (x, y) in xs.iter().zip(ys) { let (a, b) = &state; state = (a * x, b + y); state.0 = state.0.tanh(); } state.0 + state.1 }",
    "impl Net { fn f(&self, x: &Tensor, n: usize) -> Tensor { if n == 0 { return x.clone(); } let h = self.f(x, n - 1); let [a, b] = h.split(0); for w in &self.layers { let _ = w; } let Some(k) = self.k else { return h; }; a * b * k } }",
];

/// Pseudo-random generator xorshift64*, so that every run makes the same mutations.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        high as usize % n.max(1)
    }
}

fn count(tokens: &[TokenTree]) -> usize {
    let inner = tokens.iter().map(|t| match t {
        TokenTree::Group(g) => 1 + count(&g.stream().into_iter().collect::<Vec<_>>()),
        _ => 1,
    });
    inner.sum()
}

/// Applies `how` to the list that contains token number `at`.
fn change(
    tokens: Vec<TokenTree>,
    at: &mut usize,
    how: &mut dyn FnMut(&mut Vec<TokenTree>, usize),
) -> Vec<TokenTree> {
    let mut tokens = tokens;
    for i in 0..tokens.len() {
        if *at == 0 {
            how(&mut tokens, i);
            *at = usize::MAX;
            return tokens;
        }
        *at -= 1;
        if let TokenTree::Group(g) = &tokens[i] {
            let inner = change(g.stream().into_iter().collect(), at, how);
            let mut group = Group::new(g.delimiter(), inner.into_iter().collect());
            group.set_span(g.span());
            tokens[i] = group.into();
            if *at == usize::MAX {
                return tokens;
            }
        }
    }
    tokens
}

fn mutate(source: &TokenStream, pool: &[TokenTree], random: &mut Random) -> TokenStream {
    let mut tokens: Vec<TokenTree> = source.clone().into_iter().collect();
    for _ in 0..1 + random.below(2) {
        let mut at = random.below(count(&tokens));
        let (kind, other) = (random.below(14), random.below(pool.len()));
        let place = random.below(1 << 16);
        tokens = change(tokens, &mut at, &mut |list, i| match kind {
            0 => drop(list.remove(i)),
            1 => list.insert(i, list[i].clone()),
            2 => {
                let j = place % list.len();
                list.swap(i, j);
            }
            3 => list[i] = pool[other].clone(),
            4 => list.insert(i, pool[other].clone()),
            5 => {
                let delimiters = [
                    Delimiter::Parenthesis,
                    Delimiter::Brace,
                    Delimiter::Bracket,
                    Delimiter::None,
                ];
                let inner = TokenStream::from(list[i].clone());
                list[i] = Group::new(delimiters[place % 4], inner).into();
            }
            6 => list.truncate(i),
            7 => {
                if let TokenTree::Group(g) = list[i].clone() {
                    list.splice(i..=i, g.stream());
                }
            }
            // Replacing a token by one of the same kind keeps more functions valid.
            _ => {
                let same = std::mem::discriminant(&list[i]);
                let like = |t: &&TokenTree| std::mem::discriminant(*t) == same;
                if let Some(token) = pool[other..].iter().find(like) {
                    list[i] = token.clone();
                }
            }
        });
    }
    tokens.into_iter().collect()
}

/// Returns the tokens, with groups without delimiters replaced by their contents.
fn bare(tokens: TokenStream) -> Vec<TokenTree> {
    let parts = tokens.into_iter().flat_map(|token| match token {
        TokenTree::Group(g) if g.delimiter() == Delimiter::None => bare(g.stream()),
        token => vec![token],
    });
    parts.collect()
}

/// Appends all tokens other than attributes, which the macro may remove.
fn flat(tokens: TokenStream, out: &mut Vec<TokenTree>) {
    let mut hash = false;
    for token in bare(tokens) {
        match token {
            TokenTree::Group(g) if hash && g.delimiter() == Delimiter::Bracket => hash = false,
            TokenTree::Group(g) => {
                hash = false;
                flat(g.stream(), out);
            }
            token => {
                let mark = |c| matches!(&token, TokenTree::Punct(p) if p.as_char() == c);
                hash = mark('#') || (hash && mark('!'));
                out.push(token);
            }
        }
    }
}

/// Returns the identifiers in a text.
///
/// Numbers are left out, because `pair.2.0` contains the number `2.0` for the lexer and two numbers
/// for the parser.
fn words(tokens: TokenStream) -> BTreeSet<String> {
    let mut all = Vec::new();
    flat(tokens, &mut all);
    let words = all.into_iter().filter(|t| matches!(t, TokenTree::Ident(_)));
    words.map(|t| t.to_string()).collect()
}

#[test]
fn no_mutated_function_makes_the_macro_panic_or_lose_user_code() {
    let sources = FORMS.iter().map(|(_, source)| *source);
    let sources = sources.chain(EXPANSIONS.iter().map(|(_, _, source)| *source));
    let sources = sources.chain(FLOWS);
    let sources: Vec<&str> = sources
        .chain(MISTAKES.iter().map(|(_, source)| *source))
        .collect();
    let parsed: Vec<TokenStream> = sources
        .iter()
        .map(|s| s.parse().expect("the test's source is tokens"))
        .collect();
    let mut pool = Vec::new();
    parsed
        .iter()
        .for_each(|tokens| flat(tokens.clone(), &mut pool));
    let more = "#![allow(unused)] macro_rules! m { () => {} } async move unsafe { } 'a: loop { break 'a 1 } r#type _ __ 0x1F 1e400 99999999999999999999 b'x' \"text\" c\"c\" $ ? .. ..= -> => & && | || |x| r#match Self self super crate dyn impl where for<'a> #[shape(B, -1, 2.5, B + 1)] #[save(x)] #[nodiff = 1] größe __v2 v3";
    pool.extend(more.parse::<TokenStream>().expect("the extra tokens lex"));
    // Panics are caught, so that the failure shows the source that caused one.
    let (mut random, mut n, mut n_whole) = (Random(0x9E37_79B9_7F4A_7C15), 0, 0);
    for source in &parsed {
        for _ in 0..ROUNDS {
            let mutated = mutate(source, &pool, &mut random);
            let expanded = catch_unwind(AssertUnwindSafe(|| {
                expand(TokenStream::new(), mutated.clone())
            }));
            let Ok(expanded) = expanded else {
                panic!("the macro panics on {mutated}");
            };
            n += 1;
            let said = expanded.to_string();
            if !said.contains("compile_error") && syn::parse2::<syn::File>(expanded.clone()).is_ok()
            {
                n_whole += 1;
            }
            let (given, left) = (words(mutated.clone()), words(expanded));
            let lost: Vec<&String> = given.difference(&left).collect();
            assert!(lost.is_empty(), "{lost:?} of {mutated} is not in {said}");
        }
    }
    // A fair share of the mutants must be valid functions.
    assert!(
        n > 2_000 && n_whole > n / 10,
        "{n} functions, {n_whole} of them are whole"
    );
}
