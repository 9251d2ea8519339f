#![deny(warnings)]

use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Net {
    proj: Option<Linear>,
    layers: Vec<Linear>,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

macro_rules! functions {
    ($($name:ident($this:ident, $x:ident) $body:block)*) => {
        #[traced]
        impl Net {
            $(fn $name(&$this, $x: &Tensor) -> Tensor $body)*
        }

        const NAMES: &[(&str, Option<&str>, fn(&Net, &Tensor) -> Tensor)] =
            &[$((stringify!($name), facts::$name, Net::$name)),*];
    };
}

// The names of constants cannot be made by `macro_rules!`.
#[allow(non_upper_case_globals)]
mod facts {
    use super::Net;
    pub(super) const map: Option<&str> = Net::MAP_RECORDED;
    pub(super) const map_or: Option<&str> = Net::MAP_OR_RECORDED;
    pub(super) const map_or_else: Option<&str> = Net::MAP_OR_ELSE_RECORDED;
    pub(super) const first: Option<&str> = Net::FIRST_RECORDED;
    pub(super) const get: Option<&str> = Net::GET_RECORDED;
    pub(super) const last: Option<&str> = Net::LAST_RECORDED;
    pub(super) const next: Option<&str> = Net::NEXT_RECORDED;
    pub(super) const cloned: Option<&str> = Net::CLONED_RECORDED;
    pub(super) const and_then: Option<&str> = Net::AND_THEN_RECORDED;
    pub(super) const iter: Option<&str> = Net::ITER_RECORDED;
}

functions! {
    map(self, x) { self.proj.as_ref().map(|p| p.forward(x)).unwrap_or_else(|| x.clone()) }
    map_or(self, x) { self.proj.as_ref().map_or(x.clone(), |p| p.forward(x)) }
    map_or_else(self, x) { self.proj.as_ref().map_or_else(|| x.clone(), |p| p.forward(x)) }
    first(self, x) { self.layers.first().map(|p| p.forward(x)).unwrap_or_else(|| x.clone()) }
    get(self, x) { self.layers.get(0).map_or_else(|| x.clone(), |p| p.forward(x)) }
    last(self, x) { self.layers.last().map_or(x.clone(), |p| p.forward(x)) }
    next(self, x) { self.layers.iter().next().map(|p| p.forward(x)).unwrap_or(x.clone()) }
    cloned(self, x) { self.proj.clone().map(|p| p.forward(x)).unwrap_or(x.clone()) }
    and_then(self, x) { self.proj.as_ref().and_then(|p| Some(p.forward(x))).unwrap_or(x.clone()) }
    iter(self, x) { self.proj.iter().map(|p| p.forward(x)).fold(x * 0.0, |a, b| a + b) }
}

#[traced]
fn field(net: &Net, x: &Tensor) -> Tensor {
    net.proj
        .as_ref()
        .map(|p| p.forward(x))
        .unwrap_or_else(|| x.clone())
}

#[traced]
fn parameter(proj: Option<&Linear>, x: &Tensor) -> Tensor {
    proj.map(|p| p.forward(x)).unwrap_or_else(|| x.clone())
}

#[test]
fn runs() {
    assert_eq!([field::RECORDED, parameter::RECORDED], [None; 2]);
    let proj = Linear {
        w: Tensor::from([2.0f32]),
    };
    let net = Net {
        proj: Some(proj.clone()),
        layers: vec![proj],
    };
    let x = Tensor::from([3.0f32]);
    for (name, recorded, f) in NAMES {
        assert_eq!(*recorded, None, "{name}");
        assert_eq!(f(&net, &x).to_vec::<f32>(), [6.0], "{name}");
    }
    assert_eq!(field(&net, &x).to_vec::<f32>(), [6.0]);
    assert_eq!(parameter(net.proj.as_ref(), &x).to_vec::<f32>(), [6.0]);
    assert_eq!(parameter(None, &x).to_vec::<f32>(), [3.0]);
}
