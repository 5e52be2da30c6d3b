package fileview

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a view from its text, in bytes and cells:
//
//	DISPLACEMENT:SIZE+HOLE,SIZE+HOLE…[xREPEAT]     blocks, to the end of the file without xREPEAT
//	DISPLACEMENT:CELL[CELLS,CELLS…][SLICE,SLICE…]  a part of an array, with slices as in numpy
//
// 128:4096+12288 is every fourth block of 4 KiB after a header of 128 bytes, and
// 0:8[1000,1000][:,::4] is every fourth column of an array of 1000 rows of 1000 numbers.
func Parse(text string) (*View, error) {
	at, rest, found := strings.Cut(text, ":")
	initial, err := strconv.ParseInt(at, 10, 64)
	if !found || err != nil {
		return nil, wrong(text, "want a displacement and a colon first")
	}
	if cell, array, found := strings.Cut(rest, "["); found {
		return parseSlices(text, initial, cell, array)
	}
	repeat := Forever
	if blocks, times, found := strings.Cut(rest, "x"); found {
		if repeat, err = strconv.ParseInt(times, 10, 64); err != nil || repeat < 1 {
			return nil, wrong(text, "want a number of repetitions from 1 after x")
		}
		rest = blocks
	}
	var tuples []Tuple
	for _, word := range strings.Split(rest, ",") {
		size, hole, found := strings.Cut(word, "+")
		t := Tuple{}
		if t.Size, err = strconv.ParseInt(size, 10, 64); err != nil {
			return nil, wrong(text, "want blocks like 4096+12288, bytes and the hole after them")
		}
		if t.Hole, err = strconv.ParseInt(hole, 10, 64); found && err != nil {
			return nil, wrong(text, "want blocks like 4096+12288, bytes and the hole after them")
		}
		tuples = append(tuples, t)
	}
	return NewView(initial, tuples, repeat)
}

func wrong(text, want string) error {
	return fmt.Errorf("view %q: %s, as in 128:4096+12288 or 0:8[1000,1000][:,::4]", text, want)
}

func parseSlices(text string, initial int64, cell, array string) (*View, error) {
	size, err := strconv.ParseInt(cell, 10, 64)
	cells, part, found := strings.Cut(strings.TrimSuffix(array, "]"), "][")
	if err != nil || !found || !strings.HasSuffix(array, "]") {
		return nil, wrong(text, "want the bytes of a cell, [cells of each axis] and [a slice of each axis]")
	}
	var shape []int64
	for _, word := range strings.Split(cells, ",") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 1 {
			return nil, wrong(text, "want cells from 1 for each axis")
		}
		shape = append(shape, n)
	}
	words := strings.Split(part, ",")
	if len(words) != len(shape) {
		return nil, wrong(text, "want one slice for each axis")
	}
	slices := make([]Slice, len(words))
	for k, word := range words {
		if slices[k], err = parseSlice(word, shape[k]); err != nil {
			return nil, wrong(text, "want slices like 3, 0:100, ::4 or 10:90:2")
		}
	}
	return NewSlices(initial, size, shape, slices)
}

// parseSlice reads a number, or FIRST:END[:STEP], each of which may be left out.
func parseSlice(word string, cells int64) (Slice, error) {
	numbers := [3]int64{0, cells, 1}
	words := strings.Split(word, ":")
	if len(words) > 3 {
		return Slice{}, strconv.ErrSyntax
	}
	for i, w := range words {
		if w == "" && len(words) > 1 {
			continue
		}
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil || n < 0 {
			return Slice{}, strconv.ErrSyntax
		}
		numbers[i] = n
	}
	first, end, step := numbers[0], min(numbers[1], cells), numbers[2]
	if len(words) == 1 {
		end = first + 1
	}
	if step < 1 {
		return Slice{}, strconv.ErrSyntax
	}
	return Slice{First: first, Count: max(0, end-first+step-1) / step, Step: step}, nil
}
