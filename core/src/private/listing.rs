//! Long lists of equations as text, which is parsed when it first runs.
//!
//! Text takes rustc no time to compile.

use super::{Step, accumulate};
use crate::call::companion_pullback::LeafCotangents;
use crate::call::leaves::zeros as zeros_of;
use crate::transform::{Bound, Env};
use crate::{Aval, Error, Result, Tensor};
use gradloom_ir::hash::HashMap;
use gradloom_ir::op::TermSign;
use gradloom_ir::{Attr, Entity, Eqn, Op, Program, SecondaryMap, Static, Var};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Equations in the text form of programs. The macro writes the text, so it always parses.
///
/// It holds no state, so that code that nobody calls makes no static: each thread keeps the programs
/// that it has parsed.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    text: &'static str,
    /// Number of each equation's place, of which the last holds for the remaining equations.
    places: &'static str,
    /// Panics at a place in the user's code.
    failed: fn(usize, Error) -> !,
}

/// Invariant of the emitted code.
const LENGTHS: &str = "a listing has as many results as its caller expects";

thread_local! {
    /// Parsed listings, by the address and length of their text.
    static PARSED: RefCell<HashMap<(usize, usize), Rc<ParsedListing>>> = RefCell::default();
}

#[derive(Debug)]
struct ParsedListing {
    program: Program,
    /// Index among the given static arguments, for each host expression of the text.
    hosts: SecondaryMap<Attr, usize>,
}

impl Listing {
    /// Creates a listing from its text.
    ///
    /// If an equation fails, `failed` is called with its number in `places` and the error.
    pub const fn new(
        text: &'static str,
        places: &'static str,
        failed: fn(usize, Error) -> !,
    ) -> Listing {
        Listing {
            text,
            places,
            failed,
        }
    }

    /// Panics at the place of an equation.
    fn fail(&self, eqn: usize, error: Error) -> ! {
        let mut places = self.places.split(' ');
        let place = places.clone().nth(eqn).or_else(|| places.next_back());
        let place = place.and_then(|place| place.parse().ok());
        (self.failed)(
            place.expect("the macro emits the place of each equation"),
            error,
        )
    }

    /// Returns the parsed text.
    fn read(&self) -> Rc<ParsedListing> {
        let place = (self.text.as_ptr().addr(), self.text.len());
        let parsed = PARSED.try_with(|parsed| {
            let mut parsed = parsed.try_borrow_mut().ok()?;
            let read = parsed
                .entry(place)
                .or_insert_with(|| Rc::new(ParsedListing::new(self.text)));
            Some(read.clone())
        });
        // The thread-local is gone while the thread ends.
        parsed
            .ok()
            .flatten()
            .unwrap_or_else(|| Rc::new(ParsedListing::new(self.text)))
    }

    /// Records the equations and returns the results.
    ///
    /// The parameters are `tensors`, followed by `likes`, of which only dtype and shape are used. A
    /// host expression of the text names a static argument; `statics` are ordered by their first
    /// use in the text.
    pub fn run<const N: usize>(
        &self,
        tensors: &[&Tensor],
        likes: &[&Aval],
        statics: &[&Static],
    ) -> [Tensor; N] {
        let (outs, []) = self.run_linear(tensors, likes, statics, &[]);
        outs
    }

    /// [`Listing::run`] with parameters that may be zero, which `None` stands for.
    ///
    /// These are the last parameters. The results after the first `N` are linear in them, so they
    /// may be zero, too.
    pub fn run_linear<const N: usize, const M: usize>(
        &self,
        tensors: &[&Tensor],
        likes: &[&Aval],
        statics: &[&Static],
        linear: &[Option<&Tensor>],
    ) -> ([Tensor; N], [Option<Tensor>; M]) {
        let mut outs = self.all(tensors, likes, statics, linear).into_iter();
        let mut next = || outs.next().expect(LENGTHS);
        (
            std::array::from_fn(|_| next().expect("the first `N` results are not linear")),
            std::array::from_fn(|_| next()),
        )
    }

