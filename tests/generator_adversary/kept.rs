//! Parts that keep tensors and states: in collections, options that a loop assigns, closures that change their captures,
//! references that outlive an iteration, and tuples with numbers.

use super::device::{Device, Param, fixed, known};
use super::trees::STATE;

const N: Param = fixed("n@", "usize", ["2", "0", "3"]);

const COUNT: &str = "
    #[derive(Clone, Tree)]
    pub struct Count@ { pub t: Tensor, #[tree(skip)] pub k: usize }
    #[traced]
    pub fn counted@(c: &Count@) -> Count@ { Count@ { t: c.t.sin() * (c.k as f64 + 0.5), k: c.k + 1 } }";

/// Parts that only compute, with tensors that are kept in the body.
pub(crate) static KEPT: &[Device] = &[
    // Parts of structs that are kept in lists, deques and maps.
    known("pushed", "parts of a state", "l@.iter().fold(s@.c.clone(), |a, t| a * t * ‹0.5›)").stmts("let mut s@ = begin@(&$h); let mut l@ = Vec::new(); for _ in 0..n@ { s@ = step@(&s@); l@.push(s@.h.clone()); }").items(STATE).params(&[N]),
    known("pushed", "parts of a state in a list with a type", "Tensor::stack(&l@, 0).sum(0) * &s@.c").stmts("let mut s@ = begin@(&$h); let mut l@: Vec<Tensor> = vec![s@.c.clone()]; for _ in 0..n@ { s@ = step@(&s@); l@.push(s@.h.clone()); l@.push(&s@.c * ‹0.5›); }").items(STATE).params(&[N]),
    known("pushed", "a part that is moved and replaced", "Tensor::stack(&l@, 0).mean(0) * &s@.h").stmts("let mut s@ = begin@(&$h); let mut l@ = vec![$h.clone()]; for _ in 0..n@ { s@ = step@(&s@); l@.push(s@.c); s@.c = &s@.h * ‹0.5›; }").items(STATE).params(&[N]),
    known("pushed", "the last element of a list that grows", "l@.last().unwrap() * &s@.c").stmts("let mut s@ = begin@(&$h); let mut l@ = vec![$h.cos()]; for _ in 0..n@ { s@ = s@.stepped(&l@[l@.len() - 1]); l@.push(&s@.h * ‹1.5›); }").items(STATE).params(&[N]),
    known("pushed", "states", "l@.iter().map(|s| s.read() * &s.h).fold(s@.c.clone(), |a, t| a + t)").stmts("let mut s@ = begin@(&$h); let mut l@ = Vec::new(); for _ in 0..n@ { s@ = step@(&s@); s@.c = &s@.c * ‹0.5›; l@.push(s@.clone()); }").items(STATE).params(&[N]),
    known("pushed", "states from the last one", "&l@[l@.len() - 1].h * &l@[0].c * ‹0.5›").stmts("let mut l@: Vec<St@> = vec![begin@(&$h)]; for _ in 0..n@ { let t = step@(&l@[l@.len() - 1]); l@.push(t); }").items(STATE).params(&[N]),
    known("pushed", "a field of a state in a list", "l@[0].read() * &l@[1].c").stmts("let mut l@ = vec![begin@(&$h), begin@(&$h.cos())]; for i in 0..n@ { l@[i % 2].h = &l@[1 - i % 2].c * ‹0.5›; l@[1].c = l@[0].h.sin(); }").items(STATE).params(&[N]),
    known("pushed", "references to parts", "l@[0] * l@[1] * ‹0.5›").stmts("let s@ = begin@(&$h); let mut l@ = Vec::new(); l@.push(&s@.h); l@.push(&s@.c);").items(STATE),
    known("pushed", "references to elements", "Tensor::stack(&m@, 0).sum(0) * m@[0] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut m@ = Vec::new(); for t in &l@ { m@.push(t); }"),
    known("pushed", "pairs of parts", "y@").stmts("let mut s@ = begin@(&$h); let mut l@ = Vec::new(); for _ in 0..n@ { s@ = step@(&s@); l@.push((s@.h.clone(), s@.c.clone())); } let mut y@ = s@.c.clone(); for (a, b) in l@ { y@ = y@ * a + b * ‹0.5›; }").items(STATE).params(&[N]),
    known("pushed", "rows of rows", "Tensor::stack(&r@, 0).sum((0, 1)) * ‹0.5›").stmts("let l@ = [$h.sin(), $h.clone()]; let mut r@ = Vec::new(); for a in &l@ { let mut row = Vec::new(); for b in &l@ { row.push(a * b); } r@.push(Tensor::stack(&row, 0)); }"),
    known("pushed", "lists of lists", "&r@[0][1] * &r@[1][0] * ‹0.5›").stmts("let l@ = [$h.sin(), $h.clone()]; let mut r@ = Vec::new(); for a in &l@ { let mut row = Vec::new(); for b in &l@ { row.push(a - b * 2.0); } r@.push(row); }"),
    known("pushed", "lists of lists with a type", "r@.iter().flatten().fold($h.clone(), |a, t| a * t)").stmts("let mut r@: Vec<Vec<Tensor>> = vec![Vec::new(), vec![$h.cos()]]; for i in 0..n@ { r@[i % 2].push(&$h * (i as f64 + ‹0.5›)); }").params(&[N]),
    known("pushed", "extended by references", "&m@[0] * &m@[2] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut m@ = Vec::new(); m@.extend(l@.iter().cloned()); m@.extend_from_slice(&l@); m@.resize(5, $h.clone());"),
    known("pushed", "inserted in front", "&l@[0] - &l@[1] * ‹0.5›").stmts("let mut s@ = begin@(&$h); let mut l@ = vec![$h.clone()]; for _ in 0..n@ { s@ = step@(&s@); l@.insert(0, s@.h.clone()); } l@.insert(1, s@.c);").items(STATE).params(&[N]),
    known("pushed", "a stack that is emptied", "y@").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; let mut y@ = $h.cos(); let mut k@ = 0; while let Some(t) = l@.pop() { if l@.len() == 1 { l@.push(&t * ‹0.5›); l@.insert(0, t.sin()); l@.truncate(1); } else if n@ > 2 { l@.clear(); } y@ = y@ * t + 0.25; if k@ == 4 { break; } k@ += 1; }").params(&[N]),
    known("pushed", "a list in a cell", "l@.into_inner().iter().fold($h.clone(), |a, t| a * t)").stmts("let l@ = RefCell::new(Vec::new()); for i in 0..n@ { l@.borrow_mut().push((&$h * (i as f64 + ‹0.5›)).sin()); }").params(&[N]),
    known("pushed", "a list that a branch fills", "Tensor::stack(&l@, 0).sum(0)").stmts("let mut l@ = vec![]; let mut m@: Vec<Tensor> = vec![]; for i in 0..3 { let t = &$h * (i as f64 + ‹0.5›); if i < n@ { m@.push(t.sin()); l@.push(t); } else { l@.push(t.cos()); } } l@.append(&mut m@);").params(&[N]),
    known("pushed", "a list that is cleared", "l@.iter().fold($h.sin(), |a, t| a + t)").stmts("let mut l@ = vec![$h.clone()]; for i in 0..n@ { if i == 1 { l@.clear(); } l@.push(&$h * (i as f64 + ‹0.5›)); }").params(&[N]),
    known("pushed", "a list beside its sum", "&sum@ * &l@[0]").stmts("let mut l@ = Vec::new(); let mut sum@ = $h.zeros_like(); for i in 0..=n@ { let t = (&$h * (i as f64 + ‹0.5›)).cos(); sum@ = &sum@ + &t; l@.push(t); }").params(&[N]),
    known("deque", "pushed in a loop", "y@").stmts("let mut s@ = begin@(&$h); let mut d@ = std::collections::VecDeque::new(); for _ in 0..n@ { s@ = step@(&s@); d@.push_back(s@.h.clone()); } let mut y@ = s@.c.clone(); for t in &d@ { y@ = y@ * t + ‹0.5›; }").items(STATE).params(&[N]),
    known("deque", "taken from both ends", "a@ * b@ - d@.back().unwrap() * ‹0.5›").stmts("let mut d@ = std::collections::VecDeque::new(); d@.push_back($h.sin()); d@.push_front($h.cos()); d@.push_back($h.clone()); d@.push_front(&$h * 2.0); let a@ = d@.pop_front().unwrap(); let b@ = d@.pop_back().unwrap();"),
    known("deque", "a window", "d@.iter().fold(y@, |a, t| a + t)").stmts("let mut d@: std::collections::VecDeque<Tensor> = std::collections::VecDeque::new(); let mut y@ = $h.clone(); for i in 0..4 { d@.push_back(&y@ * (i as f64 + ‹0.5›)); if d@.len() > 2 { y@ = d@.pop_front().unwrap().sin(); } else { y@ = y@.cos(); } }"),
    known("deque", "indexed", "&d@[1] * &d@[0] * ‹0.5›").stmts("let mut d@ = std::collections::VecDeque::from(vec![$h.sin(), $h.clone()]); d@[1] = &d@[0] * &d@[1]; d@.rotate_left(1);"),
    known("map", "inserted in a loop", "&m@[&0] * &m@[&n@]").stmts("let mut s@ = begin@(&$h); let mut m@ = std::collections::BTreeMap::new(); m@.insert(0, &$h * ‹0.5›); for i in 0..n@ { s@ = step@(&s@); m@.insert(i + 1, s@.h.clone()); }").items(STATE).params(&[N]),
    known("map", "values", "y@").stmts("let mut m@: std::collections::BTreeMap<usize, Tensor> = std::collections::BTreeMap::new(); for i in 0..3 { m@.insert(5 - i, (&$h * (i as f64 + ‹0.5›)).sin()); } let mut y@ = $h.clone(); for t in m@.values() { y@ = y@ * t + 0.25; }"),
    known("map", "keys and values", "m@.iter().fold($h.clone(), |a, (k, t)| a + t * *k as f64)").stmts("let mut m@ = std::collections::BTreeMap::new(); for i in 0..n@ { m@.insert(i + 1, &$h * ‹1.5›); m@.insert(i, $h.sin()); }").params(&[N]),
    known("map", "names", "&m@[\"a\"] * &m@[\"b\"] * ‹0.5›").stmts("let mut m@ = std::collections::BTreeMap::new(); m@.insert(\"a\".to_string(), $h.sin()); m@.insert(\"b\".to_string(), $h.cos());"),
    known("map", "an entry", "m@.remove(&0).unwrap() * ‹0.5›").stmts("let mut m@: std::collections::BTreeMap<usize, Tensor> = Default::default(); for i in 0..3 { let t = &$h * (i as f64 + 0.5); m@.entry(i % 2).and_modify(|v| *v = &*v * &t).or_insert(t.clone()); }"),
    known("map", "a part that is replaced", "old@ * &m@[&1]").stmts("let mut m@ = std::collections::BTreeMap::new(); m@.insert(1, $h.sin()); let old@ = m@.insert(1, &$h * ‹0.5›).unwrap(); let t@ = m@.get_mut(&1).unwrap(); *t@ = &*t@ * &old@;"),
    known("map", "references", "m@[&0] * m@[&1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut m@ = std::collections::HashMap::new(); for (i, t) in l@.iter().enumerate() { m@.insert(i, t); }"),
    // Options that are assigned.
    known("option", "assigned in a loop, with a type", "o@.unwrap_or(s@.c)").stmts("let mut s@ = begin@(&$h); let mut o@: Option<Tensor> = None; for _ in 0..n@ { s@ = step@(&s@); o@ = Some(s@.h.clone() * ‹0.5›); }").items(STATE).params(&[N]),
    known("option", "the previous element", "y@").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let mut before@ = None; let mut y@ = $h.clone(); for t in &l@ { if let Some(b) = before@ { y@ = y@ * (t - b) + ‹0.5›; } before@ = Some(t); }"),
    known("option", "the previous element, owned", "y@").stmts("let mut before@: Option<Tensor> = None; let mut y@ = $h.clone(); for i in 0..n@ { let t = (&y@ * (i as f64 + ‹0.5›)).sin(); if let Some(b) = &before@ { y@ = &y@ + b * &t; } before@ = Some(t); }").params(&[N]),
    known("option", "taken in a loop", "y@").stmts("let mut o@ = Some($h.sin()); let mut y@ = $h.clone(); for i in 0..n@ { if let Some(t) = o@.take() { y@ = y@ * t; } else { o@ = Some(&y@ * (i as f64 + ‹0.5›)); } }").params(&[N]),
    known("option", "matched and reassigned", "o@.map_or($h.cos(), |t| t * &$h)").stmts("let mut o@ = None; for i in 0..n@ { o@ = match o@ { None => Some(&$h * ‹0.5›), Some(t) => Some(&t * (i as f64) + t.sin()) }; }").params(&[N]),
    known("option", "a state", "match &o@ { Some(s) => s.read() * ‹0.5›, None => $h.sin() }").stmts("let mut o@ = None; for _ in 0..n@ { o@ = match &o@ { Some(s) => Some(step@(s)), None => Some(begin@(&$h)) }; }").items(STATE).params(&[N]),
    known("option", "a state with a type", "o@.unwrap().read() * ‹0.5›").stmts("let mut o@: Option<St@> = Some(begin@(&$h)); for _ in 0..n@ { let s = o@.take().unwrap(); o@ = Some(step@(&s)); }").items(STATE).params(&[N]),
    known("option", "as_ref and is_some", "if o@.is_some() { o@.as_ref().unwrap() * o@.as_ref().unwrap() } else { $h.cos() }").stmts("let o@ = if n@ > 1 { Some(&$h * ‹0.5›) } else { None };").params(&[N]),
    known("option", "get_or_insert", "y@ * o@.unwrap_or($h.cos())").stmts("let mut o@: Option<Tensor> = None; let mut y@ = $h.clone(); for i in 0..n@ { let t = o@.get_or_insert_with(|| $h.sin() * ‹0.5›); y@ = y@ * &*t + i as f64; }").params(&[N]),
    known("option", "options in a list", "y@").stmts("let l@ = vec![Some($h.sin()), None, Some(&$h * ‹0.5›)]; let mut y@ = $h.clone(); for o in &l@ { if let Some(t) = o { y@ = y@ * t; } else { y@ = y@.cos(); } }"),
    known("option", "zip and and_then", "o@.zip(p@).map(|(a, b)| a * b * ‹0.5›).unwrap_or_else(|| $h.cos())").stmts("let o@ = if n@ > 1 { Some($h.sin()) } else { None }; let p@ = o@.as_ref().and_then(|t| if n@ == 2 { Some(t * 2.0) } else { None });").params(&[N]),
    // Closures.
    known("closure", "that pushes", "&l@[0] * &l@[1]").stmts("let mut l@ = Vec::new(); let mut add@ = |t: &Tensor| l@.push(t * ‹0.5›); add@(&$h); add@(&$h.sin());"),
    known("closure", "that pushes to a list with a type", "l@.iter().fold($h.cos(), |a, t| a * t)").stmts("let mut l@: Vec<Tensor> = Vec::new(); let mut add@ = |t: &Tensor, k: f64| { let y = t * k; l@.push(y.sin()); y }; let mut t@ = $h.clone(); for i in 0..n@ { t@ = add@(&t@, i as f64 + ‹0.5›); }").params(&[N]),
    known("closure", "that assigns", "y@ * ‹0.5›").stmts("let mut y@ = $h.sin(); let mut next@ = |k: f64| { y@ = (&y@ * k).cos() + &$h; }; next@(0.5); next@(1.5);"),
    known("closure", "that assigns a field", "s@.read() * ‹0.5›").stmts("let mut s@ = begin@(&$h); let mut next@ = |k: f64| { s@ = step@(&s@); s@.c = &s@.c * k; }; for i in 0..n@ { next@(i as f64 + 0.5); }").items(STATE).params(&[N]),
    known("closure", "that returns an element", "pick@(0) * pick@(1) * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let pick@ = |i: usize| &l@[i];"),
    known("closure", "that returns a copy", "pick@(0) * pick@(n@ % 2) * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let pick@ = |i: usize| l@[i].clone();").params(&[N]),
    known("closure", "that returns a struct", "make@(0.5).read() * &make@(‹1.5›).h").stmts("let make@ = |k: f64| begin@(&(&$h * k));").items(STATE),
    known("closure", "that is called at once", "y@ * ‹0.5›").stmts("let y@ = (|| { let a = $h.sin(); a * &$h })();"),
    known("closure", "of a number and a tensor", "f@(&$h, 2.0) * f@(&$h.sin(), ‹0.5›)").stmts("let f@ = |t: &Tensor, k: f64| t * k + 0.25;"),
    known("closure", "that moves", "f@(&$h) * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let f@ = move |t: &Tensor| t * &l@[0] + &l@[1];"),
    known("closure", "for_each", "y@ * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut y@ = $h.clone(); l@.iter().for_each(|t| y@ = &y@ * t);"),
    known("closure", "for_each that pushes", "&m@[0] * &m@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut m@ = Vec::new(); l@.iter().for_each(|t| m@.push(t.clone()));"),
    known("closure", "functions in an array", "y@ * ‹0.5›").stmts("let mut y@ = $h.clone(); for f in [Tensor::sin, Tensor::cos, Tensor::tanh] { y@ = f(&y@); }"),
    known("closure", "that calls another one", "g@(&$h) * ‹0.5›").stmts("let f@ = |t: &Tensor| t.sin() + &$h; let g@ = |t: &Tensor| { let y = f@(t); f@(&y) * t };"),
    // More adapters.
    known("adapter", "try_fold", "y@.unwrap_or($h.cos())").stmts("let l@ = vec![$h.sin(), $h.clone()]; let y@ = l@.iter().try_fold($h.clone(), |a, t| if n@ > 1 { Some(a * t * ‹0.5›) } else { None });").params(&[N]),
    known("adapter", "chunks", "y@").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let mut y@ = $h.clone(); for w in l@.chunks(2) { y@ = y@ * &w[0] + w.last().unwrap() * ‹0.5›; }"),
    known("adapter", "windows in a loop", "y@").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let mut y@ = $h.clone(); for w in l@.windows(2) { y@ = y@ * &w[0] + &w[1] * ‹0.5›; }"),
    known("adapter", "split_first", "b@.iter().fold(a@.clone(), |a, t| a * t * ‹0.5›)").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let (a@, b@) = l@.split_first().unwrap();"),
    known("adapter", "next", "a@ * b@ + it@.fold($h.clone(), |a, t| a + t) * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let mut it@ = l@.iter(); let a@ = it@.next().unwrap(); let b@ = it@.next().unwrap();"),
    known("adapter", "first, get and nth", "l@.first().unwrap() * l@.get(1).unwrap() - l@.iter().nth(2).unwrap() * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()];"),
    known("adapter", "get that fails", "if let Some(t) = l@.get(n@) { t * &$h } else { $h.cos() * ‹0.5› }").stmts("let l@ = vec![$h.sin(), $h.clone()];").params(&[N]),
    known("adapter", "max_by_key", "t@ * &$h * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone()]; let t@ = l@.iter().max_by_key(|t| t.dim(0)).unwrap();"),
    known("adapter", "find and position", "l@.iter().find(|t| t.dim(0) == 3).unwrap() * (l@.iter().position(|t| t.dim(0) == 3).unwrap() as f64 + ‹0.5›)").stmts("let l@ = vec![$h.sin(), $h.clone()];"),
    known("adapter", "references that are collected", "v@[0] * v@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let v@: Vec<&Tensor> = l@.iter().rev().collect();"),
    known("adapter", "copies that are collected", "&v@[0] * &v@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let v@: Vec<_> = l@.iter().skip(1).cloned().collect();"),
    known("adapter", "numbered references that are collected", "v@[0].1 * v@[1].1 * (v@[1].0 as f64 + ‹0.5›)").stmts("let l@ = vec![$h.sin(), $h.cos()]; let v@: Vec<(usize, &Tensor)> = l@.iter().enumerate().collect();"),
    known("adapter", "chain and cloned", "Tensor::stack(&all@, 0).sum(0) * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let m@ = [$h.clone()]; let all@: Vec<Tensor> = l@.iter().chain(&m@).cloned().collect();"),
    known("adapter", "once and chain", "&l@[0] * &l@[1] * ‹0.5›").stmts("let l@: Vec<Tensor> = std::iter::once($h.sin()).chain(std::iter::once($h.clone())).collect();"),
    known("adapter", "step_by and cycle", "l@.iter().cycle().take(4).step_by(3).fold($h.clone(), |a, t| a * t + ‹0.5›)").stmts("let l@ = vec![$h.sin(), $h.cos()];"),
    known("adapter", "take_while and skip_while", "l@.iter().enumerate().skip_while(|(i, _)| *i < 1).take_while(|(i, _)| *i < 3).fold($h.clone(), |a, (i, t)| a + t * (i as f64 + ‹0.5›))").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()];"),
    known("adapter", "map_while", "l@.iter().map_while(|t| if t.dim(0) > n@ { Some(t * ‹0.5›) } else { None }).fold($h.cos(), |a, t| a * t)").stmts("let l@ = vec![$h.sin(), $h.clone()];").params(&[N]),
    known("adapter", "three lists", "y@").stmts("let l@ = vec![$h.sin(), $h.cos()]; let m@ = vec![$h.clone(), $h.tanh()]; let mut y@ = $h.clone(); for ((a, b), c) in l@.iter().zip(&m@).zip(l@.iter().rev()) { y@ = y@ + a * b * c * ‹0.5›; }"),
    known("adapter", "a map of an array", "&a@[0] * &a@[1] * ‹0.5›").stmts("let a@ = [&$h, &$h.sin()].map(|t| t * 2.0);"),
    known("adapter", "sorted", "m@[0] * m@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut m@: Vec<&Tensor> = l@.iter().collect(); m@.sort_by_key(|t| t.dim(0));"),
    known("adapter", "retain", "&l@[0] * &l@[1] * ‹0.5›").stmts("let mut l@ = vec![$h.sin(), $h.cos()]; l@.retain(|t| t.dim(0) == 3);"),
    known("adapter", "iter_mut", "&l@[0] * &l@[1]").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; for t in l@.iter_mut() { *t = &*t * ‹0.5› + &$h; }"),
    known("adapter", "iter_mut of states", "l@[0].read() * &l@[1].h").stmts("let mut l@ = vec![begin@(&$h), begin@(&$h.cos())]; for (i, s) in l@.iter_mut().enumerate() { s.h = &s.c * (i as f64 + ‹0.5›); }").items(STATE),
    known("adapter", "a fold of a state", "s@.read()").stmts("let l@ = vec![$h.sin(), $h.cos()]; let s@ = l@.iter().fold(begin@(&$h), |s, t| { let mut next = step@(&s); next.h = next.h * t * ‹0.5›; next });").items(STATE),
    known("adapter", "a fold into a list", "&l@[0] * l@.last().unwrap()").stmts("let l@ = (0..n@).fold(vec![$h.clone()], |mut l, i| { let t = l.last().unwrap() * (i as f64 + ‹0.5›); l.push(t); l });").params(&[N]),
    known("adapter", "successors", "l@.iter().fold($h.clone(), |a, t| a * t)").stmts("let l@: Vec<Tensor> = std::iter::successors(Some($h.sin()), |t| Some(t * ‹0.5› + &$h)).take(n@).collect();").params(&[N]),
    known("adapter", "flatten of options", "l@.iter().flatten().fold($h.clone(), |a, t| a * t * ‹0.5›)").stmts("let l@ = vec![Some($h.sin()), None, Some($h.cos())];"),
    known("adapter", "collect to an option", "match o@ { Some(l) => &l[0] * &l[1], None => $h.cos() }").stmts("let o@: Option<Vec<Tensor>> = (0..2).map(|i| if n@ > i { Some(&$h * (i as f64 + ‹0.5›)) } else { None }).collect();").params(&[N]),
    // References that are kept.
    known("reference", "the previous element", "y@").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let mut before@ = &l@[0]; let mut y@ = $h.clone(); for t in &l@ { y@ = y@ * (t - before@ * ‹0.5›); before@ = t; }"),
    known("reference", "the best element", "best@ * &$h * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let mut best@ = &l@[0]; for t in &l@[1..] { if t.dim(0) >= best@.dim(0) { best@ = t; } }"),
    known("reference", "that a branch picks", "t@ * &$h * ‹0.5›").stmts("let s@ = begin@(&$h); let t@ = if n@ > 1 { &s@.h } else { &s@.c };").items(STATE).params(&[N]),
    known("reference", "that a match picks with a number", "t@ * k@ * &$h").stmts("let l@ = vec![$h.sin(), $h.cos()]; let (t@, k@) = match n@ { 0 => (&$h, ‹0.5›), 2 => (&l@[0], 2.0), _ => (&l@[1], 1.5) };").params(&[N]),
    known("reference", "of an option that a branch picks", "t@.unwrap_or(&$h) * ‹0.5›").stmts("let s@ = begin@(&$h); let t@ = if n@ > 1 { Some(&s@.h) } else { None };").items(STATE).params(&[N]),
    known("reference", "the state that is last", "last@.read() * &all@[0].h * ‹0.5›").stmts("let mut all@ = vec![begin@(&$h)]; all@.extend(states@(&$h, n@)); let mut last@ = &all@[0]; for s in &all@ { last@ = s; }").items(STATE).params(&[N]),
    known("reference", "to a tuple", "&t@.0 * &t@.1 * ‹0.5›").stmts("let l@ = vec![($h.sin(), $h.cos()), ($h.clone(), $h.tanh())]; let mut t@ = &l@[0]; if n@ > 1 { t@ = &l@[1]; }").params(&[N]),
    known("reference", "that changes a local", "y@ * ‹0.5›").stmts("let mut y@ = $h.sin(); let r@ = &mut y@; *r@ = &*r@ * &$h; *r@ = r@.cos();"),
    known("reference", "that changes a field", "s@.read() * ‹0.5›").stmts("let mut s@ = begin@(&$h); let r@ = &mut s@.h; *r@ = &*r@ * &$h; let r@ = &mut s@; r@.c = &r@.h * 2.0;").items(STATE),
    known("reference", "that changes an element", "&l@[0] * &l@[1] * ‹0.5›").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; if let Some(t) = l@.last_mut() { *t = &*t * 2.0; } let r@ = &mut l@[0]; *r@ = r@.cos() * &$h;"),
    // Tuples, and numbers beside tensors.
    known("tuple", "a count and a tensor", "&t@.1 * (t@.0 as f64 + ‹0.5›)").stmts("let t@ = (n@, $h.sin());").params(&[N]),
    known("tuple", "a count and a tensor, assigned in a loop", "y@ * (k@ as f64 + ‹0.5›)").stmts("let (mut k@, mut y@) = (0, $h.sin()); for _ in 0..n@ { (k@, y@) = (k@ + 1, &y@ * &$h); }").params(&[N]),
    known("tuple", "a number and a tensor, as one local", "&t@.1 * t@.0").stmts("let mut t@: (f64, Tensor) = (‹0.5›, $h.sin()); for i in 0..n@ { t@ = (t@.0 + i as f64, &t@.1 * &$h * t@.0); t@.0 += 0.25; }").params(&[N]),
    known("tuple", "swapped", "a@ - b@ * ‹0.5›").stmts("let (mut a@, mut b@) = ($h.sin(), $h.clone()); for _ in 0..n@ { (a@, b@) = (b@, a@); a@ = &a@ * &b@; }").params(&[N]),
    known("tuple", "mem::swap and mem::replace", "old@ * &a@ - b@ * ‹0.5›").stmts("let mut a@ = $h.sin(); let mut b@ = $h.clone(); std::mem::swap(&mut a@, &mut b@); let old@ = std::mem::replace(&mut b@, &a@ * 2.0);"),
    known("tuple", "mem::swap of fields", "h@ * &s@.h - &s@.c * ‹0.5›").stmts("let mut s@ = begin@(&$h); let mut h@ = $h.cos(); std::mem::swap(&mut s@.h, &mut h@); std::mem::swap(&mut s@.h, &mut s@.c);").items(STATE),
    known("tuple", "nested", "(a@ * b@ + &t@.1.1) * ‹0.5›").stmts("let t@ = ($h.sin(), ($h.cos(), $h.clone())); let (a@, (b@, _)) = &t@;"),
    known("tuple", "of a state and a count", "s@.read() * (k@ as f64 + ‹0.5›)").stmts("let mut all@ = vec![(0, begin@(&$h))]; for i in 0..n@ { let next = step@(&all@[i].1); all@.push((i + 1, next)); } let (k@, s@) = all@.pop().unwrap();").items(STATE).params(&[N]),
    known("tuple", "a struct with a count", "c@.t.sin() * (c@.k as f64 + ‹0.5›)").stmts("let mut c@ = Count@ { t: $h.clone(), k: 0 }; for _ in 0..n@ { c@ = counted@(&c@); c@.k += 1; }").items(COUNT).params(&[N]),
    known("tuple", "counts of structs", "c@.t * (k@.iter().sum::<usize>() as f64 + ‹0.5›)").stmts("let mut c@ = Count@ { t: $h.clone(), k: 1 }; let mut k@ = Vec::new(); for _ in 0..n@ { c@ = counted@(&c@); k@.push(c@.k); }").items(COUNT).params(&[N]),
    known("tuple", "a struct of a function body", "&p@.a * p@.k * &p@.b").stmts("struct Body@ { a: Tensor, k: f64, b: Tensor } let p@ = Body@ { a: $h.sin(), k: ‹0.5›, b: $h.clone() };"),
    known("tuple", "a box", "&*b@ * &$h * ‹0.5›").stmts("let b@ = Box::new($h.sin());"),
    known("tuple", "a local that branches assign", "y@ * ‹0.5›").stmts("let y@; if n@ > 1 { y@ = $h.sin(); } else { y@ = $h.cos(); }").params(&[N]),
    known("tuple", "a labelled loop", "y@ * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone()]; let mut y@ = $h.cos(); 'out: for a in &l@ { for (i, b) in l@.iter().enumerate() { if i == n@ { continue 'out; } y@ = y@ * a + b; if i > n@ { break 'out; } } }").params(&[N]),
    known("tuple", "the value of a loop", "y@ * ‹0.5›").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; let y@ = loop { let t = &l@[l@.len() - 1] * &l@[0]; if l@.len() > n@ { break t; } l@.push(t); };").params(&[N]),
];

