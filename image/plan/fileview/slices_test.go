package fileview_test

import (
	"strings"
	"testing"

	"ckpt/image/plan/fileview"
)

// TestSlicesJoin: cells that touch are one block, rows that follow each other one repetition.
func TestSlicesJoin(t *testing.T) {
	all := func(n int64) fileview.Slice { return fileview.Slice{Count: n, Step: 1} }
	for _, c := range []struct {
		shape  []int64
		slices []fileview.Slice
		blocks int64 // in 4 rows
	}{
		{[]int64{4, 10}, []fileview.Slice{all(4), all(10)}, 1},
		{[]int64{4, 10}, []fileview.Slice{all(4), {First: 1, Count: 5, Step: 2}}, 20},
		{[]int64{4, 3, 10}, []fileview.Slice{all(4), {Count: 2, Step: 2}, all(10)}, 8},
		{[]int64{4, 3, 10}, []fileview.Slice{all(4), all(3), {First: 9, Count: 1, Step: 1}}, 12},
	} {
		v, err := fileview.NewSlices(100, 8, c.shape, c.slices)
		if err != nil {
			t.Fatal(err)
		}
		f := mustFile(t, nullFile{}, v, fileview.Options{Rule: fileview.Naive})
		if got := f.Plan(fileview.Read, 0, v.Size()).Reads; got != c.blocks {
			t.Errorf("%v of %v: %d blocks, want %d", c.slices, c.shape, got, c.blocks)
		}
	}
}

func TestSlicesRefused(t *testing.T) {
	t.Parallel()
	one := []fileview.Slice{{Count: 1, Step: 1}}
	for _, c := range []struct {
		at, cell int64
		shape    []int64
		slices   []fileview.Slice
		want     string
	}{
		{-1, 8, []int64{4}, one, "negative"},
		{0, 0, []int64{4}, one, "cells of 0 bytes"},
		{0, 8, []int64{4, 4}, one, "2 axes and 1 slices"},
		{0, 8, []int64{4}, []fileview.Slice{{First: 2, Count: 3, Step: 1}}, "axis 0: 3 cells from 2 by 1: the axis has 4"},
		{0, 8, []int64{4}, []fileview.Slice{{Count: 1, Step: -1}}, "by -1"},
		{0, 8, []int64{1 << 40, 1 << 40}, append(one, one...), "beyond the largest offset"},
		{0, 1, []int64{9, 4096, 4096, 9}, []fileview.Slice{{Count: 2, Step: 2}, {Count: 2048, Step: 2}, {Count: 2047, Step: 2}, {Count: 2, Step: 4}}, "read that axis cell by cell"},
	} {
		if _, err := fileview.NewSlices(c.at, c.cell, c.shape, c.slices); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}
