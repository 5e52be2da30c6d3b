package main

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"ckpt/predict"
)

// TestFigures: the errors that the README promises are those that predict eval prints.
func TestFigures(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`For (\d+) measured data zones the median error is ([0-9.]+) % and the largest ([0-9.]+) %`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("the README has no errors of predictions")
	}
	count := func(_, app, _ float64) (int, float64, float64, error) { return 0, app, app, nil }
	ev, err := predict.Evaluate(count)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range ev.Summary.Quantities {
		if q.Quantity != "data" {
			continue
		}
		want := []string{fmt.Sprint(q.Rows), fmt.Sprintf("%.2f", 100*q.OurMedianAll), fmt.Sprintf("%.2f", 100*q.OurMaxAll)}
		if got := m[1:]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the README says %v, predict eval %v", got, want)
		}
		return
	}
	t.Error("predict eval has no data zones")
}
