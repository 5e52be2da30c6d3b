package plan

import (
	"ckpt/predict"
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