    /// Returns all results of [`Listing::run_linear`]. It is not generic, so users' crates do not
    /// compile it.
    fn all(
        &self,
        tensors: &[&Tensor],
        likes: &[&Aval],
        statics: &[&Static],
        linear: &[Option<&Tensor>],
    ) -> Vec<Option<Tensor>> {
        let tensor = |x: &Tensor| Bound::Tensor(x.clone());
        let tensors = tensors.iter().map(|x| Some(tensor(x)));
        let likes = likes.iter().map(|like| Some(Bound::Aval((*like).clone())));
        let args = tensors
            .chain(likes)
            .chain(linear.iter().map(|x| x.map(tensor)));
        self.outs(args.collect(), linear.len(), |i| statics[i].clone())
    }

    /// Pulls cotangents back through a block. Its residuals are the first parameters, and the
    /// cotangents of its results, `cts`, are the last.
    ///
    /// The first results are added to `locals`, the others to the cotangents of `params`: the
    /// number of a parameter, and which of the block's places is the position of the leaf in it.
    #[track_caller]
    pub fn pull(
        &self,
        step: &Step,
        cts: &[Option<Tensor>],
        locals: &mut [&mut Option<Tensor>],
        params: &[(usize, Option<usize>)],
        pulled: &mut LeafCotangents,
    ) {
        if cts.iter().all(Option::is_none) {
            return;
        }
        let tensors = step.tensors().iter().cloned().map(Bound::Tensor);
        let likes = step.likes().iter().cloned().map(Bound::Aval);
        let cotangents = cts.iter().map(|ct| ct.clone().map(Bound::Tensor));
        let args = tensors.chain(likes).map(Some).chain(cotangents);
        let outs = self.outs(args.collect(), cts.len(), |i| step.statics()[i].clone());
        let (for_locals, for_params) = outs.split_at(locals.len());
        for (total, ct) in locals.iter_mut().zip(for_locals) {
            ct.iter().for_each(|ct| accumulate(total, ct));
        }
        for ((param, place), ct) in params.iter().zip(for_params) {
            match (place, ct) {
                (Some(i), Some(ct)) => pulled.add_leaf(*param, &step.places()[*i], ct),
                (None, Some(ct)) => pulled.add_tensor(*param, ct),
                (_, None) => {}
            }
        }
    }

    /// Records the equations, of which the last `n_linear` parameters may be zero.
    fn outs(
        &self,
        args: Vec<Option<Bound>>,
        n_linear: usize,
        host: impl Fn(usize) -> Static,
    ) -> Vec<Option<Tensor>> {
        let read = self.read();
        let ParsedListing { program, hosts } = &*read;
        let n_primal = args.len() - n_linear;
        let mut env = Env::new(program, args.into_iter());
        let statik = |attr: Attr| match hosts.get(attr) {
            Some(i) => host(*i),
            None => program.attr(attr).clone(),
        };
        let linear = program.params[n_primal..].iter().map(|v| (*v, ()));
        let mut linear: SecondaryMap<Var, ()> = linear.collect();
        for (i, eqn) in program.eqns.iter().enumerate() {
            if let Err(error) = run_eqn(&mut env, program, eqn, statik, &mut linear) {
                self.fail(i, error)
            }
        }
        let outs = program.outs.iter().map(|v| env.get(*v));
        outs.map(|out| out.map(|out| out.tensor().clone()))
            .collect()
    }
}

