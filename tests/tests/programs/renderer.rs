//! A differentiable renderer: soft shapes that are drawn over one another.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};
use std::f64::consts::PI;

#[derive(Clone, Tree)]
enum Shape {
    Circle { centre: Tensor, radius: Tensor },
    Square { centre: Tensor, side: Tensor },
}

#[derive(Clone, Tree)]
struct Layer {
    shape: Shape,
    colour: Tensor,
    opacity: Option<Tensor>,
}

#[derive(Clone, Copy, Debug, Tree)]
struct Camera {
    #[tree(skip)]
    width: usize,
    #[tree(skip)]
    height: usize,
    #[tree(skip)]
    sharpness: f64,
}

type Scene = Vec<Layer>;

#[traced]
impl Shape {
    /// The distance of each pixel from the border: negative inside.
    fn distance(&self, pixels: &Tensor) -> Tensor {
        match self {
            Shape::Circle { centre, radius } => (pixels - centre).square().sum(-1).sqrt() - radius,
            Shape::Square { centre, side } => (pixels - centre).abs().max(-1) - side * 0.5,
        }
    }

    fn moved(self, by: &Tensor) -> Self {
        match self {
            Shape::Circle { centre, radius } => Shape::Circle {
                centre: centre + by,
                radius,
            },
            Shape::Square { centre, side } => Shape::Square {
                centre: centre + by,
                side,
            },
        }
    }
}

#[traced]
impl Camera {
    /// The centres of the pixels in the unit square: [height, width, 2].
    fn pixels(&self) -> Tensor {
        let x = (Tensor::arange(self.width, DType::F64) + 0.5) / self.width as f64;
        let y = (Tensor::arange(self.height, DType::F64) + 0.5) / self.height as f64;
        let shape = [self.height, self.width];
        Tensor::stack(
            &[x.broadcast_to(shape), y.unsqueeze(1).broadcast_to(shape)],
            -1,
        )
    }

    fn coverage(&self, layer: &Layer) -> Tensor {
        let inside = (-layer.shape.distance(&self.pixels()) * self.sharpness).sigmoid();
        match &layer.opacity {
            Some(opacity) => inside * opacity.sigmoid(),
            None => inside,
        }
    }

    fn render(&self, scene: &[Layer], background: &Tensor) -> Tensor {
        scene.iter().fold(
            background.broadcast_to([self.height, self.width, 3]),
            |image, layer| {
                let cover = self.coverage(layer).unsqueeze(-1);
                image * (1.0 - &cover) + cover * &layer.colour
            },
        )
    }
}

#[traced]
fn loss(scene: &Scene, background: &Tensor, #[nodiff] target: &Tensor, camera: Camera) -> Tensor {
    (camera.render(scene, background) - target)
        .square()
        .mean(..)
}

#[traced]
fn area(shape: &Shape, camera: Camera) -> Tensor {
    (-shape.distance(&camera.pixels()) * camera.sharpness)
        .sigmoid()
        .mean(..)
}

fn circle(x: f64, y: f64, r: f64) -> Shape {
    Shape::Circle {
        centre: Tensor::from([x, y]),
        radius: Tensor::scalar(r),
    }
}

fn square(x: f64, y: f64, side: f64) -> Shape {
    Shape::Square {
        centre: Tensor::from([x, y]),
        side: Tensor::scalar(side),
    }
}

const SMALL: Camera = Camera {
    width: 16,
    height: 12,
    sharpness: 20.0,
};

fn scene() -> (Scene, Tensor) {
    let scene = vec![
        Layer {
            shape: circle(0.4, 0.5, 0.3),
            colour: Tensor::from([1.0f64, 0.2, 0.1]),
            opacity: None,
        },
        Layer {
            shape: square(0.7, 0.6, 0.5),
            colour: Tensor::from([0.1f64, 0.8, 0.3]),
            opacity: Some(Tensor::scalar(1.0f64)),
        },
    ];
    (scene, Tensor::from([0.1f64, 0.1, 0.2]))
}

fn moved(scene: &Scene) -> Scene {
    let by = Tensor::from([0.1f64, -0.08]);
    scene
        .iter()
        .map(|layer| Layer {
            shape: layer.shape.clone().moved(&by),
            ..layer.clone()
        })
        .collect()
}

