package coordinator

import (
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
)

// stepJob passes an event of the whole job to the protocol.
func (d *driver) stepJob(ev protocol.Event) { d.stepOf(supervisor.Job, ev) }

// step passes an event of the group to the protocol.
func (g *group) step(ev protocol.Event) { g.d.stepOf(g.id, ev) }

func (d *driver) stepOf(group int, ev protocol.Event) {
	if !d.over() {
		now := d.now()
		d.tellSigns(now)
		d.perform(d.machine.Step(now, supervisor.Event{Group: group, Event: ev}))
	}
}

// request passes a request to the protocol; answer is called in the loop.
func (d *driver) request(r protocol.Request, answer answerFunc) {
	r.ID = d.requests.add(answer)
	d.stepJob(protocol.Requested{Request: r})
}

// event passes an event to the protocol from outside of the loop.
func (g *group) later(ev protocol.Event) {
	g.d.helpers.Go(func() { g.d.post(func() { g.step(ev) }) })
}
