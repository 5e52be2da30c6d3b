package report

import "image/color"

// The colours of plots. Categories have the colours of Okabe and Ito, which
// colour-blind people can tell apart. Many ranks have colours along a scale.
var (
	ink   = color.NRGBA{0, 0, 0, 255}
	faint = color.NRGBA{221, 221, 221, 255}

	writeColor = color.NRGBA{0, 114, 178, 255} // blue
	readColor  = color.NRGBA{213, 94, 0, 255}  // vermilion

	categories = []color.NRGBA{
		{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
		{86, 180, 233, 255}, {230, 159, 0, 255}, {112, 86, 151, 255}, {120, 120, 120, 255},
	}
	// viridis, from 0.1 to 0.9
	scale = []color.NRGBA{
		{72, 36, 117, 255}, {65, 68, 135, 255}, {53, 95, 141, 255}, {42, 120, 142, 255},
		{33, 145, 140, 255}, {34, 168, 132, 255}, {94, 201, 98, 255}, {189, 223, 38, 255},
	}
)

// A page defines a variable for each colour, and themed SVG refers to them, so that
// dark pages can have other colours. In order: ink and faint, then the others.
var themed = func() map[color.NRGBA]string {
	m := map[color.NRGBA]string{ink: "ink", faint: "faint"}
	for i, c := range categories {
		m[c] = "c" + string(rune('0'+i))
	}
	for i, c := range scale {
		m[c] = "s" + string(rune('0'+i))
	}
	return m
}()
