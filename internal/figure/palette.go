package figure

import "image/color"

// Ink is the colour of text and axes, Faint that of the grid.
var (
	Ink   = color.NRGBA{0, 0, 0, 255}
	Faint = color.NRGBA{221, 221, 221, 255}
)

// The colours of Okabe and Ito, which colour-blind people can tell apart.
var (
	Blue      = color.NRGBA{0, 114, 178, 255}
	Vermilion = color.NRGBA{213, 94, 0, 255}
	Green     = color.NRGBA{0, 158, 115, 255}
	Purple    = color.NRGBA{204, 121, 167, 255}
	Sky       = color.NRGBA{86, 180, 233, 255}
	Orange    = color.NRGBA{230, 159, 0, 255}
	Violet    = color.NRGBA{112, 86, 151, 255}
	Grey      = color.NRGBA{120, 120, 120, 255}
)

// Categories are colours for things without an order.
var Categories = []color.NRGBA{Blue, Vermilion, Green, Purple, Sky, Orange, Violet, Grey}

// Ramp are colours for things with an order: viridis, from 0.1 to 0.9.
var Ramp = []color.NRGBA{
	{72, 36, 117, 255}, {65, 68, 135, 255}, {53, 95, 141, 255}, {42, 120, 142, 255},
	{33, 145, 140, 255}, {34, 168, 132, 255}, {94, 201, 98, 255}, {189, 223, 38, 255},
}

// Pale returns a colour with some transparency, from 0 to 255.
func Pale(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}
