package pfs

import (
	"math"
	"reflect"
)

// Round rounds rates, times and factors of a description that was measured to so many
// digits, so that people can read it. Times below a nanosecond become zero.
func (s *System) Round(digits int) { roundIn(reflect.ValueOf(s).Elem(), digits) }

func roundIn(v reflect.Value, digits int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			roundIn(v.Field(i), digits)
		}
	case reflect.Slice:
		for i := range v.Len() {
			roundIn(v.Index(i), digits)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			x := reflect.New(v.Type().Elem()).Elem()
			x.Set(v.MapIndex(k))
			roundIn(x, digits)
			v.SetMapIndex(k, x)
		}
	case reflect.Float64:
		x := v.Float()
		if _, isTime := v.Interface().(Duration); isTime && x < 1e-9 {
			x = 0
		}
		if x != 0 {
			// Dividing by a power of ten gives the nearest number, multiplying does not.
			places := digits - 1 - int(math.Floor(math.Log10(math.Abs(x))))
			if scale := math.Pow10(places); places > 0 {
				x = math.Round(x*scale) / scale
			} else {
				scale = math.Pow10(-places)
				x = math.Round(x/scale) * scale
			}
		}
		v.SetFloat(x)
	}
}
