package coordinator

import (
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
)

// step passes an event of a group, or of supervisor.Job, to the protocol.
func (d *driver) step(group int, ev protocol.Event) {
	if !d.over() {
		now := d.now()
		d.tellSigns(now)
		d.perform(d.machine.Step(now, supervisor.Event{Group: group, Event: ev}))
	}
}

// request passes a request to the protocol; answer is called in the loop.
func (d *driver) request(r protocol.Request, answer answerFunc) {
	r.ID = d.requests.add(answer)
	d.step(supervisor.Job, protocol.Requested{Request: r})
}

// later passes an event to the protocol from outside of the loop.
func (g *group) later(ev protocol.Event) {
	g.d.helpers.Go(func() { g.d.post(func() { g.d.step(g.id, ev) }) })
}
