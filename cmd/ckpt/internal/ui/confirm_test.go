package ui

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestNumbers: ranges, and both ends of a long list.
func TestNumbers(t *testing.T) {
	for want, list := range map[string][]int{
		"":                         nil,
		"7":                        {7},
		"1-3, 5":                   {1, 2, 3, 5},
		"1, 3, 5, ..., 17, 19":     {1, 3, 5, 7, 9, 11, 13, 15, 17, 19},
		"1-2, 4-5, 7-8, 10-11, 20": {1, 2, 4, 5, 7, 8, 10, 11, 20},
	} {
		if got := Numbers(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
}

// TestConfirm: only a yes is one, and the end of the context ends the question.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]error{"y\n": nil, "Yes\n": nil, "yes": nil, "n\n": ErrDeclined, "\n": ErrDeclined, "": ErrDeclined, "yep\n": ErrDeclined} {
		g := &Globals{Streams: Streams{In: strings.NewReader(answer), Err: io.Discard}}
		if err := g.Confirm(t.Context(), "remove?"); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", answer, err, want)
		}
	}
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&Globals{Streams: Streams{In: in, Err: io.Discard}}).Confirm(ctx, "remove?"); !errors.Is(err, context.Canceled) {
		t.Errorf("no answer: %v", err)
	}
}
