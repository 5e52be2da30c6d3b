package eval

import (
	"ckpt/dataset"
	"ckpt/predict"
	"slices"
	"testing"
)

func model(t testing.TB) *predict.Model {
	t.Helper()
	m, err := predict.Default()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func app(t testing.TB, m *predict.Model, s string) predict.App {
	t.Helper()
	a, err := m.Application(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func rowsOf(t testing.TB, table, series string, np ...int) []dataset.Measurement {
	t.Helper()
	all, err := dataset.Measurements()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(m dataset.Measurement) bool {
		return m.Table != table || m.Series() != series || len(np) > 0 && !slices.Contains(np, m.NP)
	})
}