#[test]
fn the_areas_and_their_slopes_are_those_of_geometry() {
    let camera = Camera {
        width: 64,
        height: 64,
        sharpness: 150.0,
    };
    let (value, grads) = area::value_and_grad(&circle(0.5, 0.48, 0.25), camera);
    near("the circle", &entries(&value), &[PI * 0.0625], 5e-3).unwrap();
    let Shape::Circle { radius, .. } = grads.shape else {
        panic!("the gradient of a circle is a circle");
    };
    near("its slope", &entries(&radius), &[PI * 0.5], 2e-2).unwrap();
    let value = area(&square(0.5, 0.5, 0.5), camera);
    near("the square", &entries(&value), &[0.25], 1e-2).unwrap();
    let there = area(
        &circle(0.2, 0.3, 0.1).moved(&Tensor::from([0.1f64, 0.1])),
        camera,
    );
    let here = area(&circle(0.3, 0.4, 0.1), camera);
    near("moved", &entries(&there), &entries(&here), 1e-12).unwrap();
}

#[test]
fn a_pixel_has_the_colour_of_the_last_layer_over_it() {
    let (scene, background) = scene();
    let camera = Camera {
        sharpness: 1e4,
        ..SMALL
    };
    let image = entries(&camera.render(&scene, &background));
    let pixel = |x: usize, y: usize| &image[3 * (y * 16 + x)..][..3];
    near("background", pixel(0, 0), &[0.1, 0.1, 0.2], 1e-12).unwrap();
    near("circle", pixel(4, 5), &[1.0, 0.2, 0.1], 1e-12).unwrap();
    let a = 1.0 / (1.0 + (-1.0f64).exp());
    let both = [1.0 - a + 0.1 * a, 0.2 + 0.6 * a, 0.1 + 0.2 * a];
    near("both", pixel(9, 6), &both, 1e-12).unwrap();
}

#[test]
fn the_gradient_is_right_and_the_fit_finds_the_scene() {
    let (truth, background) = scene();
    let target = SMALL.render(&truth, &background);
    evaluate(&target).unwrap();
    let mut scene = moved(&truth);
    let run = |scene: &Scene| loss(scene, &background, &target, SMALL);
    let by = noise_like(&scene, 1);
    let slope = gradloom::tree::dot(&loss::grad(&scene, &background, &target, SMALL).scene, &by);
    near(
        "the slope",
        &entries(&slope),
        &differences(&run, &scene, &by, 1e-4),
        1e-7,
    )
    .unwrap();

    let adam = Adam {
        lr: 0.02,
        ..Adam::default()
    };
    let mut state = adam.init(&scene);
    let before = run(&scene).item::<f64>();
    for _ in 0..100 {
        let (value, grads) = loss::value_and_grad(&scene, &background, &target, SMALL);
        (scene, state) = adam.step(&scene, &grads.scene, &state);
        value.item::<f64>();
    }
    let after = run(&scene).item::<f64>();
    assert!(after < 0.02 * before, "{before} and {after}");
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    assert_eq!(Shape::DISTANCE_RECORDED, None);
    assert_eq!(Shape::MOVED_RECORDED, None);
    assert_eq!(Camera::PIXELS_RECORDED, None);
    assert_eq!(Camera::COVERAGE_RECORDED, None);
    assert_eq!(Camera::RENDER_RECORDED, None);
    assert_eq!(loss::RECORDED, None);
    let (truth, background) = scene();
    let target = SMALL.render(&truth, &background);
    evaluate(&target).unwrap();
    let mut scene = moved(&truth);
    finds(|| SMALL.render(&scene, &background));
    finds(|| loss::grad(&scene, &background, &target, SMALL).scene);
    let mut step = || {
        let (value, grads) = loss::value_and_grad(&scene, &background, &target, SMALL);
        scene = gradloom::tree::sub(&scene, &gradloom::tree::scale(&grads.scene, 0.1));
        evaluate((&value, &scene)).unwrap();
    };
    step();
    plans_nothing(step);
}
