package wording

import "testing"

func TestSprintf(t *testing.T) {
	defer Use(nil, nil)
	const format = "{group-size} %d: {restart %s} {keep} 0 of %q, {%d}"
	args := []any{3, "a{file}", "no{file}", 7}
	if got, want := Sprintf(format, args...), `{group-size} 3: {restart a{file}} {keep} 0 of "no{file}", {7}`; got != want {
		t.Errorf("without words: %s, want %s", got, want)
	}
	Use(func(s string) string { return "--" + s }, func(s string) string { return "ckpt " + s })
	if got, want := Sprintf(format, args...), `--group-size 3: ckpt restart a{file} --keep 0 of "no{file}", {7}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