/// Records an equation whose operands may be zero.
fn run_eqn(
    env: &mut Env,
    program: &Program,
    eqn: &Eqn,
    statik: impl Fn(Attr) -> Static,
    linear: &mut SecondaryMap<Var, ()>,
) -> Result<()> {
    let data = eqn.data();
    if !data.iter().any(|v| linear.contains(*v)) {
        // The op makes zeros in the shape of a value that may be zero. It is recorded only if that
        // value is nonzero.
        if eqn.likes().iter().any(|v| linear.contains(*v)) {
            linear.extend(eqn.outs.iter().map(|v| (*v, ())));
            if eqn.likes().iter().any(|v| env.get(*v).is_none()) {
                return Ok(());
            }
        }
        return env.run(eqn, statik);
    }
    linear.extend(eqn.outs.iter().map(|v| (*v, ())));
    let is_zero = |v: &Var| env.get(*v).is_none();
    if let Some(terms) = eqn.op.def().facts().terms {
        let rest: Vec<usize> = (0..2).filter(|i| !is_zero(&data[*i])).collect();
        return match rest[..] {
            [] => Ok(()),
            [i] if terms[i] == TermSign::Plus => {
                env.set(eqn.out(), env.get(data[i]).cloned());
                Ok(())
            }
            [i] => {
                let args = [data[i]].into();
                let (op, outs, attrs) = (Op::Neg, eqn.outs.clone(), [].into());
                #[rustfmt::skip]
                return env.run(&Eqn { outs, op, attrs, args }, statik);
            }
            _ => env.run(eqn, statik),
        };
    }
    // Other ops get tensors of zeros for zero operands, unless all linear ones are zero.
    let operands = || (0..data.len()).filter(|i| linear.contains(data[*i]));
    let zeros: Vec<usize> = operands().filter(|i| is_zero(&data[*i])).collect();
    let Some(given) = operands().find_map(|i| env.get(data[i])) else {
        return Ok(());
    };
    let given = given.clone();
    for &i in &zeros {
        let like = match eqn.op.def().facts().aval_of {
            Some(aval_of) => env.get(eqn.args[aval_of(program, eqn, i)]),
            None => Some(&given),
        };
        let like = like.expect("an operand with the aval of a linear one is not linear");
        let filled = Bound::Tensor(zeros_of(like.aval()));
        env.set(data[i], Some(filled));
    }
    env.run(eqn, statik)?;
    zeros.into_iter().for_each(|i| env.set(data[i], None));
    Ok(())
}

impl ParsedListing {
    fn new(text: &str) -> ParsedListing {
        let program: Program = text.parse().expect("the macro emits a listing that parses");
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut hosts = SecondaryMap::new();
        for (i, value) in program.attrs.iter().enumerate() {
            if let Static::Host(name) = value {
                let next = places.len();
                let place = *places.entry(name).or_insert(next);
                hosts.insert(Attr::from_index(i), place);
            }
        }
        ParsedListing { program, hosts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LISTING: Listing = Listing::new(
        "(x, like_) {
           v1 = sum[axes=`axis`, keepdims=`keep`] x, like x
           v2 = sum[axes=`axis`, keepdims=true] x, like x
           v3 = full_like[value=2.0] like like_
           v4 = add v1, v2
           v5 = mul v4, v3
           return v5, v1
         }",
        "7 8",
        |place, error| panic!("place {place}: {error}"),
    );

    fn run(x: &Tensor, axis: i64) -> [Tensor; 2] {
        let like = Tensor::from([1.0f32, 2.0]);
        let (axis, keep) = (Static::Int(axis), Static::Bool(true));
        LISTING.run(&[x], &[like.aval()], &[&axis, &keep])
    }

    #[test]
    fn host_expressions_are_replaced_by_the_given_static_arguments() {
        let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
        let [y, sum] = run(&x, 1);
        assert_eq!(sum.shape(), [2, 1]);
        assert_eq!(y.to_vec::<f32>(), [12.0, 12.0, 28.0, 28.0]);
        assert_eq!(run(&x, 0)[1].shape(), [1, 2]);
    }

    #[test]
    #[should_panic(expected = "place 7: ")]
    fn a_failed_equation_is_reported_by_its_place() {
        run(&Tensor::from([1.0f32]), 3);
    }
}
