package iotrace_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ckpt/iotrace"
)

func TestLines(t *testing.T) {
	r := iotrace.NewLines(strings.NewReader("one\n\nthree"))
	if string(r.Head()) != "one\n\nthree" {
		t.Errorf("head %q", r.Head())
	}
	for i, want := range []string{"one", "", "three"} {
		l, err := r.Next()
		if err != nil || string(l) != want || r.Number() != int64(i+1) || r.Whole() != (i < 2) {
			t.Errorf("line %d: %q, %v", i, l, err)
		}
	}
	if l, err := r.Next(); err != io.EOF || r.Number() != 3 {
		t.Errorf("%q, %v, line %d", l, err, r.Number())
	}
	if err := r.Truncated("gone"); !errors.Is(err, iotrace.ErrTruncated) || err.Error() != "line 3: gone" {
		t.Error(err)
	}
}

func TestLongLine(t *testing.T) {
	r := iotrace.NewLines(strings.NewReader("x\n" + strings.Repeat("y", iotrace.MaxLine) + "\n"))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err == nil || err.Error() != fmt.Sprintf("line 2: the line is longer than %d bytes", iotrace.MaxLine) {
		t.Error(err)
	}
}

func TestInt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		if got, ok := iotrace.Int(fmt.Append(nil, n)); !ok || got != n {
			t.Fatalf("%d: %d, %v", n, got, ok)
		}
		s := rapid.StringMatching(`-?[0-9]{0,22}[x+-]?`).Draw(t, "s")
		want, ok := new(big.Int).SetString(s, 10)
		ok = ok && want.IsInt64() && !strings.Contains(s, "+")
		if got, gotOK := iotrace.Int([]byte(s)); gotOK != ok || ok && got != want.Int64() {
			t.Fatalf("%s: %d, %v", s, got, gotOK)
		}
	})
	if n, ok := iotrace.Int([]byte("-9223372036854775808")); !ok || n != math.MinInt64 {
		t.Error(n, ok)
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "0.0": 0, "1": 1e9, "1.": 1e9, ".5": 5e8, "0.0001": 1e5, "1700000000.123456": 1700000000123456000,
		"-0.25": -25e7, "0.1234567899": 123456789, "0.000000001": 1, "12.3456": 12345600000, "0.00000000055": 0,
	} {
		if got, ok := iotrace.Seconds([]byte(s)); !ok || got != want {
			t.Errorf("%s: %d, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", ".", "-", "1.2.3", "x", "1x", "9223372036854775807", "9223372037.0e", "1e9"} {
		if got, ok := iotrace.Seconds([]byte(s)); ok {
			t.Errorf("%q: %d", s, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-9e17, 9e17).Draw(t, "ns")
		sign := ""
		a := n
		if n < 0 {
			sign, a = "-", -n
		}
		if got, ok := iotrace.Seconds(fmt.Appendf(nil, "%s%d.%09d", sign, a/1e9, a%1e9)); !ok || got != n {
			t.Fatalf("%d: %d, %v", n, got, ok)
		}
	})
}

func TestField(t *testing.T) {
	rest := []byte(" one\ttwo   three")
	for _, want := range []string{"one", "two", "three", "", ""} {
		var w []byte
		if w, rest = iotrace.Field(rest); string(w) != want {
			t.Errorf("%q, not %q", w, want)
		}
	}
}
