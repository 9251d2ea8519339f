//! Curves as an SVG file.

use plotters::prelude::*;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Draws named curves over the epochs, which count from 1. Creates the folder of the file if it is
/// missing.
///
/// # Errors
///
/// If the file cannot be written.
pub fn curves(path: &Path, title: &str, curves: &[(&str, Vec<f32>)]) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let n = curves.iter().map(|(_, ys)| ys.len()).max().unwrap_or(0);
    let top = curves
        .iter()
        .flat_map(|(_, ys)| ys)
        .copied()
        .fold(0f32, f32::max);
    let area = SVGBackend::new(path, (640, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(1f32..n.max(2) as f32, 0f32..top * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(n.clamp(2, 11)) // a label between two epochs would have the number of one
        .x_label_formatter(&|x| format!("{x:.0}"))
        .x_desc("epoch")
        .y_desc("loss")
        .draw()?;
    for ((name, ys), color) in curves.iter().zip([BLUE, RED, GREEN].iter().cycle()) {
        let points = ys.iter().enumerate().map(|(i, &y)| ((i + 1) as f32, y));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_every_curve() {
        let folder = std::env::temp_dir().join(format!("gradloom-chart-{}", std::process::id()));
        let path = folder.join("new/loss.svg");
        curves(
            &path,
            "a title",
            &[("one", vec![2.0, 1.0]), ("two", vec![1.5])],
        )
        .unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(folder).unwrap();
        for text in ["<svg", "a title", "one", "two", "epoch", "</svg>"] {
            assert!(svg.contains(text), "`{text}` is missing");
        }
    }
}
