package protocol

import "time"

// A lone Coordinator is that of a job of one group: it answers its own questions, as
// a supervisor of one group does.
type lone struct{ *Coordinator }

func newLone(cfg Config) lone { return lone{NewCoordinator(cfg)} }

// ranks numbers the ranks of a job.
func ranks(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func (l lone) Begin(now time.Duration) []Action { return l.answerAll(now, l.Coordinator.Begin(now)) }

func (l lone) Step(now time.Duration, ev Event) []Action {
	return l.answerAll(now, l.Coordinator.Step(now, ev))
}

func (l lone) answerAll(now time.Duration, acts []Action) []Action {
	var out []Action
	for _, a := range acts {
		switch a := a.(type) {
		case Down:
			out = append(out, l.Step(now, RollBack{l.latest()})...)
		case Await:
			out = append(out, l.Step(now, Permit{Step: a.Step})...)
		case Agreed:
			out = append(out, l.Step(now, Boundary(a))...)
		case Rest:
			o := Outcome{Result: Completed, Rank: -1, Results: a.Results}
			if a.Results == nil {
				o.Result = StoppedByRequest
			}
			out = append(out, l.Step(now, End{o})...)
		default:
			out = append(out, a)
		}
	}
	return out
}

// latest returns the newest checkpoint that may be restored, 0 if there is none.
func (l lone) latest() int {
	newest := 0
	for n := range l.known {
		newest = max(newest, n)
	}
	return newest
}
