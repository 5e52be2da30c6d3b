package dataset

import (
	"errors"
	"strings"
	"testing"
)

// TestVariedInstance: a class and its parameter are the same problem; any size between
// classes is one, too.
func TestVariedInstance(t *testing.T) {
	w, err := LoadWorkload("bt")
	if err != nil {
		t.Fatal(err)
	}
	bytes := func(class string, np int) int64 {
		t.Helper()
		inst, err := w.VariedInstance(class, np)
		if err != nil {
			t.Fatal(err)
		}
		return inst.DataBytes()
	}
	if a, b := bytes("C", 16), bytes("n=162", 16); a != b {
		t.Errorf("class C has %d bytes, n=162 %d", a, b)
	}
	if small, n, large := bytes("B", 16), bytes("N=130", 16), bytes("C", 16); n <= small || n >= large {
		t.Errorf("N=130 has %d bytes, classes B and C %d and %d", n, small, large)
	}
	for class, want := range map[string]string{"M=7": `parameter "M" is not known`, "N=1.5": "whole number", "N=0": `class "N=0" is not known`, "N=102": "5 processes are not possible"} {
		np := 16
		if class == "N=102" {
			np = 5
		}
		var spec *SpecError
		if _, err := w.VariedInstance(class, np); !errors.As(err, &spec) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) || spec.Hint() == "" {
			t.Errorf("%s: %v", class, err)
		}
	}
}

// TestVariedMeasurements: the column of the parameter takes the place of the class.
func TestVariedMeasurements(t *testing.T) {
	read := func(text, param string) ([]Measurement, error) {
		tab, err := ReadTable(strings.NewReader(text), "mine.csv")
		if err != nil {
			return nil, err
		}
		return VariedMeasurements(tab, param)
	}
	got, err := read("app,n,n_processes,dtapp_MiB\nheat,1024,4,9\nheat,4096,4,130.5\nheat,0.5,4,1\n", "n")
	if err != nil || len(got) != 3 || got[1].Class != "n=4096" || got[1].Data != 130.5 || got[2].Class != "n=0.5" {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"app,n_processes,dtapp_MiB\nheat,4,9\n":        "column n: the column is missing",
		"app,n,n_processes,dtapp_MiB\nheat,,4,9\n":     `line 2: column n: "" is not a problem size`,
		"app,n,n_processes,dtapp_MiB\nheat,-3,4,9\n":   "not a problem size",
		"app,n,n_processes,dtapp_MiB\nheat,big,4,9\n":  "not a number",
		"app,n,n_processes,dtap_MiB\nheat,1024,4,9\n":  "column dtap_MiB: is not known",
		"app,n,n_processes,dtapp_MiB\nheat,1e10,4,9\n": "not a problem size",
	} {
		var bad *TableError
		if _, err := read(text, "n"); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || bad.Hint() == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
