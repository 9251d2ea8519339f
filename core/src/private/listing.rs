//! A long stretch of equations as text: it costs rustc nothing, and is read when it first runs.

use crate::transform::{Bound, replay_with};
use crate::{Aval, Error, Tensor};
use gradloom_ir::{Attr, Entity, Program, SecondaryMap, Static};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Equations in the text form of programs. Those who write it know the equations, so it parses.
#[derive(Debug)]
pub struct Listing {
    text: &'static str,
    read: OnceLock<Read>,
}

#[derive(Debug)]
struct Read {
    program: Program,
    /// Where among the given static arguments the host expressions of the text are.
    hosts: SecondaryMap<Attr, usize>,
}

impl Listing {
    /// A listing of this text.
    pub const fn new(text: &'static str) -> Listing {
        Listing {
            text,
            read: OnceLock::new(),
        }
    }

    /// Records the equations and returns the results.
    ///
    /// The parameters are `tensors`, then `likes`, of which the dtype and the shape are known. A host expression of the
    /// text is the name of a static argument; `statics` has them in the order in which they are first named. The
    /// number of an equation that does not fit goes to `failed` with its error.
    pub fn run<const N: usize>(
        &self,
        tensors: &[&Tensor],
        likes: &[&Aval],
        statics: &[&Static],
        failed: fn(usize, Error) -> !,
    ) -> [Tensor; N] {
        let Read { program, hosts } = self.read.get_or_init(|| Read::new(self.text));
        let tensors = tensors.iter().map(|x| Bound::Tensor((*x).clone()));
        let likes = likes.iter().map(|like| Bound::Aval((*like).clone()));
        let args: Vec<Bound> = tensors.chain(likes).collect();
        let statik = |attr: Attr| match hosts.get(attr) {
            Some(i) => statics[*i].clone(),
            None => program.attr(attr).clone(),
        };
        let outs = match replay_with(program, &args, statik) {
            Ok(outs) => outs,
            Err((eqn, error)) => failed(eqn, error),
        };
        let outs: Vec<Tensor> = outs.iter().map(|out| out.tensor().clone()).collect();
        outs.try_into()
            .expect("a listing says how many results it has")
    }
}

impl Read {
    fn new(text: &str) -> Read {
        let program: Program = text.parse().expect("a listing parses");
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut hosts = SecondaryMap::new();
        for (i, value) in program.attrs.iter().enumerate() {
            if let Static::Host(name) = value {
                let next = places.len();
                let place = *places.entry(name).or_insert(next);
                hosts.insert(Attr::from_index(i), place);
            }
        }
        Read { program, hosts }
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
    );

    fn run(x: &Tensor, axis: i64) -> [Tensor; 2] {
        let like = Tensor::from([1.0f32, 2.0]);
        let (axis, keep) = (Static::Int(axis), Static::Bool(true));
        LISTING.run(&[x], &[like.aval()], &[&axis, &keep], |eqn, error| {
            panic!("equation {eqn}: {error}")
        })
    }

    #[test]
    fn host_expressions_are_the_given_static_arguments() {
        let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
        let [y, sum] = run(&x, 1);
        assert_eq!(sum.shape(), [2, 1]);
        assert_eq!(y.to_vec::<f32>(), [12.0, 12.0, 28.0, 28.0]);
        assert_eq!(run(&x, 0)[1].shape(), [1, 2]);
    }

    #[test]
    #[should_panic(expected = "equation 0: ")]
    fn an_equation_that_does_not_fit_is_known_by_its_number() {
        run(&Tensor::from([1.0f32]), 3);
    }
}
