package predict

import (
	"slices"
	"testing"

	"ckpt/dataset"
	"ckpt/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Sample(25)
	m.Run()
}

func model(t testing.TB) *Model {
	t.Helper()
	m, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func app(t testing.TB, m *Model, s string) App {
	t.Helper()
	a, err := m.Application(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func size(t testing.TB, m *Model, r Request) *Size {
	t.Helper()
	s, err := m.Size(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rowsOf are the measurements of one table and series.
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