/// Parts that differ from the same body without the attribute, or that do not compile.
///
/// FIXME: an option that a loop assigns has a wrong gradient. Locals whose written type is no tree, references to parts that
/// a method of a list or a branch returns, conversions of a list, and `partition` and `unzip` do not compile. Move the parts
/// to `KEPT` once the macro is right.
pub(crate) static FAULTY: &[Device] = &[
    known("adapter", "split_at", "&a@[0] * &b@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let (a@, b@) = l@.split_at(1);"),
    known("adapter", "split_last", "a@ * &b@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let (a@, b@) = l@.split_last().unwrap();"),
    known("map", "collected", "&m@[&0] * &m@[&2] * ‹0.5›").stmts("let m@: std::collections::BTreeMap<usize, Tensor> = (0..3).map(|i| (i, (&$h * (i as f64 + 0.5)).cos())).collect();"),
    known("map", "looked up", "if let Some(t) = m@.get(&n@) { t * ‹0.5› } else { $h.cos() }").stmts("let mut m@ = std::collections::HashMap::new(); for i in 0..3 { m@.insert(i, (&$h * (i as f64 + 0.5)).sin()); }").params(&[N]),
    known("pushed", "a number beside a tensor", "l@.iter().fold($h.sin(), |a, (k, t)| a + t * *k)").stmts("let mut l@: Vec<(f64, Tensor)> = Vec::new(); for i in 0..n@ { l@.push((i as f64 + ‹0.5›, &$h * 2.0)); } l@.push((1.25, $h.cos()));").params(&[N]),
    known("pushed", "a count beside a tensor", "y@").stmts("let mut s@ = begin@(&$h); let mut l@ = Vec::new(); for i in 0..n@ { s@ = step@(&s@); l@.push((i, s@.h.clone())); } let mut y@ = s@.c.clone(); for (i, t) in &l@ { y@ = y@ + t * (*i as f64 + ‹0.5›); }").items(STATE).params(&[N]),
    known("adapter", "partition", "a@.iter().chain(&b@).fold($h.clone(), |a, t| a * t + ‹0.5›) * (a@.len() as f64)").stmts("let l@ = vec![$h.sin(), $h.clone()]; let (a@, b@): (Vec<Tensor>, Vec<Tensor>) = l@.into_iter().partition(|t| t.dim(0) > 2);"),
    known("deque", "emptied", "y@").stmts("let mut d@: std::collections::VecDeque<Tensor> = vec![$h.sin(), $h.clone(), $h.cos()].into(); let mut y@ = $h.clone(); let mut k@ = 0; while let Some(t) = d@.pop_front() { if d@.len() == 2 && k@ < n@ { d@.push_back(&t * ‹0.5›); k@ += 1; } y@ = y@ * t + 0.25; }").params(&[N]),
    known("pushed", "references to parts in a list with a type", "y@").stmts("let s@ = begin@(&$h); let mut l@: Vec<&Tensor> = Vec::new(); l@.push(&s@.h); l@.push(&s@.c); l@.push(&$h); let mut y@ = $h.sin(); for t in l@ { y@ = y@ * t + ‹0.5›; }").items(STATE),
    known("option", "assigned in a loop", "if let Some(t) = &o@ { t * &s@.c } else { s@.c.clone() }").stmts("let mut s@ = begin@(&$h); let mut o@ = None; for _ in 0..n@ { s@ = step@(&s@); o@ = Some(&s@.h * ‹0.5›); }").items(STATE).params(&[N]),
    known("option", "a part that a branch picks", "match best@ { Some(t) => t * &s@.c, None => s@.c.clone() }").stmts("let mut s@ = begin@(&$h); let mut best@ = None; for i in 0..3 { s@ = step@(&s@); if i == n@ { best@ = Some(&s@.h * ‹0.5›); } }").items(STATE).params(&[N]),
    known("adapter", "unzip", "&a@[0] * &b@[1] * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.clone()]; let (a@, b@): (Vec<Tensor>, Vec<Tensor>) = l@.iter().map(|t| (t * 2.0, t.sin())).unzip();"),
    known("reference", "a slice", "v@.iter().fold(v@[0].clone(), |a, t| a * t * ‹0.5›)").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let v@ = if n@ > 1 { &l@[1..] } else { &l@[..2] };").params(&[N]),
];
