#![deny(warnings)]

use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<Layer>,
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }

    fn count(&self) -> usize {
        self.w.dim(0)
    }

    fn is_long(&self) -> bool {
        self.w.dim(0) > 2
    }

    fn sizes(&self) -> (usize, usize) {
        (self.w.dim(0), self.w.rank())
    }

    fn scale(&self) -> f64 {
        2.0
    }

    fn more_than(&self, n: usize) -> usize {
        self.w.dim(0) + n
    }
}

#[traced]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut y = x.clone();
        for layer in &self.layers {
            y = layer.forward(&y) * layer.count() as f64;
        }
        (y / self.layers[0].count() as f64).sum(..)
    }
}

fn count_of(layer: &Layer) -> usize {
    layer.w.dim(0)
}

fn counts_of(layer: &Layer, other: &Layer) -> usize {
    layer.w.dim(0) + other.w.dim(0)
}

#[traced]
fn cast(l: &Layer, x: &Tensor) -> Tensor {
    x.sum(..) * l.count() as f64
}

#[traced]
fn typed(l: &Layer, x: &Tensor) -> Tensor {
    let mut n: usize = l.count();
    n += 1;
    x.sum(..) * n as f64
}

#[traced]
fn untyped(l: &Layer, x: &Tensor) -> Tensor {
    let n = l.count();
    x.sum(..) * n as f64
}

#[traced]
fn arithmetic(l: &Layer, x: &Tensor) -> Tensor {
    let n: usize = 2 * l.count() + 1;
    x.sum(..) * (l.count() + n) as f64
}

#[traced]
fn method_of_a_number(l: &Layer, x: &Tensor) -> Tensor {
    let n: usize = l.count().min(2);
    x.reshape([l.count().max(1), 1]).sum(..) * (n + l.count().pow(2)) as f64
}

#[traced]
fn length(l: &Layer, x: &Tensor) -> Tensor {
    let n = l.count();
    x.reshape([n, 1]).sum(..) * l.more_than(l.count()) as f64
}

#[traced]
fn bound(l: &Layer, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..l.count() {
        y = y * 2.0;
    }
    y.sum(..)
}

#[traced]
fn condition(l: &Layer, x: &Tensor) -> Tensor {
    if l.count() > 5 {
        x.cos().sum(..)
    } else if l.is_long() {
        x.sum(..) * 7.0
    } else {
        x.sin().sum(..)
    }
}

#[traced]
fn pair(l: &Layer, x: &Tensor) -> Tensor {
    let (n, rank): (usize, usize) = l.sizes();
    x.sum(..) * (n * rank) as f64
}

#[traced]
fn float(l: &Layer, x: &Tensor) -> Tensor {
    let scale: f64 = l.scale();
    x.sum(..) * scale
}

#[traced]
fn in_a_closure(l: &Layer, x: &Tensor) -> Tensor {
    let f = |y: &Tensor| y * (l.count() as f64);
    f(x).sum(..)
}

#[traced(pure)]
fn function(l: &Layer, x: &Tensor) -> Tensor {
    x.sum(..) * count_of(l) as f64
}

#[traced(pure)]
fn owned(l: Layer, x: &Tensor) -> Tensor {
    x.sum(..) * counts_of(&l, &l) as f64
}

#[test]
fn runs() {
    let l = Layer {
        w: Tensor::from([1.0f32, 2.0, 4.0]),
    };
    let x = Tensor::ones([3], DType::F32);
    macro_rules! check {
        ($($f:ident: $want:expr;)*) => {$(
            assert_eq!($f::RECORDED, None);
            for _ in 0..2 {
                assert_eq!($f(&l, &x).item::<f32>(), 3.0 * $want, stringify!($f));
                let got = $f::grad(&l, &x).x.to_vec::<f32>();
                assert_eq!(got, [$want; 3], stringify!($f));
            }
        )*};
    }
    check! {
        cast: 3.0;
        typed: 4.0;
        untyped: 3.0;
        arithmetic: 10.0;
        method_of_a_number: 11.0;
        length: 6.0;
        bound: 8.0;
        condition: 7.0;
        pair: 3.0;
        float: 2.0;
        in_a_closure: 3.0;
        function: 3.0;
    }
    let got = owned::grad(l.clone(), &x).x.to_vec::<f32>();
    assert_eq!(got, [6.0; 3]);
    let net = Net { layers: vec![l] };
    assert_eq!(Net::FORWARD_RECORDED, None);
    assert_eq!(net.forward_grad(&x).x.to_vec::<f32>(), [1.0, 2.0, 4.0]);
}
