package turns

import (
	"encoding/json"
	"fmt"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
)

// A teller prints the events of a controller.
type teller struct {
	g *ui.Globals
	o *turns.ServeOptions
}

// eventLine is an event of a controller.
type eventLine struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	Dir     string    `json:"dir,omitempty"`
	Policy  string    `json:"policy,omitempty"`
	Address string    `json:"address,omitempty"`
	Name    string    `json:"name,omitempty"`
	User    string    `json:"user,omitempty"`
	Rank    *int      `json:"rank,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// Observe prints an event. Without -v it prints only those that a user should see.
func (t *teller) Observe(e turns.Event) {
	if t.g.JSON {
		line := eventLine{Type: e.What, Time: e.Time.UTC(), Name: e.App, User: e.User, PID: e.PID, Reason: ui.OneLine(e.Text)}
		if e.App != "" {
			line.Rank = &e.Rank
		}
		if e.Info != nil {
			line.Dir, line.Policy, line.Address = e.Info.Dir, e.Info.Policy, e.Info.Address
		}
		_ = json.NewEncoder(t.g.Out).Encode(line) // a closed pipe must not end the turns
		return
	}
	often := e.What == turns.Joined || e.What == turns.Left || e.What == turns.Granted || e.What == turns.Revoking || e.What == turns.Omitted
	if t.g.Quiet || often && !t.g.Verbose {
		return
	}
	_ = t.g.Printf("%s %s\n", e.Time.Format(time.TimeOnly), t.describe(&e))
}

// describe puts an event into one line.
func (t *teller) describe(e *turns.Event) string {
	who := fmt.Sprintf("%s of %s", e.App, e.User)
	if e.Rank > 0 || e.PID == 0 {
		who += fmt.Sprintf(", rank %d,", e.Rank)
	} else {
		who += fmt.Sprintf(", process %d,", e.PID)
	}
	switch e.What {
	case turns.Serving:
		text := fmt.Sprintf("%s: giving turns: policy %s, windows of %v, leases of %v", e.Info.Dir, e.Info.Policy, t.o.Arbiter.Window, t.o.Arbiter.Lease)
		if e.Info.Address != "" {
			text += ", on " + e.Info.Address + " for other hosts"
		}
		return text
	case turns.Joined:
		return who + " wants turns"
	case turns.Left:
		return who + " has left"
	case turns.Granted:
		return who + " has the turn"
	case turns.Revoking:
		return who + " is to give the turn back"
	case turns.Evicted:
		return who + " was evicted: it was silent, or did not give the turn back in time"
	case turns.Refused:
		return "a connection was refused: " + e.Text
	case turns.Omitted:
		return e.Text + " are not shown"
	case turns.Ending:
		return "ended: " + e.Text
	}
	return e.What
}
