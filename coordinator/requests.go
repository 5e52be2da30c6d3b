package coordinator

import (
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
)

// An answerFunc takes the answer to a request, with the checkpoint that it tells of, or
// the error that aborted one.
type answerFunc func(a protocol.Answer, taken *job.CheckpointEvent, aborted error)

// requests are those that wait for an answer.
type requests struct {
	last    int // number given
	waiting map[int]answerFunc
	taken   map[int]*job.CheckpointEvent // by number, since a request began to wait
	aborted error                        // of a checkpoint, in the actions under way
}

func newRequests() requests {
	return requests{waiting: map[int]answerFunc{}, taken: map[int]*job.CheckpointEvent{}}
}

// add returns the number of a request.
func (r *requests) add(answer answerFunc) int {
	r.last++
	r.waiting[r.last] = answer
	return r.last
}

// note keeps a checkpoint that an answer may tell of.
func (r *requests) note(ev *job.CheckpointEvent) {
	if len(r.waiting) > 0 {
		r.taken[ev.Number] = ev
	}
}

func (r *requests) answer(a protocol.Answer) {
	answer, taken := r.waiting[a.ID], r.taken[a.Number]
	delete(r.waiting, a.ID)
	if len(r.waiting) == 0 {
		clear(r.taken)
	}
	if answer != nil {
		answer(a, taken, r.aborted)
	}
}

// end answers what is left when the job has ended.
func (r *requests) end() {
	for id, answer := range r.waiting {
		delete(r.waiting, id)
		answer(protocol.Answer{ID: id, Err: "the job has ended"}, nil, nil)
	}
}
