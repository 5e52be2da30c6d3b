package study

import (
	"fmt"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image/nodes"
)

// lifeCapacity are the flags that bound what levels hold.
type lifeCapacity struct {
	keep            int
	capacity, local string
}

func (o *lifeCapacity) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.keep, "keep", 1, "checkpoints that stay in the store while one more is written")
	f.StringVar(&o.capacity, "capacity", "", "size of the store, like 1PiB (default no limit)")
	f.StringVar(&o.local, "local-capacity", "", "with --local-rate: size of the storage of a node, like 1TiB (default no limit)")
}

// check refuses jobs whose checkpoints do not fit.
func (o *lifeCapacity) check(f *pflag.FlagSet, c *costs) error {
	var q ui.Quantities
	store, node := q.Size("--capacity", o.capacity), q.Size("--local-capacity", o.local)
	held, onNode := c.heldInStore(o.keep), c.heldOnNode()
	switch {
	case q.Err != nil:
		return q.Err
	case o.keep < 1:
		return ui.BadUsage(fmt.Sprintf("--keep %d: want a number from 1", o.keep), "a restart needs one checkpoint")
	case c.local == 0 && f.Changed("local-capacity"):
		return ui.BadUsage("--local-capacity belongs to checkpoints on the nodes", "add the rate of their storage, like --local-rate 4GiB/s")
	case o.capacity != "" && held > float64(store):
		return ui.BadUsage(fmt.Sprintf("--capacity %s: %s and the one that is written need %s", o.capacity, ui.Count(o.keep, "checkpoint"), ui.Bytes(held)), "keep fewer, or store less with --node-bytes")
	case o.local != "" && onNode > float64(node):
		return ui.BadUsage(fmt.Sprintf("--local-capacity %s: a node holds %d versions with their protection, which need %s", o.local, nodes.Slots, ui.Bytes(onNode)),
			"protect less, like --protect xor:8, or store less with --node-bytes")
	}
	c.keep = o.keep
	return nil
}

// after refuses ways that turned out to hold more than there is room for: without a recovery line no
// checkpoint is superfluous.
func (o *lifeCapacity) after(r *simulateResult) error {
	var q ui.Quantities
	store := q.Size("--capacity", o.capacity)
	for i := range r.Lives {
		if l := &r.Lives[i]; store > 0 && l.StoreHeld > float64(store) {
			return ui.BadUsage(fmt.Sprintf("--capacity %s: the checkpoints of %s need %s", o.capacity, l.name(), ui.Bytes(l.StoreHeld)), "leave that way out, like --log kept, or give more room")
		}
	}
	return q.Err
}

// heldInStore is how many bytes the store holds at most, with logs or rounds to go back to.
func (c *costs) heldInStore(keep int) float64 {
	return float64(keep+1) * float64(c.bytes) * float64(c.nodes)
}

// heldOnNode is how many bytes a node holds at most.
func (c *costs) heldOnNode() float64 {
	if c.local == 0 {
		return 0
	}
	return nodes.Slots * float64(c.bytes) * (1 + c.protection())
}

// protection is how many bytes a byte of a node adds on other nodes.
func (c *costs) protection() float64 {
	return float64(c.scheme.Strength()) / float64(max(1, c.scheme.Nodes()-c.scheme.Strength()))
}

// held says what a way of so many checkpoints holds. Without a recovery line no checkpoint is
// superfluous.
func (c *costs) held(w way, checkpoints float64) (store, node float64) {
	store = c.heldInStore(c.keep)
	if w.bare && w.stagger == supervisor.Spread {
		store = max(1, checkpoints) * float64(c.bytes) * float64(c.nodes)
	}
	return store, c.heldOnNode()
}
