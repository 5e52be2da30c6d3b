package supervisor

import (
	"testing"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// answerOf asks for a checkpoint of two groups, has them answer and returns what the
// asker hears.
func answerOf(t *testing.T, answers ...protocol.Answer) protocol.Answer {
	t.Helper()
	s, err := New(Config{Groups: [][]int{{0}, {1}}, Log: channel.Receiver, Iterations: 100})
	if err != nil {
		t.Fatal(err)
	}
	s.asked[-1] = &request{id: 7, left: 2}
	for _, a := range answers {
		a.ID = -1
		s.answered(a)
	}
	if len(s.out) != 1 {
		t.Fatalf("%+v", s.out)
	}
	return s.out[0].Action.(protocol.Answer)
}

// TestAnswer: a request for a checkpoint of all groups is answered once, with the
// newest number or the first reason why one failed. A group that is at its end needs
// no checkpoint.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answers []protocol.Answer
		want    protocol.Answer
	}{
		"both":       {[]protocol.Answer{{Number: 4}, {Number: 3}}, protocol.Answer{ID: 7, Number: 4}},
		"one ended":  {[]protocol.Answer{{Err: finishingText}, {Number: 3}}, protocol.Answer{ID: 7, Number: 3}},
		"both ended": {[]protocol.Answer{{Err: finishingText}, {Err: finishingText}}, protocol.Answer{ID: 7, Err: finishingText}},
		"one failed": {[]protocol.Answer{{Number: 4}, {Err: "no space"}}, protocol.Answer{ID: 7, Err: "no space"}},
		"first":      {[]protocol.Answer{{Err: "no space"}, {Err: "gone"}}, protocol.Answer{ID: 7, Err: "no space"}},
		"reason":     {[]protocol.Answer{{Err: "no space"}, {Err: finishingText}}, protocol.Answer{ID: 7, Err: "no space"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answerOf(t, c.answers...); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
