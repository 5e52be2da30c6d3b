package fileview_test

import (
	"strconv"
	"strings"
	"testing"

	"ckpt/image/plan/fileview"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ // sizes of the view, offset of its last byte
		"128:4096+12288x3":      "12288 36991",
		"0:8+8,16+0x2":          "48 63",
		"7:5x1":                 "5 11",
		"16:8[10,10][:,::4]":    "240 807",
		"0:4[3,10][1,2:20:3]":   "12 75",
		"0:1[4,4,4][:2,:,3]":    "8 31",
		"":                      "want a displacement",
		"x:1+1":                 "want a displacement",
		"0:1+1x0":               "repetitions",
		"0:1+":                  "blocks like",
		"0:a":                   "blocks like",
		"0:0+1":                 "size 0",
		"-1:1":                  "negative",
		"0:8[10":                "the bytes of a cell",
		"0:8[10][:,:]":          "one slice for each axis",
		"0:8[10][::0]":          "slices like",
		"0:8[10][-1]":           "slices like",
		"0:8[10][::]extra":      "the bytes of a cell",
		"0:8[0][:]":             "cells from 1",
		"0:8[10][11]":           "the axis has 10",
		"9223372036854775807:2": "beyond the largest offset",
	} {
		v, err := fileview.Parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		last, _, _ := v.Offset(v.Size() - 1)
		got := strings.TrimSpace(strings.Join([]string{strconv.Itoa(int(v.Size())), strconv.Itoa(int(last))}, " "))
		if got != want {
			t.Errorf("%q: %s, want %q", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("128:4096+12288x3")
	f.Add("0:8[10,10][:,::4]")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := fileview.Parse(text); err == nil {
			if _, _, ok := v.Offset(0); !ok || v.Size() < 1 {
				t.Errorf("%q is a view of nothing", text)
			}
		}
	})
}
